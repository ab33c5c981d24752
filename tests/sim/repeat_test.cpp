// Repeats of a SNAPT after a silence, in virtual time (docs/PROTOCOL.md section 5.6): all that is
// lost is sent again, and the node takes it, whatever came meanwhile.
#include "tests/sim/downstream.hpp"
#include "tests/sim/two_paths.hpp"

#include <set>

#include <gtest/gtest.h>

namespace continuo::tests {
namespace {

using base::DropReason;
using base::milliseconds;
using base::PathMode;
using base::TrafficClass;

// A call, and beside it a terminal and a transfer down. Packets of these differ so much from each
// other that references are set again and again.
class CallAndTransfer : public TwoPaths {
  public:
    explicit CallAndTransfer(base::Duration delay)
        : TwoPaths(TrafficClass::LtLd, PathMode::Handover, link_of(delay), link_of(delay)) {
        open(terminal_, TrafficClass::LtLd);
        open(transfer_, TrafficClass::HtHd);
        pair.run_for(milliseconds(200));
    }

    // Every 20 ms a packet of the call and of the terminal, and so many of the transfer.
    void run(base::Duration span, int packets) {
        for (const base::TimePoint end = pair.now + span; pair.now < end;) {
            send(terminal_);
            for (int i = 0; i < packets; ++i) {
                send(transfer_);
            }
            talk(milliseconds(20));
        }
    }
    uint32_t sent() const { return transfer_.sent; }
    // Different ones that came, of the transfer.
    size_t arrived() const {
        std::set<uint32_t> numbers;
        for (const auto& packet : pair.node.delivered) {
            if (packet.size() > transfer_.payload_bytes) {
                numbers.insert(base::load_big_endian<uint32_t>(&packet[24]));
            }
        }
        return numbers.size();
    }

  private:
    struct Stream {
        packet::HeaderFields fields;
        size_t payload_bytes = 0;
        uint32_t sent = 0;
    };

    void open(Stream& stream, TrafficClass traffic_class) {
        stream.fields.flags = packet::tcp_flag::kAck;
        flow::Flow& opened = pair.node.flow(tuple_of(stream.fields), traffic_class);
        pair.node.send(opened, make_packet(stream.fields, {}), {}, pair.now);
    }
    void send(Stream& stream) {
        std::vector<uint8_t> payload(stream.payload_bytes);
        pair.random.fill(payload);
        packet::FiveTuple tuple = tuple_of(stream.fields);
        tuple.local = kLease;
        packet::HeaderFields fields = to_lease(stream.fields);
        fields.sequence = stream.sent++ * 1'000'000;
        pair.snapt.send(*pair.snapt.find(tuple), make_packet(fields, payload), {}, pair.now);
    }

    Stream terminal_{node_fields(packet::Protocol::Tcp, 6000, 22), 40};
    Stream transfer_{node_fields(packet::Protocol::Tcp, 6001, 5201), 1200};
};

// The path in use falls silent in the direction down, and some round trips later the node leaves
// it. Until then the node is heard, and it receives what is copied to the other path. Neither says
// anything about the lost datagrams.
TEST(RepeatSim, NoneIsGivenUpForWhatCameMeanwhile) {
    struct Silence {
        base::Duration delay;  // each way
        base::Duration span;
    };
    for (const auto& [delay, span] : {Silence{milliseconds(10), milliseconds(700)},
                                      Silence{milliseconds(50), milliseconds(600)},
                                      Silence{milliseconds(100), milliseconds(1200)}}) {
        CallAndTransfer both(delay);
        both.run(milliseconds(1000), 4);
        both.pair.lose(both.pair.down_link(0), kCertain);
        both.run(milliseconds(200), 8);
        both.run(span - milliseconds(200), 0);
        both.move();
        both.run(milliseconds(2000), 0);
        EXPECT_EQ(both.pair.node.session->drops().count(DropReason::BelowFloor), 0U);
        EXPECT_EQ(both.arrived(), both.sent()) << "though nothing follows";
    }
}

// The path falls silent in the direction down, with time-outs, and the node leaves it. The repeats
// arrive by the other path, under the numbers of the first one.
TEST(RepeatSim, WhatArrivesElsewhereTellsNothingOfTheOldPath) {
    CallAndTransfer both(milliseconds(10));
    both.run(milliseconds(1000), 4);
    const routing::PathSet& paths = both.pair.snapt.session->paths();
    both.pair.lose(both.pair.down_link(0), kCertain);
    both.run(milliseconds(300), 8);
    ASSERT_TRUE(paths.path(0).liveness().timeouts() > 0);
    const base::Duration rtt = paths.path(0).feedback().rtt().smoothed();
    const path::Measured before = paths.path(0).feedback().measured();
    both.move();
    both.run(milliseconds(2000), 0);
    ASSERT_GT(both.pair.snapt.session->counters().repeated_datagrams, 100U);
    ASSERT_EQ(both.arrived(), both.sent());
    EXPECT_TRUE(paths.path(0).liveness().timeouts() > 0) << "nothing has arrived there";
    EXPECT_EQ(paths.path(0).feedback().rtt().smoothed(), rtt);
    EXPECT_EQ(paths.path(0).feedback().measured().bytes_per_s, before.bytes_per_s);
    EXPECT_EQ(paths.path(0).feedback().measured().late_datagrams, before.late_datagrams);
    EXPECT_EQ(paths.path(0).feedback().measured().lost_datagrams, before.lost_datagrams);
    EXPECT_FALSE(paths.path(1).liveness().timeouts() > 0);
    EXPECT_EQ(paths.path(1).feedback().measured().lost_datagrams, 0U);
}

// The other path swallows the repeats: it is the one that does not answer.
TEST(RepeatSim, ThePathThatRepeatsOwesTheAnswer) {
    CallAndTransfer both(milliseconds(10));
    both.run(milliseconds(1000), 4);
    const routing::PathSet& paths = both.pair.snapt.session->paths();
    both.pair.lose(both.pair.down_link(0), kCertain);
    both.run(milliseconds(100), 8);
    both.pair.lose(both.pair.down_link(1), kCertain);
    both.move();
    both.pair.run_for(milliseconds(300));
    ASSERT_GT(both.pair.snapt.session->counters().repeated_datagrams, 10U);
    EXPECT_TRUE(paths.path(1).liveness().timeouts() > 0);
}

// A part of a burst has arrived, and the announcement names it. SNAPT repeats all of the burst, and
// waits for the rest of it alone.
TEST(RepeatSim, WhatIsNamedBeforeItIsRepeatedIsLostNowhere) {
    Downstream stream(link_of(milliseconds(10), 10'000'000), 1);
    stream.run_for(milliseconds(300));
    stream.send_run(40);
    stream.pair.run_for(milliseconds(20));
    stream.move(1);
    stream.run_for(milliseconds(2000));
    stream.pair.run_for(milliseconds(500));
    const tunnel::Session& snapt = *stream.pair.snapt.session;
    ASSERT_GT(stream.pair.misdirected, 0U);
    ASSERT_GT(snapt.counters().repeated_datagrams, stream.pair.misdirected + 5)
        << "the first ones of the burst had arrived";
    EXPECT_EQ(snapt.paths().path(1).feedback().measured().lost_datagrams, 0U);
    EXPECT_EQ(stream.arrived().size(), stream.sent);
}

}  // namespace
}  // namespace continuo::tests
