// Node: datagrams over TCP, inside the control link, while UDP does not get through.
#include "cnapt/node.hpp"
#include "common/base/log.hpp"

#include <algorithm>

namespace continuo::cnapt {

using base::TimePoint;

void Node::open_stream(SnaptLink& link,
                       dataplane::StreamPort port,
                       const base::Endpoint& address,
                       std::optional<uint8_t> slot) {
    const TimePoint now = loop_.now();
    link.stream = std::move(port);
    link.stream_address = address;
    link.stream_slot = slot;
    link.manager.on_stream_opened();
    if (!link.session) {
        return;
    }
    session::PathSet& paths = link.session->paths();
    paths.add(wire::kTcpPath, link.stream_address, path::MtuSearch{}.limit(), now);
    paths.path(wire::kTcpPath).set_room(link.stream.queue->room_bytes());
    if (link.is_on_stream()) {
        paths.activate(wire::kTcpPath, now);  // by the new connection
        link.session->on_stream_opened(now);
    }
    consider_stream(link, now);
    engine_.go_on(*link.session, now);
}

void Node::close_stream(SnaptLink& link) {
    link.stream = {};
    link.stream_slot.reset();
    if (!link.session) {
        return;
    }
    const TimePoint now = loop_.now();
    link.session->paths().remove(wire::kTcpPath);
    if (link.is_on_stream()) {
        link.moving_since = now;
        policy::PathSteps steps;
        link.manager.on_stream_closed(path_facts(link), now, steps);
        carry_out(link, steps, now);
    }
    engine_.go_on(*link.session, now);
}

void Node::on_stream(SnaptLink& link, dataplane::DatagramQueue& queue) {
    if (!link.session || !link.stream) {
        queue.discard();
        return;
    }
    const TimePoint now = loop_.now();
    const auto hand_over = [&](std::span<session::ReceivedDatagram> datagrams) {
        link.session->on_datagrams(datagrams, now);
        loop_.note_moved(datagrams.front().bytes.size());
    };
    // What SNAPT repeats was sealed for another path.
    const auto is_allowed = [](base::ByteView) { return true; };
    engine_.receiver().pull(queue, link.local_id, link.stream_address, 0, is_allowed, hand_over);
    engine_.tun().coalescer().flush();
    engine_.go_on(*link.session, now);
}

void Node::on_stream_room(SnaptLink& link) {
    if (link.session && link.stream) {
        link.session->paths().path(wire::kTcpPath).set_room(link.stream.queue->room_bytes());
        engine_.go_on(*link.session, loop_.now());
    }
}

// The announcement makes the next connection, and SNAPT repeat what was under way.
void Node::on_stream_lost(SnaptLink& link) {
    if (link.session && link.is_on_stream()) {
        const TimePoint now = loop_.now();
        link.session->paths().activate(wire::kTcpPath, now);
        engine_.go_on(*link.session, now);
    }
}

bool Node::send_stream(const session::TransmitItem& item, base::ByteView bytes) {
    const SnaptLink* link = link_of(*item.session);
    if (!link->stream) {
        return false;
    }
    const auto pushed = link->stream.push(bytes, item.segment_bytes);
    item.session->paths().path(wire::kTcpPath).set_room(pushed.room_bytes);
    if (pushed.is_taken && settings_.recording.packets != nullptr) {
        const base::IpAddress local = base::IpAddress::any(item.to.address.version);
        settings_.recording.packets->streamed({{local, 0}, item.to}, bytes, item.segment_bytes,
                                              dataplane::PacketRecorder::Direction::Outbound);
    }
    return pushed.is_taken;
}

void Node::consider_stream(SnaptLink& link, TimePoint now) {
    if (!link.session) {
        return;
    }
    policy::PathSteps steps;
    link.manager.consider_stream(path_facts(link), now, steps);
    carry_out(link, steps, now);
    set_stream_timer(link);
}

void Node::set_stream_timer(const SnaptLink& link) {
    if (link.manager.stream_due() < stream_timer_.deadline()) {
        stream_timer_.set(link.manager.stream_due());
    }
}

void Node::use_stream(SnaptLink& link, const policy::PathStep& step, TimePoint now) {
    note_move(link, step, now);
    session::PathSet& paths = link.session->paths();
    for (const Uplink* uplink : uplinks_->list()) {
        paths.path(uplink->slot).give_up();  // an answer to a retry is what brings it back
    }
    use_uplink(link, step.slot);
    paths.activate(wire::kTcpPath, now);
    base::log(base::LogLevel::Info, "%s: %s, data goes over TCP", link.name.c_str(), step.reason);
}

void Node::take_next_port(SnaptLink& link, base::IpVersion version) {
    if (link.udp_ports.empty() || !link.addresses.has(version)) {
        return;
    }
    uint16_t& port = link.addresses.of(version).port;
    const auto current = std::find(link.udp_ports.begin(), link.udp_ports.end(), port);
    const auto next = current == link.udp_ports.end() ? current : std::next(current);
    port = next == link.udp_ports.end() ? link.udp_ports.front() : *next;
}

bool Node::goes_nowhere(const SnaptLink& link) {
    return link.session && link.active_slot() && !link.is_on_stream() &&
           link.session->paths().path(*link.active_slot()).is_failing();
}

void Node::on_fallback_due() {
    const TimePoint now = loop_.refresh_now();
    for (const auto& link : links_) {
        consider_stream(*link, now);
    }
    engine_.pump(now);
}

}  // namespace continuo::cnapt
