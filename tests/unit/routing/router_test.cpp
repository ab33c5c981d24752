#include "common/routing/router.hpp"
#include "tests/support/acknowledged.hpp"
#include "tests/unit/routing/path_set_fixture.hpp"

#include <array>
#include <cmath>
#include <vector>

namespace continuo::routing::path_tests {
namespace {

using base::PathMode;

// One standard deviation of how many of `count` independent choices fall on an outcome of that
// probability.
double deviation(double count, double probability) {
    return std::sqrt(count * probability * (1 - probability));
}

// A node whose paths are usable, and flows on them.
struct Routed : Node {
    Router router{paths};
    SpreadKnobs knobs{.resequence = milliseconds(200)};

    // The first one is the active path.
    void add(uint8_t path, base::Duration round_trip) {
        paths.node().add(path, kSnapt, 1500, now);
        if (!paths.active()) {
            paths.node().activate(path, now);
        }
        paths.path(path).node().probe(now);
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
        ASSERT_EQ(paths.path(path).feedback().smoothed_rtt(), round_trip);
    }
    // It was full at that rate.
    void tell_rate(uint8_t path, uint64_t bytes_per_s) {
        tests::Acknowledged{paths, 1, space(path)}.deliver_at(
            bytes_per_s, true, 0, now, [this](base::Duration span) { return now += span; });
    }
    std::optional<Way> route(const flow::Flow& flow) const {
        return router.route(flow, packet::Packet{}, knobs, now);
    }
    // The path of a new flow with that index; UINT8_MAX: none.
    uint8_t path_of(uint32_t index,
                    TrafficClass traffic_class = TrafficClass::HtHd,
                    PathMode mode = PathMode::Flow) const {
        const auto way = route(flow_of(index, traffic_class, mode));
        return way ? way->destination.path : UINT8_MAX;
    }
    // The path of the next datagram in mode packet; what `send` says leaves there first.
    uint8_t stripe(TrafficClass traffic_class = TrafficClass::HtHd) const {
        return path_of(0, traffic_class, PathMode::Packet);
    }
    tests::Acknowledged on(uint8_t path, TrafficClass traffic_class = TrafficClass::HtHd) {
        return {paths, 1, space(path, traffic_class)};
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
    EXPECT_NEAR(static_cast<double>(node.spread(0, 1000)[1]), 750, 3 * deviation(1000, 0.75));
    EXPECT_NEAR(static_cast<double>(node.spread(0, 40)[1]), 30, 3 * deviation(40, 0.75));
}

TEST(Router, PathsThatWereNeverFullShareAlike) {
    Routed node;
    for (uint8_t path = 0; path < 3; ++path) {
        node.add(path, milliseconds(100));
    }
    for (const size_t on : node.spread(0, 999)) {
        EXPECT_NEAR(static_cast<double>(on), 333, 3 * deviation(999, 1.0 / 3));
    }
}

// How 1000 flows, `stride` indices apart, are spread over two paths.
struct Halves {
    double second = 0;  // on the second path
    double six = 0;     // flows that are on the path of the five before them
};
Halves halves_of(const Routed& node, uint8_t second, uint32_t stride) {
    Halves halves;
    uint8_t last = UINT8_MAX;
    size_t run = 0;
    for (uint32_t i = 0; i < 1000; ++i) {
        const uint8_t path = node.path_of(i * stride);
        run = path == last ? run + 1 : 1;
        last = path;
        halves.second += path == second ? 1 : 0;
        halves.six += run >= 6 ? 1 : 0;
    }
    return halves;
}

// Slots move on with each new address, and flows of other modes take indices between those of mode
// flow. Five standard deviations, since 364 cases are looked at.
TEST(Router, AnyTwoPathsShareFlowsAtAnyStrideAsByIndependentChoices) {
    // Six of two are on one path in 1/32 of cases. Sixes that overlap are not independent: k flows
    // later, both are with probability 2^-(5 + k).
    constexpr double kSix = 1.0 / 32;
    double variance = kSix * (1 - kSix);
    for (int k = 1; k <= 5; ++k) {
        variance += 2 * (std::ldexp(1.0, -(5 + k)) - kSix * kSix);
    }
    const double six_deviation = std::sqrt(1000 * variance);
    for (uint8_t first = 0; first < 14; ++first) {
        for (uint8_t second = first + 1; second < 14; ++second) {
            Routed alike;
            Routed unlike;
            for (Routed* const node : {&alike, &unlike}) {
                node->add(first, milliseconds(100));
                node->add(second, milliseconds(100));
            }
            unlike.tell_rate(first, 1'000'000);
            unlike.tell_rate(second, 3'000'000);
            for (uint32_t stride = 1; stride <= 4; ++stride) {
                SCOPED_TRACE(testing::Message()
                             << int{first} << ' ' << int{second} << ' ' << stride);
                const Halves halves = halves_of(alike, second, stride);
                EXPECT_NEAR(halves.second, 500, 5 * deviation(1000, 0.5));
                EXPECT_NEAR(halves.six, 1000 * kSix, 5 * six_deviation);
                EXPECT_NEAR(halves_of(unlike, second, stride).second, 750,
                            5 * deviation(1000, 0.75));
            }
        }
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
    node.paths.node().remove(2);
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
    node.paths.node().remove(1);
    EXPECT_EQ(node.route(flow)->destination.path, 0);
    EXPECT_EQ(flow.paths.pinned, 1) << "until something has left";
}

TEST(Router, ALowDelayFlowTakesTheShorterRoundTrip) {
    Routed node;
    node.add(0, milliseconds(60));
    node.add(1, milliseconds(20));
    EXPECT_EQ(node.spread(0, 100, TrafficClass::LtLd)[1], 100U);
    EXPECT_NEAR(static_cast<double>(node.spread(0, 100, TrafficClass::HtHd)[1]), 50,
                3 * deviation(100, 0.5));
    node.add(2, milliseconds(24));
    const auto on = node.spread(0, 100, TrafficClass::LtLd);
    EXPECT_EQ(on[0], 0U);
    EXPECT_NEAR(static_cast<double>(on[1]), 50, 3 * deviation(100, 0.5))
        << "24 ms is as good as 20";
}

TEST(Router, APathThatWasNeverFullCountsAsFastAsTheFastest) {
    Routed node;
    node.add(0, milliseconds(100));
    node.add(1, milliseconds(100));
    node.tell_rate(0, 5'000'000);
    EXPECT_NEAR(static_cast<double>(node.spread(0, 1000)[1]), 500, 3 * deviation(1000, 0.5));
}

// --- Mode packet

TEST(Router, TheShorterRoundTripIsThereFirstUntilItsQueueIsLonger) {
    Routed node;
    node.add(0, milliseconds(20));
    node.add(1, milliseconds(100));
    EXPECT_EQ(node.stripe(), 0);
    const auto way = node.route(Routed::flow_of(0, TrafficClass::HtHd, PathMode::Packet));
    ASSERT_TRUE(way && way->is_striped);
    EXPECT_EQ(way->paths, mask_of(0)) << "the other one carries nothing";
    // One way path 1 is 40 ms slower; at 1.25 MB/s these are 50 000 bytes.
    node.on(0).send(0, 48, 1000, node.now);
    EXPECT_EQ(node.stripe(), 0);
    node.on(0).send(48, 12, 1000, node.now);
    EXPECT_EQ(node.stripe(), 1);
}

TEST(Router, AnAcknowledgementTellsThatThePathTookItIn) {
    Routed node;
    node.add(0, milliseconds(20));
    node.add(1, milliseconds(100));
    // 3 MB/s, of which nothing is known but that 1.25 MB/s are assumed.
    for (uint32_t i = 0; i < 600; ++i) {
        node.on(0).send(i, 1, 1500, node.now);
        node.now += base::microseconds(500);
    }
    EXPECT_EQ(node.stripe(), 1);
    node.on(0).acknowledge(0, 599, node.now);
    EXPECT_EQ(node.stripe(), 0);
}

// Both are filled alike, so that nothing arrives out of order.
TEST(Router, SharesOfBusyPathsFollowTheirRates) {
    Routed node;
    node.add(0, milliseconds(100));
    node.add(1, milliseconds(100));
    node.tell_rate(0, 1'000'000);
    node.tell_rate(1, 3'000'000);
    std::array<uint32_t, 2> sent{};
    for (int i = 0; i < 400; ++i) {
        const uint8_t path = node.stripe();
        node.on(path).send(10'000 + sent.at(path), 1, 1500, node.now);
        ++sent.at(path);
    }
    EXPECT_NEAR(sent[1], 300, 10);
}

TEST(Router, AQuestionQueuesNothing) {
    Routed node;
    node.add(0, milliseconds(20));
    node.add(1, milliseconds(22));
    for (int i = 0; i < 1000; ++i) {
        ASSERT_EQ(node.stripe(), 0);
    }
}

// Nothing else would measure it where the queue of the other path is short.
TEST(Router, APathWithoutARoundTripIsTriedAndSoMeasured) {
    Routed node;
    node.add(0, milliseconds(100));
    // The answer to the second of three challenges: when that left is not kept.
    node.paths.node().add(1, kSnapt, 1500, node.now);
    node.paths.path(1).node().probe(node.now);
    std::vector<wire::ChallengeToken> tokens;
    for (const TimePoint end = node.now + base::seconds(2); node.now < end;
         node.now += milliseconds(10)) {
        while (const auto probe = node.paths.next_probe(node.now)) {
            if (probe->challenge && probe->path == 1) {
                tokens.push_back(probe->challenge->token);
            }
        }
    }
    ASSERT_GE(tokens.size(), 3U);
    node.paths.on_response(space(1), {tokens[1]}, node.now);
    ASSERT_EQ(node.paths.path(1).feedback().smoothed_rtt(), base::Duration{});
    EXPECT_EQ(node.stripe(), 0);
    node.on(0).send(0, 1, 1200, node.now);
    EXPECT_EQ(node.stripe(), 1);
    node.on(1).send(0, 1, 1200, node.now);
    node.now += milliseconds(400);
    node.on(0).acknowledge(0, 0, node.now - milliseconds(300));
    node.on(1).acknowledge(0, 0, node.now);
    ASSERT_EQ(node.paths.path(1).feedback().smoothed_rtt(), milliseconds(400));
    for (uint32_t i = 1; i <= 7; ++i) {
        EXPECT_EQ(node.stripe(), 0) << "one way 300 ms less: 375 000 bytes at 1.25 MB/s";
        node.on(0).send(i * 20, 20, 1200, node.now);
    }
}

// A monotonic clock stands still while the node sleeps: a path that is measured after that seems
// faster, or slower, by what the others know from before.
TEST(Router, DelaysFromBeforeAPauseAreNotComparedWithThoseAfterIt) {
    Routed node;
    node.add(1, milliseconds(100));
    node.add(0, milliseconds(20));
    node.paths.node().activate(0, node.now);
    uint32_t number = 0;
    const auto tell = [&](uint8_t path, uint32_t delay) {
        const tests::Acknowledged told{node.paths, 1, space(path)};
        told.send(number, 1, 1500, node.now);
        const uint32_t arrived = recovery::RelativeDelay::clock_at(node.now) + delay;
        told.acknowledge(number, number, node.now + milliseconds(30), arrived);
        ++number;
    };
    tell(0, 10'000);
    tell(1, 10'400);
    ASSERT_EQ(node.stripe(), 0);
    node.paths.node().on_pause(node.now);
    tell(1, 6'400);
    EXPECT_EQ(node.stripe(), 0);
}

TEST(Router, AFullSocketIsLeftForAPathThatIsSoonEnough) {
    Routed node;
    node.add(0, milliseconds(20));
    node.add(1, milliseconds(100));
    node.paths.path(0).set_room(0);
    EXPECT_EQ(node.stripe(), 1);
    // 262 500 bytes are 210 ms there, more than the 200 that the receiver waits.
    for (uint32_t i = 0; i < 25; ++i) {
        node.on(1).send(i * 7, 7, 1500, node.now);
    }
    EXPECT_EQ(node.stripe(), 0) << "and waits for room";
    node.paths.path(1).set_room(0);
    EXPECT_EQ(node.stripe(), 0);
}

TEST(Router, StrategiesSpreadWhatTheirNamesSay) {
    Routed node;
    node.add(0, milliseconds(100));
    node.add(1, milliseconds(20));
    std::array<uint8_t, 60> bytes{0x45};
    bytes[9] = 6;      // TCP
    bytes[32] = 0x50;  // of 20 bytes
    const auto is_striped = [&](uint32_t length, base::Striping striping) {
        packet::Packet packet;
        packet.storage = bytes.data();
        packet.length = length;
        node.knobs.striping = striping;
        const auto flow = Routed::flow_of(0, TrafficClass::HtHd, PathMode::Packet);
        const auto way = node.router.route(flow, packet, node.knobs, node.now);
        EXPECT_EQ(way->destination.path, way->is_striped ? 1 : 0);
        return way->is_striped;
    };
    constexpr uint32_t kAck = 40;
    constexpr uint32_t kData = 60;
    for (const auto striping : {base::Striping::Packet, base::Striping::DataAck}) {
        EXPECT_TRUE(is_striped(kAck, striping));
        EXPECT_TRUE(is_striped(kData, striping));
    }
    EXPECT_FALSE(is_striped(kAck, base::Striping::Data));
    EXPECT_TRUE(is_striped(kData, base::Striping::Data));
    EXPECT_TRUE(is_striped(kAck, base::Striping::Ack));
    EXPECT_FALSE(is_striped(kData, base::Striping::Ack));
}

// --- Others

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
    node.paths.node().activate(1, node.now);
    const auto doubted = node.router.copy(TrafficClass::LtLd, 1, false, node.now);
    ASSERT_TRUE(doubted);
    EXPECT_EQ(doubted->destination.path, 0) << "the former one, until the new one has answered";
    EXPECT_TRUE(doubted->is_doubt);
    EXPECT_FALSE(node.router.copy(TrafficClass::HtHd, 1, false, node.now));
}

}  // namespace
}  // namespace continuo::routing::path_tests
