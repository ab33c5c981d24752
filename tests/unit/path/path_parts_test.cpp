#include "common/path/announcements.hpp"
#include "common/path/copy_wish.hpp"
#include "common/path/keepalive_search.hpp"
#include "common/path/sign_of_life.hpp"
#include "common/path/silence.hpp"

#include <gtest/gtest.h>

namespace continuo::path {
namespace {

using base::milliseconds;
using base::seconds;
using base::TimePoint;

constexpr TimePoint kStart{seconds(100)};
constexpr base::Duration kLongest = seconds(25);

TEST(KeepaliveSearch, OneLossMayBeChanceAndTheSecondShortens) {
    KeepaliveSearch search;
    TimePoint now = kStart;
    const auto lose = [&](base::Duration idle) {
        search.on_request(idle, now + seconds(1));
        search.on_packets(idle, kLongest, now + milliseconds(10));
        now += seconds(30);
    };
    lose(seconds(20));
    EXPECT_EQ(search.interval(kLongest), kLongest);
    lose(seconds(10));
    EXPECT_EQ(search.interval(kLongest), seconds(5));
    search.try_longer(kLongest, now);
    EXPECT_EQ(search.interval(kLongest), seconds(5));
    search.try_longer(kLongest, now + KeepaliveSearch::kTryLongerAfter);
    EXPECT_EQ(search.interval(kLongest), seconds(10));
}

TEST(KeepaliveSearch, AMappingThatOutlivedAsMuchDisprovesALoss) {
    KeepaliveSearch search;
    search.on_request(seconds(10), kStart + seconds(1));
    search.on_packets(seconds(10), kLongest, kStart);
    search.on_packets(seconds(10), kLongest, kStart + seconds(60));
    search.on_request(seconds(10), kStart + seconds(71));
    search.on_packets(seconds(10), kLongest, kStart + seconds(70));
    EXPECT_EQ(search.interval(kLongest), kLongest);
}

// A keepalive that is sent just after the mapping ended repairs it, so that nothing is asked for.
TEST(KeepaliveSearch, ANewAddressAfterAnIdleTimeIsALossToo) {
    const base::Duration round_trip = milliseconds(50);
    KeepaliveSearch search;
    TimePoint now = kStart;
    const auto lose = [&](base::Duration idle, base::Duration told_after) {
        now += idle;
        search.on_sent(idle, now);
        search.on_new_address(round_trip, kLongest, now + told_after);
    };
    lose(seconds(20), round_trip);
    EXPECT_EQ(search.interval(kLongest), kLongest) << "one may be chance";
    lose(seconds(20), 2 * round_trip);
    EXPECT_EQ(search.interval(kLongest), kLongest) << "it was not that datagram";
    lose(seconds(20), round_trip);
    EXPECT_EQ(search.interval(kLongest), seconds(10));
    search.on_new_address(round_trip, kLongest, now + round_trip);
    EXPECT_EQ(search.interval(kLongest), seconds(10)) << "an idle time counts once";
    lose(seconds(10), round_trip);
    EXPECT_EQ(search.interval(kLongest), seconds(5)) << "now each counts";
    lose(milliseconds(900), round_trip);
    EXPECT_EQ(search.interval(kLongest), seconds(5)) << "no mapping is as short";
}

TEST(KeepaliveSearch, WhatComesAfterAPauseSaysNothing) {
    KeepaliveSearch search;
    for (const int at : {0, 60}) {
        search.on_request(seconds(10), kStart + seconds(at + 1));
        search.on_pause();
        search.on_packets(seconds(10), kLongest, kStart + seconds(at));
    }
    for (const int at : {100, 120}) {
        search.on_sent(seconds(10), kStart + seconds(at));
        search.on_pause();
        search.on_new_address(seconds(1), kLongest, kStart + seconds(at));
    }
    EXPECT_EQ(search.interval(kLongest), kLongest);
}

TEST(SignOfLife, RequestsAreTwiceAsFarApartEachTime) {
    SignOfLife sign;
    const base::Duration patience = seconds(1);
    TimePoint now = sign.deadline(kStart, patience);
    EXPECT_EQ(now, kStart + patience);
    base::Duration before = patience;
    for (int i = 0; i < 3; ++i) {
        sign.on_requested(patience, now);
        EXPECT_TRUE(sign.is_requested());
        const TimePoint next = sign.deadline(kStart, patience);
        EXPECT_EQ(next - now, 2 * before);
        before = next - now;
        now = next;
    }
    sign.on_heard(patience, now);
    EXPECT_FALSE(sign.is_requested());
    EXPECT_EQ(sign.deadline(now, patience), now + before) << "that was the answer";
    sign.on_heard(patience, now + 2 * patience);
    EXPECT_EQ(sign.deadline(now + seconds(60), patience), now + seconds(60) + patience);
}

TEST(Announcements, SomeCopiesThenEverLess) {
    Announcements announcements;
    EXPECT_FALSE(announcements.are_repeated());
    announcements.begin(3, kFirstProbeInterval, kStart);
    for (int copy = 0; copy < 2; ++copy) {
        announcements.on_sent(false, seconds(300), kStart);
        EXPECT_EQ(announcements.deadline(), kStart);
    }
    announcements.on_sent(false, seconds(300), kStart);
    EXPECT_EQ(announcements.deadline(), kStart + kFirstProbeInterval);
    TimePoint now = kStart;
    for (int i = 0; i < 10; ++i) {
        now = announcements.deadline();
        announcements.on_sent(false, seconds(300), now);
    }
    EXPECT_EQ(announcements.deadline() - now, kLongestProbeInterval) << "somebody was heard lately";
    for (int i = 0; i < 10; ++i) {
        now = announcements.deadline();
        announcements.on_sent(true, seconds(300), now);
    }
    EXPECT_EQ(announcements.deadline() - now, seconds(300));
    EXPECT_TRUE(announcements.are_rare(now));
    announcements.stop();
    EXPECT_FALSE(announcements.are_repeated());
}

TEST(Silence, WhatComesEndsItUnlessProofIsWanted) {
    Silence silence;
    silence.on_packets_sent(kStart);
    EXPECT_EQ(silence.since(), kStart);
    silence.on_heard(kStart, kStart + milliseconds(10));
    EXPECT_FALSE(silence.is_silent());
    silence.ask_for_proof(seconds(1), kStart + seconds(2));
    EXPECT_EQ(silence.since(), kStart + seconds(1));
    silence.on_heard(kStart, kStart + seconds(3));
    EXPECT_TRUE(silence.is_silent()) << "that says nothing of the way there";
    EXPECT_TRUE(silence.confirm(0, kStart + seconds(4)));
    EXPECT_FALSE(silence.is_silent());
    EXPECT_FALSE(silence.confirm(0, kStart + seconds(5)));
}

TEST(Silence, ProofIsAskedForWhenSomeDatagramsAreUnconfirmedAndOthersCome) {
    Silence silence;
    for (uint64_t i = 0; i < Silence::kUnconfirmedDatagrams - 1; ++i) {
        silence.on_packets_sent(kStart);
    }
    const TimePoint heard_at = kStart + milliseconds(1);
    EXPECT_EQ(silence.ask_for_proof_at(heard_at, seconds(1)), base::kNever);
    silence.on_packets_sent(kStart);
    EXPECT_EQ(silence.ask_for_proof_at(kStart, seconds(1)), base::kNever) << "nothing comes";
    EXPECT_EQ(silence.ask_for_proof_at(heard_at, seconds(1)), kStart + seconds(1));
    silence.ask_for_proof(seconds(1), kStart + seconds(1));
    EXPECT_EQ(silence.ask_for_proof_at(heard_at, seconds(1)), kStart + seconds(2));
    silence.on_reported();
    EXPECT_EQ(silence.ask_for_proof_at(heard_at, seconds(1)), kStart + seconds(1));
}

TEST(Silence, ABurstIsManyDatagramsWithoutAPause) {
    Silence silence;
    TimePoint now = kStart;
    for (uint32_t i = 0; i < Silence::kStreamDatagrams; ++i) {
        EXPECT_FALSE(silence.is_burst());
        silence.on_heard(now, now + milliseconds(20));
        now += milliseconds(20);
    }
    EXPECT_TRUE(silence.is_burst());
    silence.on_heard(now, now + seconds(1));
    EXPECT_FALSE(silence.is_burst());
}

TEST(Patience, IsSomeRoundTripsWithinBounds) {
    RttEstimator rtt;
    EXPECT_EQ(Patience::of(rtt, false).ask, seconds(1));
    EXPECT_EQ(Patience::of(rtt, true).doubt, seconds(2));
    rtt.on_sample(milliseconds(10), {}, kStart);
    EXPECT_EQ(Patience::of(rtt, false).ask, milliseconds(500));
    EXPECT_EQ(Patience::of(rtt, false).doubt, milliseconds(800));
    EXPECT_EQ(Patience::of(rtt, true).ask, milliseconds(200));
    EXPECT_EQ(Patience::of(rtt, true).doubt, milliseconds(400));
}

TEST(CopyWish, IsGoodForAsLongAgainAsThereHasBeenOne) {
    CopyWish wish;
    wish.repeat(seconds(2), kStart);
    EXPECT_TRUE(wish.is_on(kStart + milliseconds(199)));
    EXPECT_FALSE(wish.is_on(kStart + milliseconds(200)));
    wish.repeat(seconds(2), kStart + milliseconds(150));
    EXPECT_TRUE(wish.is_on(kStart + milliseconds(649)));
    EXPECT_FALSE(wish.is_on(kStart + milliseconds(650)));
    wish.end();
    EXPECT_FALSE(wish.is_on(kStart + milliseconds(200)));
}

}  // namespace
}  // namespace continuo::path
