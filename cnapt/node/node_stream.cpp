// Node: datagrams over TCP, inside the control link, while UDP does not get through.
#include "cnapt/node/node.hpp"
#include "common/base/log.hpp"

#include <algorithm>

namespace continuo::cnapt::node {

using base::TimePoint;
using session::PathState;
using uplinks::kBothVersions;
using uplinks::Uplink;
using uplinks::Uplinks;

void Node::open_stream(SnaptLink& link,
                       dataplane::StreamPort port,
                       const base::Endpoint& address,
                       std::optional<uint8_t> slot) {
    const TimePoint now = loop_.now();
    link.stream = std::move(port);
    link.stream_address = address;
    link.stream_slot = slot;
    link.stream_opened_at = now;
    if (!slot) {
        const Uplink* best = uplinks_->best_for(link.addresses, monitor_->snapshot());
        link.stream_slot = best != nullptr ? std::optional(best->slot) : std::nullopt;
    }
    if (!link.session) {
        return;
    }
    if (link.stream_slot && link.stream_slot != link.active_slot()) {
        link.hints |= session::mask_of(*link.stream_slot);
    }
    session::PathSet& paths = link.session->paths();
    paths.add(wire::kTcpPath, link.stream_address, session::Path{}.mtu, now);
    paths.set_room(wire::kTcpPath, link.stream.queue->room_bytes());
    if (link.is_on_stream() && link.stream_slot == link.active_slot()) {
        paths.activate(wire::kTcpPath, now);  // by the new connection
    }
    choose(link, now);
    driver_.pump(now);
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
        link.moving_since = std::min(link.moving_since, now);
    }
    choose(link, now);
    driver_.pump(now);
}

void Node::on_stream(SnaptLink& link, dataplane::DatagramQueue& queue) {
    if (!link.session || !link.stream) {
        queue.clear();
        return;
    }
    const TimePoint now = loop_.now();
    const auto hand_over = [&](std::span<session::ReceivedDatagram> datagrams) {
        link.session->on_datagrams(datagrams, now);
        loop_.note_moved(datagrams.front().bytes.size());
    };
    // Datagrams that SNAPT repeats were sealed for another path.
    const auto is_allowed = [](base::ByteView) { return true; };
    receiver_.pull(queue, link.local_id, link.stream_address, 0, is_allowed, hand_over);
    tun_port_->coalescer().flush();
    driver_.touch(*link.session);
    driver_.pump(now);
}

void Node::on_stream_room(SnaptLink& link) {
    if (link.session && link.stream) {
        link.session->paths().set_room(wire::kTcpPath, link.stream.queue->room_bytes());
        driver_.touch(*link.session);
        driver_.pump(loop_.now());
    }
}

// The announcement creates the next connection, and makes SNAPT repeat datagrams under way.
void Node::on_stream_lost(SnaptLink& link) {
    if (link.session && link.is_on_stream() && link.stream) {
        const TimePoint now = loop_.now();
        link.session->paths().activate(wire::kTcpPath, now);
        driver_.touch(*link.session);
        driver_.pump(now);
    }
}

bool Node::send_stream(const session::TransmitItem& item, base::ByteView bytes) {
    const SnaptLink* link = link_of(*item.session);
    if (!link->stream) {
        return false;
    }
    const auto pushed = link->stream.push(bytes, item.segment_bytes);
    item.session->paths().set_room(wire::kTcpPath, pushed.room_bytes);
    if (pushed.is_taken && settings_.recording.packets != nullptr) {
        const base::IpAddress local = base::IpAddress::any(item.to.address.version);
        settings_.recording.packets->streamed({{local, 0}, item.to}, bytes, item.segment_bytes,
                                              dataplane::PacketRecorder::Direction::Outbound);
    }
    return pushed.is_taken;
}

bool Node::goes_nowhere(const SnaptLink& link) {
    return link.session && link.active_slot() && !link.is_on_stream() &&
           link.session->paths().path(*link.active_slot()).is_failing();
}

}  // namespace continuo::cnapt::node
