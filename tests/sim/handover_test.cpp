// Moves of a node in virtual time: datagrams under way are repeated, and nothing is delivered
// twice.
#include "common/flow/counter_values.hpp"
#include "tests/sim/downstream.hpp"
#include "tests/sim/two_paths.hpp"
#include "tests/support/seeds.hpp"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

namespace continuo::tests {
namespace {

using base::milliseconds;
using base::TrafficClass;

SimLink bad_link() {
    SimLink link;
    link.loss_ppm = 20'000;
    link.duplicate_ppm = 20'000;
    link.jitter = milliseconds(10);
    link.keeps_order = true;  // what comes behind the highest number is not repeated
    return link;
}

TEST(HandoverSim, WhatWasUnderWayToTheOldAddressIsRepeatedOnce) {
    for (const uint64_t seed : seeds(10)) {
        Downstream stream({}, seed);
        stream.run_for(milliseconds(300));
        stream.move(static_cast<uint8_t>(1 + seed % 10));
        stream.run_for(milliseconds(300));
        stream.pair.run_for(base::seconds(1));
        EXPECT_GT(stream.pair.misdirected, 0U) << "something was under way";
        EXPECT_EQ(stream.arrived().size(), stream.sent) << "seed " << seed;
        const session::SessionCounters& counters = stream.pair.snapt.session->counters();
        EXPECT_GE(counters.repeated_datagrams, stream.pair.misdirected);
        EXPECT_LE(counters.repeated_datagrams, stream.pair.misdirected + 10)
            << "what had come is not sent again, but for what came after the announcement left";
    }
}

// Half a round trip of 20 ms; a pair created after the move has not moved.
TEST(HandoverSim, AFlowCountsItsMovesAndTheDelayOfItsPath) {
    Downstream stream(link_of(milliseconds(10)), 4);
    SessionPair& pair = stream.pair;
    stream.run_for(milliseconds(300));
    stream.move(3);
    stream.run_for(milliseconds(300));
    stream.move(4);
    stream.run_for(milliseconds(300));
    const auto later = node_fields(packet::Protocol::Udp, 6000, 6001);
    pair.node.send(pair.node.flow(tuple_of(later), TrafficClass::HtHd),
                   make_packet(later, std::vector<uint8_t>(100)), {}, pair.now);
    pair.run_for(milliseconds(300));
    ASSERT_EQ(pair.snapt.slots.size(), 2U);
    std::multiset<uint64_t> moves;
    for (const auto& [name, slot] : pair.snapt.slots) {
        const flow::CounterValues values = flow::read_counters(slot->counters);
        moves.insert(values.handovers);
        ASSERT_GT(values.delay_samples, 0U);
        const uint64_t delay_us = values.delay_us_sum / values.delay_samples;
        EXPECT_GE(delay_us, 10'000U) << name;
        EXPECT_LE(delay_us, 12'000U) << name;
        EXPECT_LT(values.jitter_us_sum / values.delay_samples, 5'000U) << name;
        EXPECT_EQ(flow::value(pair.node.slots.begin()->second->counters.delay_samples), 0U);
    }
    EXPECT_EQ(moves, (std::multiset<uint64_t>{0, 2}));
}

// As long as they took, with what they waited at the SNAPT, here for a rate.
TEST(HandoverSim, TheDelayOfAFlowHasWhatItsPacketsWaited) {
    Downstream stream(link_of(milliseconds(10)), 4);
    SessionPair& pair = stream.pair;
    stream.run_for(milliseconds(200));  // the round trip is known
    pair.run_for(milliseconds(200));
    const auto& counters = pair.snapt.slots.begin()->second->counters;
    const flow::CounterValues before = flow::read_counters(counters);
    const uint32_t sent_before = stream.sent;
    const base::TimePoint began = pair.now;
    pair.snapt.rate.set_rate(1'000'000);
    stream.run_for(milliseconds(500));  // five times the rate
    pair.run_for(base::seconds(10));
    base::Duration taken{};
    int64_t count = 0;
    for (size_t i = 0; i < pair.node.delivered.size(); ++i) {
        const auto number = base::load_big_endian<uint32_t>(&pair.node.delivered[i][28]);
        if (number > sent_before) {
            taken += pair.node.delivered_at[i] - (began + milliseconds(number - sent_before - 1));
            ++count;
        }
    }
    ASSERT_GT(count, 100);
    const flow::CounterValues delta = flow::difference(flow::read_counters(counters), before);
    ASSERT_GT(delta.delay_samples, 100U);
    const auto mean_us = static_cast<double>(base::to_us(taken) / count);
    EXPECT_GT(mean_us, 200'000) << "most of it is a wait";
    EXPECT_NEAR(static_cast<double>(delta.delay_us_sum / delta.delay_samples), mean_us,
                0.05 * mean_us);
}

// Both paths work: repeated datagrams have arrived, or will arrive, by the old path.
TEST(HandoverSim, WhatWasAskedForAgainIsCountedApartFromReplays) {
    for (const uint64_t seed : seeds(5)) {
        TwoPaths two(TrafficClass::LtLd, base::PathMode::Handover, link_of(milliseconds(60)),
                     link_of(milliseconds(10)), seed);
        SessionPair& pair = two.pair;
        two.talk(base::seconds(1));
        const auto count = [&pair](base::DropReason reason) {
            return pair.node.session->drops().count(reason);
        };
        EXPECT_EQ(count(base::DropReason::Repeated), 0U) << "nothing was asked for";
        pair.record = true;
        two.move();
        two.talk(base::seconds(1));
        pair.record = false;
        ASSERT_GT(pair.snapt.session->counters().repeated_datagrams, 0U) << "seed " << seed;
        EXPECT_GT(count(base::DropReason::Repeated), 0U) << "seed " << seed;
        EXPECT_EQ(count(base::DropReason::Replayed), 0U) << "seed " << seed;

        two.talk(base::seconds(12));
        const uint64_t repeated = count(base::DropReason::Repeated);
        const uint64_t recorded = pair.recorded_down.size();
        for (const auto& datagram : pair.recorded_down) {
            pair.inject(pair.node, datagram, pair.snapt_address, 0);
            pair.inject(pair.node, datagram, pair.snapt_address, 1);
        }
        ASSERT_GT(recorded, 0U);
        EXPECT_GE(count(base::DropReason::Replayed), recorded) << "long after the move";
        EXPECT_EQ(count(base::DropReason::Repeated), repeated);
    }
}

// A node never sends twice under one number.
TEST(HandoverSim, WhatComesTwiceToSnaptIsAlwaysAReplay) {
    TwoPaths two(TrafficClass::LtLd, base::PathMode::Handover, link_of(milliseconds(60)),
                 link_of(milliseconds(10)));
    SessionPair& pair = two.pair;
    pair.record = true;
    two.move();
    two.talk(milliseconds(200));
    pair.record = false;
    const base::DropCounters& drops = pair.snapt.session->drops();
    EXPECT_EQ(drops.count(base::DropReason::Replayed), 0U);
    for (const auto& datagram : pair.recorded_up) {
        pair.inject(pair.snapt, datagram, kOther);
    }
    EXPECT_GT(drops.count(base::DropReason::Replayed), 0U);
    EXPECT_EQ(drops.count(base::DropReason::Repeated), 0U);
}

// The route of a new address comes late, so that the announcements are lost, and a keepalive finds
// it before they are repeated: too short for SNAPT to ask back.
TEST(HandoverSim, AShortDatagramAheadOfTheAnnouncementsDelaysNothing) {
    Downstream stream({}, 5);
    SessionPair& pair = stream.pair;
    stream.run_for(milliseconds(300));
    pair.is_swallowed = [](bool is_up, const base::Endpoint&) { return is_up; };
    stream.move(3);
    for (int i = 0; i < 30; ++i) {
        pair.node.session->upkeep().request_keepalive(
            pair.now);  // takes along what there is to report
        stream.run_for(milliseconds(1));
    }
    pair.is_swallowed = {};
    pair.node.session->upkeep().request_keepalive(pair.now);
    stream.run_for(milliseconds(9));
    pair.node.session->paths().node().announce_again(pair.now);
    const base::TimePoint announced_at = pair.now;
    stream.run_for(milliseconds(5));
    const path::Tuple& tuple = pair.snapt.session->paths().path(3).validation().tuples()[0];
    ASSERT_LT(tuple.unproven_received_bytes(), 30U) << "only the keepalive has arrived";
    ASSERT_GT(tuple.unproven_received_bytes(), 0U);
    stream.run_for(milliseconds(300));
    const auto first = std::find_if(pair.node.delivered_at.begin(), pair.node.delivered_at.end(),
                                    [&](base::TimePoint at) { return at > announced_at; });
    ASSERT_NE(first, pair.node.delivered_at.end());
    EXPECT_LE(*first - announced_at, milliseconds(21)) << "one round trip";
    EXPECT_LE(TwoPaths::longest_gap(pair.node, announced_at), milliseconds(22))
        << "what was under way follows after another";
}

// A NAT that lost its mapping gives the node's short question another port. The answer leaves room
// for a question back, without which data goes on to the old port.
TEST(HandoverSim, AShortQuestionFromAnotherPortIsAnsweredAndAskedBack) {
    Downstream stream({}, 5);
    SessionPair& pair = stream.pair;
    stream.run_for(milliseconds(300));
    pair.is_swallowed = [](bool is_up, const base::Endpoint&) { return is_up; };
    pair.record = true;
    auto& snapt_paths = pair.snapt.session->paths();
    const uint8_t path = *snapt_paths.active();
    // The node asks like this when its own datagrams go unconfirmed.
    pair.node.session->paths().node().on_request(pair.now, pair.now);
    pair.run_for(milliseconds(1));
    ASSERT_EQ(pair.recorded_up.size(), 1U);
    ASSERT_LT(pair.recorded_up.front().size(), 40U);
    pair.inject(pair.snapt, pair.recorded_up.front(), kOther);
    pair.run_for(milliseconds(1));
    const path::Tuple& tuple = snapt_paths.path(path).validation().tuples()[0];
    EXPECT_EQ(tuple.remote(), kOther);
    EXPECT_FALSE(tuple.challenge().is_withheld());
    EXPECT_TRUE(tuple.challenge().was_sent()) << "the question back";
    EXPECT_GT(tuple.unproven_sent_bytes(), pair.recorded_up.front().size()) << "beside the answer";
    EXPECT_LE(tuple.unproven_sent_bytes(),
              tuple.unproven_received_bytes() * wire::kAmplificationFactor);
}

// A mapping expired while the node had nothing to send. Packets to it were lost meanwhile; the next
// keepalive shows SNAPT the new port, and no announcement follows.
TEST(HandoverSim, AKeepaliveFromAnotherPortBringsWhatWasLost) {
    Downstream stream(link_of(milliseconds(10)), 5);
    SessionPair& pair = stream.pair;
    stream.run_for(milliseconds(100));
    pair.run_for(base::seconds(2));
    pair.lose(pair.down, kCertain);
    stream.run_for(milliseconds(2));
    pair.run_for(milliseconds(20));
    ASSERT_EQ(stream.arrived().size(), stream.sent - 2);
    pair.node_address = kOther;
    pair.lose(pair.down, 0);
    const base::TimePoint from = pair.now;
    pair.node.session->upkeep().request_keepalive(pair.now);
    pair.run_for(milliseconds(100));
    EXPECT_EQ(stream.arrived().size(), stream.sent);
    EXPECT_LE(pair.node.delivered_at.back() - from, milliseconds(41)) << "two round trips";
    EXPECT_EQ(pair.snapt.session->counters().handovers, 0U) << "nobody has moved";
}

// The node was asked over control and announces itself from a new, unproven port: the part of a
// long run that exceeds the amplification limit follows later.
TEST(HandoverSim, ARunThatIsHalfRepeatedIsRepeatedInWhole) {
    Downstream stream(link_of(milliseconds(10)), 5);
    SessionPair& pair = stream.pair;
    stream.run_for(milliseconds(100));
    pair.run_for(base::seconds(3));
    const uint32_t before = stream.sent;
    pair.lose(pair.up, kCertain);
    pair.lose(pair.down, kCertain);
    stream.send_run(40);
    pair.run_for(base::seconds(2));
    ASSERT_EQ(stream.arrived().size(), before);
    pair.node_address = kOther;
    pair.lose(pair.up, 0);
    pair.lose(pair.down, 0);
    pair.node.session->upkeep().request_keepalive(pair.now);
    pair.run_for(milliseconds(200));
    EXPECT_EQ(stream.arrived().size(), stream.sent);
    EXPECT_LE(pair.snapt.session->counters().repeated_datagrams, 40U) << "once";
}

TEST(HandoverSim, AFewDatagramsOfALongWayAreSentAgainAtOnce) {
    Downstream stream(link_of(milliseconds(300)), 5);
    stream.run_for(milliseconds(50));
    stream.pair.run_for(base::seconds(2));
    const size_t before = stream.pair.node.delivered_at.size();
    stream.run_for(milliseconds(3));
    stream.move(3);
    stream.pair.run_for(base::seconds(3));
    const auto& times = stream.pair.node.delivered_at;
    ASSERT_EQ(times.size(), before + 3);
    EXPECT_GE(stream.pair.snapt.session->counters().repeated_datagrams, 2U);
    EXPECT_LE(times.back() - times[before], milliseconds(2));
}

TEST(HandoverSim, ANodeThatWasAwayForASecondGetsWhatItMissed) {
    Downstream stream({}, 7);
    stream.run_for(milliseconds(100));
    stream.pair.lose(stream.pair.up, kCertain);
    stream.pair.lose(stream.pair.down, kCertain);
    stream.run_for(base::seconds(1));
    stream.pair.lose(stream.pair.up, 0);
    stream.pair.lose(stream.pair.down, 0);
    stream.move(3);
    stream.run_for(milliseconds(100));
    stream.pair.run_for(base::seconds(1));
    EXPECT_EQ(stream.arrived().size(), stream.sent);
}

// As often as a SNAPT follows moves (RepeatLimit).
TEST(HandoverSim, ManyMovesOnABadLinkDeliverNothingTwice) {
    for (const uint64_t seed : seeds(10)) {
        Downstream stream(bad_link(), seed);
        for (uint8_t path = 1; path <= 30; ++path) {
            stream.run_for(path <= 8 ? milliseconds(50) : milliseconds(500));
            stream.move(path % wire::kMaxPaths);
        }
        stream.run_for(milliseconds(200));
        stream.pair.run_for(base::seconds(2));
        EXPECT_GE(stream.arrived().size(), stream.sent * 90 / 100) << "seed " << seed;
    }
}

TEST(HandoverSim, MovesBeyondTheLimitDeliverNothingTwiceAndEndWell) {
    for (const uint64_t seed : seeds(10)) {
        Downstream stream(bad_link(), seed);
        for (uint8_t path = 1; path <= 30; ++path) {
            stream.run_for(milliseconds(50));
            stream.move(path % wire::kMaxPaths);
        }
        stream.pair.run_for(base::seconds(2));
        const uint32_t before = stream.sent;
        const size_t arrived = stream.arrived().size();
        EXPECT_GE(arrived, before / 2) << "seed " << seed;
        stream.run_for(milliseconds(200));
        stream.pair.run_for(base::seconds(2));
        EXPECT_GE(stream.arrived().size() - arrived, (stream.sent - before) * 90 / 100)
            << "seed " << seed;
    }
}

TEST(HandoverSim, MemoryForRepetitionIsGivenBackAndBounded) {
    session::SentRing ring;
    const std::vector<uint8_t> datagram(60'000);
    const base::TimePoint start{base::seconds(10)};
    for (uint64_t i = 0; i < 1000; ++i) {
        session::SentEntry entry;
        entry.sent_at = start + milliseconds(static_cast<int64_t>(i));
        entry.first_sequence = i;
        ring.push(entry, datagram, start);
    }
    EXPECT_LE(ring.capacity_bytes(), session::kMaxSentRingBytes);
    EXPECT_LE(ring.entries() * datagram.size(), session::kMaxSentRingBytes);
    EXPECT_GE(ring.entries(), 30U) << "the newest are kept";
    ring.release(start);
    EXPECT_GT(ring.entries(), 0U);
    ring.release(start + base::seconds(30));
    EXPECT_EQ(ring.capacity_bytes(), 0U);
}

TEST(HandoverSim, TheOldestIsRepeatedFirstAndLowDelayClassesBeforeOthers) {
    session::SentRing ring;
    const base::TimePoint start{base::seconds(10)};
    for (uint8_t i = 0; i < 100; ++i) {
        session::SentEntry entry;
        entry.sent_at = start;
        entry.first_sequence = i;
        entry.traffic_class = i % 2 == 0 ? TrafficClass::HtHd : TrafficClass::LtLd;
        const std::vector<uint8_t> datagram(1000, i);
        ring.push(entry, datagram, start);
    }
    ring.mark_due([](const session::SentEntry& entry) { return entry.first_sequence >= 50; });
    std::vector<uint64_t> order;
    while (ring.has_due()) {
        session::SentEntry& entry = ring.next_due();
        EXPECT_EQ(ring.bytes(entry).front(), entry.first_sequence);
        order.push_back(entry.first_sequence);
        ring.done(entry, start);
    }
    ASSERT_EQ(order.size(), 50U);
    EXPECT_TRUE(std::is_sorted(order.begin(), order.begin() + 25));
    EXPECT_TRUE(std::is_sorted(order.begin() + 25, order.end()));
    EXPECT_EQ(order.front(), 51U);
    EXPECT_EQ(order.back(), 98U);
}

}  // namespace
}  // namespace continuo::tests
