// Repeats of a SNAPT after a silence, in virtual time (docs/PROTOCOL.md section 5.6): they are good
// still, and come though they are lost again.
#include "tests/sim/two_paths.hpp"

#include <set>

#include <gtest/gtest.h>

namespace continuo::tests {
namespace {

using base::DropReason;
using base::milliseconds;
using base::PathMode;
using base::seconds;
using base::TrafficClass;

// A call, and beside it a transfer down whose packets differ so much that references are set again
// and again.
class CallAndTransfer : public TwoPaths {
  public:
    explicit CallAndTransfer(const SimLink& second)
        : TwoPaths(TrafficClass::LtLd, PathMode::Handover, link_of(milliseconds(10)), second) {
        fields_.flags = packet::tcp_flag::kAck;
        fields_.has_timestamps = true;
        packet::FiveTuple tuple = tuple_of(fields_);
        flow::Flow& opened = pair.node.flow(tuple, TrafficClass::HtHd);
        pair.node.send(opened, make_packet(fields_, {}), {}, pair.now);
        pair.run_for(milliseconds(200));
        tuple.local = kLease;
        transfer_ = pair.snapt.find(tuple);
    }

    // So many packets of the transfer, and one of the call.
    void send(int packets) {
        for (int i = 0; i < packets; ++i) {
            std::vector<uint8_t> payload(1200);
            pair.random.fill(payload);
            packet::HeaderFields fields = to_lease(fields_);
            fields.sequence = sent_++ * 1'000'000;
            pair.snapt.send(*transfer_, make_packet(fields, payload), {}, pair.now);
        }
        talk(milliseconds(20));
    }
    // A second of transfer, then both uplinks are away, and eight packets are lost.
    void go_away() {
        for (int i = 0; i < 50; ++i) {
            send(4);
        }
        cut(0);
        cut(1);
        send(8);
    }
    uint32_t sent() const { return sent_; }
    // Different ones that came.
    size_t arrived() const {
        std::set<uint32_t> numbers;
        for (const auto& packet : pair.node.delivered) {
            if (packet.size() > 1200) {
                numbers.insert(base::load_big_endian<uint32_t>(&packet[24]));
            }
        }
        return numbers.size();
    }
    uint64_t dropped(DropReason reason) const { return pair.node.session->drops().count(reason); }

  private:
    packet::HeaderFields fields_ = node_fields(packet::Protocol::Tcp, 6000, 5201);
    flow::Flow* transfer_ = nullptr;
    uint32_t sent_ = 0;
};

// The new path is slower than the former, and has room for a part of what is sent again. The call
// comes by it while the node is in doubt, and later: its newest packets say nothing of the
// transfer, which was sent before and is sent again later.
TEST(RepeatSim, WhatIsLostAgainIsSentAgainAndNotGivenUpForWhatCameMeanwhile) {
    SimLink slow = link_of(milliseconds(10), 3'000'000);
    slow.queue_packets = 8;
    CallAndTransfer both(slow);
    for (int i = 0; i < 50; ++i) {
        both.send(4);
    }
    both.pair.lose(both.pair.down_link(0), kCertain);
    for (int i = 0; i < 60; ++i) {
        both.send(i < 10 ? 8 : 0);
    }
    both.move();
    for (int i = 0; i < 100; ++i) {
        both.send(0);
    }
    EXPECT_GT(both.pair.down_link(1).counters().dropped_by(LinkDrop::Queue), 0U);
    EXPECT_EQ(both.dropped(DropReason::BelowFloor), 0U);
    EXPECT_EQ(both.arrived(), both.sent()) << "though nothing follows";
}

// All that the node says by the other uplink is lost. SNAPT hears it again before it announces the
// path that it had, so there is no silence to end then.
TEST(RepeatSim, ANodeThatComesBackFromAPathThatSnaptNeverHeardGetsWhatItMissed) {
    CallAndTransfer both(link_of(milliseconds(10)));
    both.go_away();
    both.move();
    for (int i = 0; i < 30; ++i) {
        both.send(0);
    }
    both.mend(0);
    session::PathSet& paths = both.pair.node.session->paths();
    paths.path(0).probe(both.pair.now);
    both.send(0);
    both.send(0);
    EXPECT_LT(both.arrived(), both.sent());
    paths.activate(0, both.pair.now);
    for (int i = 0; i < 20; ++i) {
        both.send(0);
    }
    EXPECT_EQ(both.arrived(), both.sent()) << "though nothing follows";
}

// Both uplinks are away, and the one in use comes back: nothing moves.
TEST(RepeatSim, WhatASilenceOfThePathInUseSwallowedComesWhenItEnds) {
    CallAndTransfer both(link_of(milliseconds(10)));
    both.go_away();
    for (int i = 0; i < 150; ++i) {
        both.send(0);
    }
    both.mend(0);
    for (int i = 0; i < 100; ++i) {
        both.send(0);
    }
    EXPECT_EQ(both.arrived(), both.sent()) << "though nothing follows";
}

}  // namespace
}  // namespace continuo::tests
