// ControlLinks: plain connections, for datagrams of sessions that only authenticate
// (docs/PROTOCOL.md section 3.7).
#include "snapt/links/control_links.hpp"

namespace continuo::snapt::links {

bool ControlLinks::attach(LinkId id, std::unique_ptr<dataplane::PlainStream> plain) {
    auto parcel = std::make_shared<std::unique_ptr<dataplane::PlainStream>>(std::move(plain));
    return thread_.loop().post(
        [this, id, parcel = std::move(parcel)] { set_plain(id, std::move(*parcel)); });
}

void ControlLinks::set_plain(LinkId id, std::unique_ptr<dataplane::PlainStream> plain) {
    Link* link = find(id);
    if (link == nullptr || link->connection->control.state() != control::ServerState::Open) {
        ++shared_.counts.failed_handshakes;
        return;
    }
    link->plain_poller.reset();
    link->plain = std::move(plain);
    if (link->out && link->out->clear()) {  // sealed for the previous connection
        tell_room(*link);
    }
    link->plain_poller = std::make_unique<io::Poller>(
        thread_.loop(), link->plain->fd(), [this, id] { on_plain_readable(id); },
        [this, id] { on_writable(id); });
    link->plain_poller->watch(true);
    on_plain_readable(id);
}

void ControlLinks::on_plain_readable(LinkId id) {
    Link* link = find(id);
    if (link == nullptr || !link->plain) {
        return;
    }
    const auto take = [&](base::ByteView datagram) {
        link->connection->datagrams.on_datagram(datagram);
        return has_room(*link, kRoomForOne);
    };
    const bool goes_on = !has_room(*link, kRoomForOne) || link->plain->receive(take);
    if (!goes_on) {
        link->plain_poller.reset();
        link->plain.reset();
    } else {
        link->plain_poller->watch(!link->waits_for_room);
    }
    update(*link);
}

bool ControlLinks::flush_plain(Link& link) {
    const auto flushed = link.plain->flush(*link.out);
    if (!flushed) {
        link.plain_poller.reset();
        link.plain.reset();
        return false;
    }
    link.plain_poller->watch(!link.waits_for_room, !flushed->is_done);
    return flushed->tells_room;
}

void ControlLinks::remember_keys(const Link& link, const control::EpochKeys& keys) {
    if (link.is_readable) {
        shared_.hellos.add(link.connection->id, link.wire_session_up, link.tag_bytes, keys);
    }
}

}  // namespace continuo::snapt::links
