// RoamingNode: its control connection and the datagrams over it.
#include "tests/support/roaming_node.hpp"

#include <algorithm>
#include <utility>

namespace continuo::tests {

using base::Duration;
using base::TimePoint;

namespace {

// TCP and TLS 1.3, as cnapt connects.
constexpr int64_t kHandshakeRtts = 3;
constexpr Duration kTryAgain = base::milliseconds(500);
// A connection that is silent for so long is made anew by control itself (its keepalives).
constexpr Duration kControlPatience = base::seconds(10);
// Segments of 1220 bytes, and headers.
constexpr uint32_t kFullSegment = 1260;

bool takes_segments(const LinkSettings& link) {
    return link.is_up && (link.mtu_bytes == 0 || link.mtu_bytes >= kFullSegment);
}

}  // namespace

bool RoamingNode::carries_stream(uint8_t slot) const {
    return uplinks_[slot].is_there && takes_segments(up(slot).settings()) &&
           takes_segments(down(slot).settings());
}

void RoamingNode::connect() {
    connects_ = true;
    reconnect_at(pair_.now, std::nullopt);
}

void RoamingNode::reconnect_at(TimePoint at, std::optional<uint8_t> slot) {
    connect_at_ = at;
    connect_by_ = slot;
    next_slot_.reset();
}

void RoamingNode::follow_stream() {
    if (stream_slot_) {
        const bool carries = carries_stream(*stream_slot_);
        SessionPair::Stream& stream = *pair_.stream;
        stream.up.follow(carries, up(*stream_slot_).settings().delay, pair_.now);
        stream.down.follow(carries, down(*stream_slot_).settings().delay, pair_.now);
        const bool is_given_up =
            stream.up.stands() && pair_.now - stream.up.stands_since() >= kControlPatience;
        if (is_given_up && connect_at_ == base::kNever && !next_slot_) {
            reconnect_at(pair_.now, std::nullopt);
        }
    }
    if (connect_at_ <= pair_.now) {
        begin_connecting();
    }
    if (next_slot_ && opens_at_ <= pair_.now) {
        if (carries_stream(*next_slot_)) {
            stream_slot_ = std::exchange(next_slot_, std::nullopt);
            open_stream();
        } else {
            reconnect_at(pair_.now + kTryAgain, std::nullopt);
        }
    }
}

// Connects by the uplink that was named; else by all side by side: the first that carries wins.
void RoamingNode::begin_connecting() {
    connect_at_ = base::kNever;
    for (uint8_t slot = 0; slot < kUplinks && !next_slot_; ++slot) {
        if (carries_stream(slot) && connect_by_.value_or(slot) == slot) {
            next_slot_ = slot;
        }
    }
    if (!next_slot_) {
        reconnect_at(pair_.now + kTryAgain, std::nullopt);
        return;
    }
    const Duration round_trip =
        up(*next_slot_).settings().delay + down(*next_slot_).settings().delay;
    opens_at_ = pair_.now + round_trip * kHandshakeRtts;
}

// All that was under way in the former connection is lost.
void RoamingNode::open_stream() {
    ++connections_;
    pair_.stream.emplace();
    pair_.stream->node_address =
        *base::Endpoint::parse("192.0.2.15:" + std::to_string(connections_));
    pair_.stream->up.follow(true, up(*stream_slot_).settings().delay, pair_.now);
    pair_.stream->down.follow(true, down(*stream_slot_).settings().delay, pair_.now);
    session::PathSet& paths = pair_.node.session->paths();
    paths.add(wire::kTcpPath, pair_.snapt_address, path::MtuSearch{}.limit(), pair_.now);
    manager_.on_stream_opened();
    pair_.snapt.session->on_stream_opened(pair_.now);
    pair_.node.session->on_stream_opened(pair_.now);
    if (manager_.is_on_stream()) {
        paths.activate(wire::kTcpPath, pair_.now);
    }
    consider_stream();
}

void RoamingNode::close_stream() {
    stream_slot_.reset();
    pair_.stream.reset();
    pair_.node.session->paths().remove(wire::kTcpPath);
    policy::PathSteps steps;
    manager_.on_stream_closed(facts(), pair_.now, steps);
    carry_out(steps);
}

// Its address has gone.
void RoamingNode::lose_stream(uint8_t slot) {
    if (stream_slot_ == slot) {
        close_stream();
        reconnect_at(pair_.now, std::nullopt);
    }
}

void RoamingNode::use_stream() {
    session::PathSet& paths = pair_.node.session->paths();
    for (uint8_t slot = 0; slot < kUplinks; ++slot) {
        paths.path(slot).give_up();
    }
    paths.activate(wire::kTcpPath, pair_.now);
}

void RoamingNode::consider_stream() {
    policy::PathSteps steps;
    manager_.consider_stream(facts(), pair_.now, steps);
    carry_out(steps);
}

}  // namespace continuo::tests
