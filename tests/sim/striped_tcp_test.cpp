// What TCP gets of several paths in mode packet, in virtual time (docs/PROTOCOL.md section 5.9),
// from the first segment on. tests/bench/benches/multipath.py measures the same with real ones.
#include "tests/sim/striped_tcp.hpp"

#include <gtest/gtest.h>

namespace continuo::tests {
namespace {

using base::milliseconds;
using base::seconds;

const std::vector<Uplink> kEqualRates{
    {10, milliseconds(5)}, {10, milliseconds(15)}, {10, milliseconds(30)}};
const std::vector<Uplink> kUnequalRates{{30, milliseconds(1)}, {10, milliseconds(50)}};

// Of the rates of all, headers apart.
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
    constexpr uint64_t kSeeds = 3;
    double sum = 0;
    for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
        sum += share_of_sum(uplinks, flows, is_up, seed);
    }
    return sum / static_cast<double>(kSeeds);
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

// A round trip is then no longer than the data makes it.
TEST(StripedTcpSim, AcknowledgementsTakeTheFasterPath) {
    for (const bool is_up : {true, false}) {
        StripedTcp tcp(kUnequalRates, 1, is_up);
        LinkModel& slow = is_up ? tcp.pair.down_link(1) : tcp.pair.up_link(1);
        LinkModel& fast = is_up ? tcp.pair.down_link(0) : tcp.pair.up_link(0);
        const uint64_t before = slow.counters().offered_packets;
        const uint64_t fast_before = fast.counters().offered_packets;
        tcp.run(seconds(2));
        EXPECT_GE(fast.counters().offered_packets - fast_before, 500U);
        EXPECT_LE((slow.counters().offered_packets - before) * 20,
                  fast.counters().offered_packets - fast_before);
    }
}

}  // namespace
}  // namespace continuo::tests
