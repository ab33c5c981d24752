#include "common/session/router.hpp"
#include "tests/support/acknowledged.hpp"
#include "tests/unit/session/path_set_fixture.hpp"

namespace continuo::session::path_tests {
namespace {

using base::PathMode;

// A node whose paths are usable, and flows on them.
struct Routed : Node {
    Router router{paths};
    ClassSettings settings{.resequence = milliseconds(200)};

    // The first one is the active path.
    void add(uint8_t path, base::Duration round_trip) {
        paths.add(path, kSnapt, 1500, now);
        if (!paths.active()) {
            paths.activate(path, now);
        }
        paths.probe(path, now);
        std::optional<wire::ChallengeToken> token;
        while (const auto probe = paths.next_probe(now)) {
            if (probe->challenge && probe->path == path) {
                token = probe->challenge->token;
            }
        }
        ASSERT_TRUE(token);
        now += round_trip;
        paths.on_authenticated(space(path), kSnapt, kLocal, 100, true, now);
        paths.on_response(space(path), {*token}, now);
        ASSERT_EQ(paths.path(path).smoothed_rtt(), round_trip);
    }
    // It was full at that rate.
    void tell_rate(uint8_t path, uint64_t bytes_per_s) {
        tests::Acknowledged{paths, 1, space(path)}.deliver_at(
            bytes_per_s, true, 0, now, [this](base::Duration span) { return now += span; });
    }
    std::optional<Way> route(const flow::Flow& flow) const {
        return router.route(flow, packet::Packet{}, settings, now);
    }
    // The path of a new flow with that index; UINT8_MAX: none.
    uint8_t path_of(uint32_t index,
                    TrafficClass traffic_class = TrafficClass::HtHd,
                    PathMode mode = PathMode::Flow) const {
        const auto way = route(flow_of(index, traffic_class, mode));
        return way ? way->destination.path : UINT8_MAX;
    }
    // How many of the flows from `first` to `end` each path gets.
    std::array<size_t, 3>
    spread(uint32_t first, uint32_t end, TrafficClass traffic_class = TrafficClass::HtHd) const {
        std::array<size_t, 3> on{};
        for (uint32_t index = first; index < end; ++index) {
            ++on.at(path_of(index, traffic_class));
        }
        return on;
    }
    static flow::Flow flow_of(uint32_t index,
                              TrafficClass traffic_class = TrafficClass::HtHd,
                              PathMode mode = PathMode::Flow) {
        flow::Flow flow;
        flow.index = index;
        flow.traffic_class = traffic_class;
        flow.paths.mode = mode;
        return flow;
    }
};

TEST(Router, AFlowStaysOnItsPathHoweverTheRatesChange) {
    Routed node;
    node.add(0, milliseconds(20));
    node.add(1, milliseconds(20));
    flow::Flow flow = Routed::flow_of(7);
    const auto way = node.route(flow);
    ASSERT_TRUE(way && way->is_pinned);
    const uint8_t path = way->destination.path;
    Router::commit(flow, path);
    node.tell_rate(path, 100'000);
    node.tell_rate(1 - path, 10'000'000);
    EXPECT_EQ(node.route(flow)->destination.path, path);
    node.tell_rate(path, 10'000'000);
    node.tell_rate(1 - path, 100'000);
    EXPECT_EQ(node.route(flow)->destination.path, path);
}

TEST(Router, AQuestionPinsNothing) {
    Routed node;
    node.add(0, milliseconds(20));
    node.add(1, milliseconds(20));
    const flow::Flow flow = Routed::flow_of(7);
    const uint8_t path = node.route(flow)->destination.path;
    EXPECT_EQ(flow.paths.pinned, flow::FlowPaths::kNone);
    EXPECT_EQ(node.route(flow)->destination.path, path);
}

TEST(Router, FlowsAreSpreadByTheRatesAtWhichPathsWereFull) {
    Routed node;
    node.add(0, milliseconds(100));
    node.add(1, milliseconds(100));
    node.tell_rate(0, 1'000'000);
    node.tell_rate(1, 3'000'000);
    EXPECT_NEAR(static_cast<double>(node.spread(0, 1000)[1]), 750, 10);
    EXPECT_NEAR(static_cast<double>(node.spread(0, 40)[1]), 30, 3);
}

TEST(Router, PathsThatWereNeverFullShareAlike) {
    Routed node;
    for (uint8_t path = 0; path < 3; ++path) {
        node.add(path, milliseconds(100));
    }
    for (const size_t on : node.spread(0, 999)) {
        EXPECT_NEAR(static_cast<double>(on), 333, 10);
    }
}

// With independent hashes all six would be on one path in 3 % of cases.
TEST(Router, SixFlowsInARowNeverShareOnePathOfTwo) {
    Routed node;
    node.add(0, milliseconds(20));
    node.add(1, milliseconds(20));
    for (uint32_t first = 0; first < 5000; ++first) {
        const auto on = node.spread(first, first + 6);
        ASSERT_GE(on[0], 1U) << first;
        ASSERT_GE(on[1], 1U) << first;
    }
}

// Thaler and Ravishankar 1998: the others keep their path.
TEST(Router, WhereAPathEndsOnlyItsFlowsMoveAndBothOthersTakeThem) {
    Routed node;
    for (uint8_t path = 0; path < 3; ++path) {
        node.add(path, milliseconds(20));
    }
    std::vector<uint8_t> before;
    for (uint32_t index = 0; index < 999; ++index) {
        before.push_back(node.path_of(index));
    }
    node.paths.remove(2);
    std::array<size_t, 2> taken{};
    for (uint32_t index = 0; index < 999; ++index) {
        const uint8_t path = node.path_of(index);
        ASSERT_LT(path, 2);
        if (before[index] == 2) {
            ++taken[path];
        } else {
            EXPECT_EQ(path, before[index]);
        }
    }
    EXPECT_NEAR(static_cast<double>(taken[0]), static_cast<double>(taken[1]), 40);
}

TEST(Router, APinThatCannotBeUsedIsLeft) {
    Routed node;
    node.add(0, milliseconds(20));
    node.add(1, milliseconds(20));
    flow::Flow flow = Routed::flow_of(7);
    Router::commit(flow, 1);
    EXPECT_EQ(node.route(flow)->destination.path, 1);
    node.paths.remove(1);
    EXPECT_EQ(node.route(flow)->destination.path, 0);
    EXPECT_EQ(flow.paths.pinned, 1) << "until something has left";
}

TEST(Router, ALowDelayFlowTakesTheShorterRoundTrip) {
    Routed node;
    node.add(0, milliseconds(60));
    node.add(1, milliseconds(20));
    EXPECT_EQ(node.spread(0, 100, TrafficClass::LtLd)[1], 100U);
    EXPECT_NEAR(static_cast<double>(node.spread(0, 100, TrafficClass::HtHd)[1]), 50, 3);
    node.add(2, milliseconds(24));
    const auto on = node.spread(0, 100, TrafficClass::LtLd);
    EXPECT_EQ(on[0], 0U);
    EXPECT_NEAR(static_cast<double>(on[1]), 50, 5) << "24 ms is as good as 20";
}

TEST(Router, OtherModesTakeTheActivePath) {
    Routed node;
    node.add(0, milliseconds(20));
    node.add(1, milliseconds(20));
    for (const PathMode mode : {PathMode::Handover, PathMode::Redundant}) {
        for (uint32_t index = 0; index < 8; ++index) {
            const auto way = node.route(Routed::flow_of(index, TrafficClass::HtHd, mode));
            ASSERT_TRUE(way);
            EXPECT_EQ(way->destination.path, 0);
            EXPECT_FALSE(way->is_pinned);
        }
    }
}

TEST(Router, OnlyFlowsInModeRedundantAreCopiedWithoutDoubt) {
    Routed node;
    node.add(0, milliseconds(20));
    node.add(1, milliseconds(20));
    EXPECT_FALSE(node.router.copy(TrafficClass::LtLd, 0, false, node.now));
    const auto copy = node.router.copy(TrafficClass::HtHd, 0, true, node.now);
    ASSERT_TRUE(copy);
    EXPECT_EQ(copy->destination.path, 1);
    EXPECT_FALSE(copy->is_doubt);
    node.paths.activate(1, node.now);
    const auto doubted = node.router.copy(TrafficClass::LtLd, 1, false, node.now);
    ASSERT_TRUE(doubted);
    EXPECT_EQ(doubted->destination.path, 0) << "the former one, until the new one has answered";
    EXPECT_TRUE(doubted->is_doubt);
    EXPECT_FALSE(node.router.copy(TrafficClass::HtHd, 1, false, node.now));
}

}  // namespace
}  // namespace continuo::session::path_tests
