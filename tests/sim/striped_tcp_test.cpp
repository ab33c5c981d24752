// TCP throughput over several paths in mode packet, in virtual time (docs/PROTOCOL.md section 5.9),
// from the first segment on. tests/bench/benches/multipath.py measures the same with real
// connections.
#include "tests/sim/striped_tcp.hpp"
#include "tests/support/seeds.hpp"

#include <gtest/gtest.h>

namespace continuo::tests {
namespace {

using base::milliseconds;
using base::seconds;

const std::vector<Uplink> kEqualRates{
    {10, milliseconds(5)}, {10, milliseconds(15)}, {10, milliseconds(30)}};
const std::vector<Uplink> kUnequalRates{{30, milliseconds(1)}, {10, milliseconds(50)}};

// Datagrams without packets that an end has sent: acknowledgements, most of them.
uint64_t without_packets(const SessionEnd& end) {
    constexpr uint64_t kSmallest = 50;
    return end.session->counters().overhead_sent() / kSmallest;
}

// Throughput as a share of the sum of the rates, without headers.
double share_of_sum(const std::vector<Uplink>& uplinks, size_t flows, bool is_up, uint64_t seed) {
    StripedTcp tcp(uplinks, flows, is_up, seed);
    const double all = tcp.run(seconds(4));
    StripedTcp one({uplinks[0]}, flows, is_up, seed);
    double sum = 0;
    for (const Uplink& uplink : uplinks) {
        sum += static_cast<double>(uplink.megabits_per_s);
    }
    return all * static_cast<double>(uplinks[0].megabits_per_s) / one.run(seconds(4)) / sum;
}

double mean_share(const std::vector<Uplink>& uplinks, size_t flows, bool is_up) {
    const std::vector<uint64_t> tried = seeds(3);
    double sum = 0;
    for (const uint64_t seed : tried) {
        sum += share_of_sum(uplinks, flows, is_up, seed);
    }
    return sum / static_cast<double>(tried.size());
}

TEST(StripedTcpSim, OneFlowGetsFourFifthsOfThreeEqualPaths) {
    EXPECT_GE(mean_share(kEqualRates, 1, true), 0.85);
    EXPECT_GE(mean_share(kEqualRates, 1, false), 0.85);
}

TEST(StripedTcpSim, OneFlowGetsFourFifthsOfPathsThatDiffer) {
    EXPECT_GE(mean_share(kUnequalRates, 1, true), 0.8);
    EXPECT_GE(mean_share(kUnequalRates, 1, false), 0.8);
}

TEST(StripedTcpSim, ThreeFlowsGetNearlyAll) {
    EXPECT_GE(mean_share(kEqualRates, 3, true), 0.9);
    EXPECT_GE(mean_share(kEqualRates, 3, false), 0.9);
    EXPECT_GE(mean_share(kUnequalRates, 3, true), 0.85);
    EXPECT_GE(mean_share(kUnequalRates, 3, false), 0.85);
}

// The load that each strategy puts on a path beside the active one, which is slower: segments of an
// upload, and acknowledgements coming down.
TEST(StripedTcpSim, EachStrategySpreadsWhatItsNameSays) {
    using base::Striping;
    struct Case {
        Striping striping;
        bool spreads_data;
        bool spreads_acks;
    };
    for (const Case& wanted :
         {Case{Striping::Packet, true, true}, Case{Striping::DataAck, true, true},
          Case{Striping::Data, true, false}, Case{Striping::Ack, false, true}}) {
        SCOPED_TRACE(static_cast<int>(wanted.striping));
        StripedTcp tcp({{10, milliseconds(20)}, {10, milliseconds(5)}}, 1, true);
        tcp.set_striping(wanted.striping);
        const LinkModel& data = tcp.pair.up_link(1);
        const LinkModel& acks = tcp.pair.down_link(1);
        const uint64_t data_before = data.counters().offered_packets;
        const uint64_t acks_before = acks.counters().offered_packets;
        const uint64_t received_before = tcp.received();
        const uint64_t own_before = without_packets(tcp.pair.snapt);
        tcp.run(seconds(3));
        const uint64_t received = tcp.received() - received_before;
        const uint64_t data_beside = data.counters().offered_packets - data_before;
        const uint64_t acks_beside = acks.counters().offered_packets - acks_before;
        EXPECT_GE(received, 1500U);
        if (wanted.spreads_data) {
            EXPECT_GE(data_beside * 4, received);
        } else {
            EXPECT_LE(data_beside * 20, received);
        }
        if (wanted.spreads_acks) {
            EXPECT_GE(acks_beside * 16, received);  // several in a datagram
        } else {
            const uint64_t own = without_packets(tcp.pair.snapt) - own_before;
            EXPECT_LE((acks_beside - std::min(acks_beside, own)) * 50, received);
        }
    }
}

// A round trip is then no longer than the data makes it.
TEST(StripedTcpSim, AcknowledgementsTakeTheFasterPath) {
    for (const bool is_up : {true, false}) {
        StripedTcp tcp(kUnequalRates, 1, is_up);
        LinkModel& slow = is_up ? tcp.pair.down_link(1) : tcp.pair.up_link(1);
        LinkModel& fast = is_up ? tcp.pair.down_link(0) : tcp.pair.up_link(0);
        const uint64_t before = slow.counters().offered_packets;
        const uint64_t fast_before = fast.counters().offered_packets;
        const SessionEnd& sender = is_up ? tcp.pair.snapt : tcp.pair.node;
        const uint64_t own_before = without_packets(sender);
        tcp.run(seconds(2));
        const uint64_t own = without_packets(sender) - own_before;
        const uint64_t on_slow = slow.counters().offered_packets - before;
        EXPECT_GE(fast.counters().offered_packets - fast_before, 500U);
        EXPECT_LE((on_slow - std::min(on_slow, own)) * 20,
                  fast.counters().offered_packets - fast_before);
    }
}

// Longest time without progress after one of two paths has died.
base::Duration silence_when_dying(const std::vector<Uplink>& uplinks, size_t dying, bool is_up) {
    StripedTcp tcp(uplinks, 1, is_up);
    tcp.run(seconds(4));
    const std::string address = dying == 0 ? "192.0.2.2:40000" : "198.51.100.7:41001";
    const base::Endpoint dead = *base::Endpoint::parse(address);
    tcp.pair.is_swallowed = [dead](bool, const base::Endpoint& node_side) {
        return node_side == dead;
    };
    base::Duration longest{};
    base::TimePoint progress = tcp.pair.now;
    uint64_t received = tcp.received();
    for (const base::TimePoint end = tcp.pair.now + seconds(5); tcp.pair.now < end;) {
        tcp.run(milliseconds(1));
        if (tcp.received() != received) {
            longest = std::max<base::Duration>(longest, tcp.pair.now - progress);
            received = tcp.received();
            progress = tcp.pair.now;
        }
    }
    return std::max<base::Duration>(longest, tcp.pair.now - progress);
}

// Acknowledgements are too few for a REPORT to be owed: the usual interval shows that they are lost
// in a black hole. 0.2 to 0.6 s of the time is TCP's own timer.
TEST(StripedTcpSim, ATransferGoesOnWithinASecondWhenAPathDies) {
    const Uplink fast{10, milliseconds(5)};
    const Uplink slow{10, milliseconds(25)};
    for (const bool is_up : {true, false}) {
        for (const auto& uplinks : {std::vector{fast, slow}, std::vector{slow, fast}}) {
            for (const size_t dying : {size_t{0}, size_t{1}}) {
                EXPECT_LE(silence_when_dying(uplinks, dying, is_up), seconds(1))
                    << (is_up ? "up" : "down") << ", path " << dying << " dies of which "
                    << base::to_ms(uplinks[0].delay) << " ms is the first's delay";
            }
        }
    }
}

}  // namespace
}  // namespace continuo::tests
