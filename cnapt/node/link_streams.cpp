#include "cnapt/node/link_streams.hpp"

#include <algorithm>

namespace continuo::cnapt::node {

using base::TimePoint;
using uplinks::Uplink;

namespace {

// A capture does not show the port of the connection: it is not known here.
constexpr uint16_t kUnknownPort = 0;

}  // namespace

void LinkStreams::open(SnaptLink& link,
                       dataplane::StreamPort port,
                       const base::Endpoint& address,
                       std::optional<uint8_t> slot) {
    const TimePoint now = parts_.loop.now();
    link.stream = std::move(port);
    link.stream_address = address;
    link.stream_slot = slot;
    link.stream_opened_at = now;
    link.is_stream_stuck = false;
    if (!slot) {
        const Uplink* best = parts_.uplinks.best_for(link.addresses, parts_.monitor.snapshot());
        link.stream_slot = best != nullptr ? std::optional(best->slot) : std::nullopt;
    }
    if (!link.session) {
        return;
    }
    if (link.stream_slot && link.stream_slot != link.active_slot()) {
        link.hints |= routing::mask_of(*link.stream_slot);
    }
    routing::PathSet& paths = link.session->paths();
    paths.node().add(wire::kTcpPath, link.stream_address, recovery::MtuSearch::kLargest, now);
    paths.path(wire::kTcpPath).set_room(link.stream.queue->room_bytes());
    if (link.is_on_stream() && link.stream_slot == link.active_slot()) {
        paths.node().activate(wire::kTcpPath, now);  // by the new connection
    }
    choice_.choose(link, now);
    parts_.engine.pump(now);
}

void LinkStreams::close(SnaptLink& link) {
    link.stream = {};
    link.stream_slot.reset();
    if (!link.session) {
        return;
    }
    const TimePoint now = parts_.loop.now();
    link.session->paths().node().remove(wire::kTcpPath);
    if (link.is_on_stream()) {
        link.moving_since = std::min(link.moving_since, now);
    }
    choice_.choose(link, now);
    parts_.engine.pump(now);
}

void LinkStreams::on_datagrams(SnaptLink& link, dataplane::DatagramQueue& queue) {
    if (!link.session || !link.stream) {
        queue.clear();
        return;
    }
    const TimePoint now = parts_.loop.now();
    const auto hand_over = [&](std::span<session::ReceivedDatagram> datagrams) {
        link.session->on_datagrams(datagrams, now);
        parts_.loop.note_moved(datagrams.front().bytes.size());
    };
    // Datagrams that SNAPT repeats were sealed for another path.
    const auto is_allowed = [](base::ByteView) { return true; };
    parts_.engine.receiver().pull(queue, link.local_id, link.stream_address, kUnknownPort,
                                  is_allowed, hand_over);
    parts_.engine.flush();
    parts_.engine.touch(*link.session);
    parts_.engine.pump(now);
}

void LinkStreams::on_room(SnaptLink& link) {
    if (link.session && link.stream) {
        link.session->paths().path(wire::kTcpPath).set_room(link.stream.queue->room_bytes());
        parts_.engine.touch(*link.session);
        parts_.engine.pump();
    }
}

// The announcement creates the next connection, and makes SNAPT repeat datagrams under way.
void LinkStreams::on_lost(SnaptLink& link) {
    if (link.session && link.is_on_stream() && link.stream) {
        const TimePoint now = parts_.loop.now();
        link.session->paths().node().activate(wire::kTcpPath, now);
        parts_.engine.touch(*link.session);
        parts_.engine.pump(now);
    }
}

void LinkStreams::on_stuck(SnaptLink& link, bool is_stuck) {
    link.is_stream_stuck = is_stuck;
    choice_.choose(link, parts_.loop.now());
    parts_.engine.pump(parts_.loop.now());
}

bool LinkStreams::send(const SnaptLink& link,
                       const session::TransmitItem& item,
                       base::ByteView bytes) const {
    return parts_.engine.send_stream(link.stream, item, bytes, kUnknownPort);
}

}  // namespace continuo::cnapt::node
