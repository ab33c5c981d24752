// ControlServer: plain connections, which carry the datagrams of sessions that only authenticate
// (docs/PROTOCOL.md section 3.7). They come to the same ports as control links.
#include "snapt/control_server_inner.hpp"

namespace continuo::snapt {

// The deadline of an unfinished handshake goes on for it.
void ControlServer::Inner::on_stranger_readable(Link& link) {
    if (!link.plain) {
        link.plain = std::make_unique<dataplane::PlainStream>(std::move(link.stream));
    }
    Link* owner = nullptr;
    bool was_told = false;
    const bool goes_on = link.plain->receive([&](base::ByteView record) {
        base::ByteReader reader(record);
        const auto hello = wire::Hello::parse(reader);
        owner = hello ? greeted(*hello) : nullptr;
        was_told = true;
        return false;
    });
    if (goes_on && !was_told) {
        return;
    }
    if (owner != nullptr) {
        owner->plain_poller.reset();
        owner->plain = std::move(link.plain);
        if (owner->out && owner->out->clear()) {  // sealed for the connection before
            tell_room(*owner);
        }
    } else {
        ++failed_handshakes_;
    }
    const LinkId id = owner != nullptr ? owner->id : 0;
    link.poller.reset();
    link.lingering = true;  // counted
    remove(link);
    if (owner == nullptr) {
        return;
    }
    owner->plain_poller = std::make_unique<io::Poller>(
        loop_, owner->plain->fd(), [this, id] { on_plain_readable(id); },
        [this, id] {
            if (const auto found = links_.find(id); found != links_.end()) {
                update(*found->second);
            }
        });
    on_plain_readable(id);
}

ControlServer::Inner::Link* ControlServer::Inner::greeted(const wire::Hello& hello) {
    for (const auto& [id, link] : links_) {
        if (!link->is_readable || link->wire_session_up != hello.session_id ||
            link->control.state() != control::ServerState::Open) {
            continue;
        }
        if (link->hellos.accepts(hello, link->tag_bytes)) {
            return link.get();
        }
    }
    return nullptr;
}

void ControlServer::Inner::on_plain_readable(LinkId id) {
    const auto found = links_.find(id);
    if (found == links_.end() || !found->second->plain) {
        return;
    }
    Link& link = *found->second;
    const bool goes_on = link.plain->receive([&](base::ByteView datagram) {
        link.datagrams.on_datagram(datagram);
        return true;
    });
    if (!goes_on) {
        link.plain_poller.reset();
        link.plain.reset();
    }
    update(link);
}

void ControlServer::Inner::remember_keys(Link& link, const control::EpochKeys& keys) {
    if (link.is_readable) {
        link.hellos.add(keys);
    }
}

}  // namespace continuo::snapt
