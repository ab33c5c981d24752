#include "common/recovery/mtu_search.hpp"

#include <deque>
#include <functional>
#include <vector>

#include <gtest/gtest.h>

namespace continuo::recovery {
namespace {

using base::Duration;
using base::milliseconds;
using base::seconds;
using base::TimePoint;

// A search with a way that takes packets of up to `passes` bytes, and a sender of large datagrams,
// each with a small one behind it. Datagrams are acknowledged in order; what is missing then is
// lost.
class Asked {
  public:
    static constexpr uint16_t kSmall = 100;

    explicit Asked(uint16_t limit = 1500, uint16_t passes = 1500) : way_takes(passes) {
        search.begin(limit);
    }

    // `interval`: between datagrams of the size in use; zero: none are sent.
    void run_for(Duration span, Duration interval = milliseconds(1)) {
        constexpr Duration kStep = milliseconds(1);
        Duration until_next{};
        for (const TimePoint end = now + span; now < end; now += kStep) {
            if (interval != Duration{} && until_next <= Duration{}) {
                send(search.size());
                send(kSmall);
                until_next += interval;
            }
            until_next -= kStep;
            turn();
        }
    }
    void send(uint16_t outer_bytes) {
        search.on_sent(outer_bytes, now);
        sent.push_back({now, outer_bytes, outer_bytes <= way_takes && !loses(outer_bytes)});
    }
    void turn() {
        acknowledge();
        while (const auto probe = search.next(rtt, rtt / 4, random, now)) {
            probes.push_back(probe->outer_bytes);
            if (probe->outer_bytes <= way_takes && !loses(probe->outer_bytes)) {
                answers.push_back({now + rtt, probe->token});
            }
        }
        while (!answers.empty() && answers.front().at <= now) {
            EXPECT_TRUE(search.on_response(answers.front().token, now));
            answers.pop_front();
        }
    }
    void acknowledge() {
        for (; !sent.empty() && sent.front().at + rtt <= now; sent.pop_front()) {
            if (!sent.front().arrives) {
                missing.push_back(sent.front());
                continue;
            }
            search.on_acknowledged(sent.front().bytes, sent.front().at);
            for (const Datagram& lost : missing) {
                search.on_lost(lost.bytes, lost.at, now);
            }
            missing.clear();
        }
    }

    struct Datagram {
        TimePoint at;
        uint16_t bytes = 0;
        bool arrives = false;
    };
    struct Answer {
        TimePoint at;
        wire::ChallengeToken token;
    };
    MtuSearch search;
    base::SeededRandom random{7};
    TimePoint now{seconds(10)};
    Duration rtt = milliseconds(20);
    uint16_t way_takes;
    std::function<bool(uint16_t)> loses = [](uint16_t) { return false; };
    std::deque<Answer> answers;
    std::deque<Datagram> sent;
    std::vector<Datagram> missing;
    std::vector<uint16_t> probes;
};

TEST(MtuSearch, BeginsWithTheSizeOfTheUplinkUnconfirmed) {
    MtuSearch search;
    search.begin(1420);
    EXPECT_EQ(search.size(), 1420);
    EXPECT_EQ(search.state(), MtuState::Base);
    EXPECT_EQ(search.deadline(), base::kNever);
}

TEST(MtuSearch, ALimitThatNoDatagramCanHaveIsBroughtWithinBounds) {
    MtuSearch search;
    search.begin(UINT16_MAX);
    EXPECT_EQ(search.size(), MtuSearch::kLargest);
    search.set_limit(68);
    EXPECT_EQ(search.size(), MtuSearch::kSmallest);
    search.set_limit(UINT16_MAX);
    EXPECT_EQ(search.limit(), MtuSearch::kLargest);
}

TEST(MtuSearch, TheFirstLargeDatagramIsFollowedByOneProbeAndItsAnswerEndsTheSearch) {
    Asked asked;
    asked.send(1500);
    asked.run_for(seconds(2), {});
    EXPECT_EQ(asked.probes, std::vector<uint16_t>{1500});
    EXPECT_EQ(asked.search.state(), MtuState::SearchComplete);
}

TEST(MtuSearch, NothingIsAskedWhileNothingLargeIsSent) {
    Asked asked;
    for (int i = 0; i < 10'000; ++i) {
        asked.send(900);
        asked.run_for(milliseconds(1), {});
    }
    EXPECT_TRUE(asked.probes.empty());
    EXPECT_EQ(asked.search.deadline(), base::kNever);
}

TEST(MtuSearch, NothingIsAskedAfterTheLastLargeDatagram) {
    Asked asked;
    asked.run_for(seconds(5));
    asked.run_for(seconds(2), {});
    const size_t before = asked.probes.size();
    asked.run_for(seconds(1000), {});
    EXPECT_EQ(asked.probes.size(), before);
    EXPECT_EQ(asked.search.deadline(), base::kNever) << "an idle path wakes nobody";
}

TEST(MtuSearch, EveryHoleIsFoundWithinTwoSecondsAndTheSizeThatPassesWithinFour) {
    for (const uint16_t passes : std::initializer_list<uint16_t>{1492, 1472, 1420, 1400, 1320, 1280,
                                                                 1200, 1000, 800, 576}) {
        Asked asked;
        asked.run_for(seconds(3));
        asked.way_takes = passes;
        asked.run_for(seconds(2));
        EXPECT_EQ(asked.search.black_holes(), 1U) << passes;
        EXPECT_LE(asked.search.size(), passes);
        asked.run_for(seconds(2));
        EXPECT_EQ(asked.search.size(), passes);
        EXPECT_EQ(asked.search.state(),
                  passes < MtuSearch::kBase ? MtuState::Error : MtuState::SearchComplete);
    }
}

TEST(MtuSearch, TheLargestUsualSizeThatPassesIsTaken) {
    Asked asked(1500, 1439);
    asked.run_for(seconds(5));
    EXPECT_EQ(asked.search.size(), 1420);
}

TEST(MtuSearch, ASenderThatOnlyRepeatsIsEnough) {
    Asked asked;
    asked.run_for(seconds(3));
    asked.way_takes = 1280;
    const size_t before = asked.probes.size();
    for (int i = 0; i < 8; ++i) {
        asked.send(1500);
        for (int j = 0; j < 10; ++j) {
            asked.run_for(milliseconds(20), {});
            asked.send(Asked::kSmall);
        }
    }
    EXPECT_GT(asked.probes.size(), before);
    EXPECT_EQ(asked.search.black_holes(), 1U);
    EXPECT_LE(asked.search.size(), 1280);
}

TEST(MtuSearch, AHoleUnderAStreamThatGoesOnIsFoundWithinASecond) {
    for (const int64_t interval_ms : {1, 5, 20, 200}) {
        Asked asked;
        asked.run_for(seconds(10), milliseconds(interval_ms));
        asked.way_takes = 1280;
        asked.run_for(seconds(1), milliseconds(interval_ms));
        EXPECT_EQ(asked.search.black_holes(), 1U) << interval_ms;
    }
}

TEST(MtuSearch, DatagramsThatAreALittleShorterAndPassDoNotHideAHole) {
    Asked asked;
    asked.run_for(seconds(3));
    asked.way_takes = 1400;
    for (int i = 0; i < 300; ++i) {
        asked.send(1400);
        asked.run_for(milliseconds(10), milliseconds(10));
    }
    EXPECT_EQ(asked.search.black_holes(), 1U);
    EXPECT_EQ(asked.search.size(), 1400);
}

TEST(MtuSearch, ALossIsNotAskedForWhenOneOfItsSizeThatLeftLaterArrives) {
    Asked asked;
    asked.run_for(seconds(3));
    const size_t before = asked.probes.size();
    for (int i = 0; i < 1000; ++i) {
        asked.search.on_acknowledged(1500, asked.now);
        asked.search.on_lost(1500, asked.now - milliseconds(1), asked.now);
        asked.run_for(milliseconds(1), {});
    }
    EXPECT_EQ(asked.probes.size(), before);
}

TEST(MtuSearch, WhatWasSentLongerThanTheSizeInUseSaysNothingOfIt) {
    Asked asked;
    asked.run_for(seconds(3));
    asked.way_takes = 1280;
    asked.run_for(seconds(5));
    ASSERT_EQ(asked.search.size(), 1280);
    const size_t before = asked.probes.size();
    asked.search.on_lost(1500, asked.now, asked.now);
    asked.run_for(seconds(2), {});
    EXPECT_EQ(asked.probes.size(), before);
}

TEST(MtuSearch, AWayThatTakesNothingIsNoHole) {
    Asked asked;
    asked.run_for(seconds(3));
    asked.way_takes = 0;
    asked.run_for(seconds(20));
    EXPECT_EQ(asked.search.black_holes(), 0U);
    EXPECT_EQ(asked.search.size(), 1500);
    const size_t before = asked.probes.size();
    asked.run_for(seconds(100));
    EXPECT_EQ(asked.probes.size(), before) << "where nothing arrives nothing is asked";
    asked.way_takes = 1280;
    asked.run_for(seconds(2));
    EXPECT_EQ(asked.search.size(), 1280) << "once something arrives it asks again";
}

TEST(MtuSearch, LossOfTenPercentEachWayIsNoHole) {
    for (uint64_t seed = 1; seed <= 50; ++seed) {
        Asked asked;
        base::SeededRandom dice(seed);
        asked.loses = [&](uint16_t) { return dice.below(100) >= 81; };
        asked.run_for(seconds(60));
        EXPECT_EQ(asked.search.black_holes(), 0U) << "seed " << seed;
        EXPECT_EQ(asked.search.size(), 1500) << "seed " << seed;
    }
}

// A larger size is given up when three probes are lost, which chance does once in 150 here.
TEST(MtuSearch, AHoleIsFoundThroughLoss) {
    int exact = 0;
    for (uint64_t seed = 1; seed <= 50; ++seed) {
        Asked asked;
        base::SeededRandom dice(seed);
        asked.loses = [&](uint16_t) { return dice.below(100) >= 81; };
        asked.run_for(seconds(3));
        asked.way_takes = 1280;
        asked.run_for(seconds(3));
        EXPECT_LE(asked.search.size(), 1280) << "seed " << seed;
        EXPECT_GE(asked.search.size(), 1000) << "seed " << seed;
        exact += asked.search.size() == 1280 ? 1 : 0;
    }
    EXPECT_GE(exact, 47) << "of 50";
}

TEST(MtuSearch, AfterTenMinutesALargerSizeIsTriedButNotWithoutData) {
    for (const Duration interval : {milliseconds(1), milliseconds(50)}) {
        Asked asked;
        asked.run_for(seconds(3));
        asked.way_takes = 1280;
        asked.run_for(seconds(8));
        ASSERT_EQ(asked.search.size(), 1280);
        asked.way_takes = 1500;
        asked.run_for(MtuSearch::kRaiseAfter - seconds(20), interval);
        EXPECT_EQ(asked.search.size(), 1280);
        asked.run_for(seconds(30), {});
        EXPECT_EQ(asked.search.size(), 1280);
        asked.run_for(seconds(5), interval);
        EXPECT_EQ(asked.search.size(), 1500) << base::to_ms(interval);
    }
}

TEST(MtuSearch, AnotherLimitIsTakenAtOnceUnlessLessIsKnownToPass) {
    Asked asked;
    asked.run_for(seconds(3));
    asked.search.set_limit(1400);
    EXPECT_EQ(asked.search.size(), 1400);
    asked.way_takes = 1280;
    asked.run_for(seconds(5));
    ASSERT_EQ(asked.search.size(), 1280);
    asked.search.set_limit(1500);
    EXPECT_EQ(asked.search.size(), 1280) << "the hole is still there";
    asked.way_takes = 1500;
    asked.run_for(seconds(3));
    EXPECT_EQ(asked.search.size(), 1500) << "it was searched again at once";
}

TEST(MtuSearch, AWayThatMayBeAnotherKeepsItsSizeAndIsSearchedAgain) {
    Asked asked;
    asked.run_for(seconds(3));
    asked.way_takes = 1280;
    asked.run_for(seconds(5));
    asked.search.distrust();
    EXPECT_EQ(asked.search.size(), 1280);
    EXPECT_EQ(asked.search.state(), MtuState::Base);
    asked.way_takes = 1500;
    asked.run_for(seconds(2));
    EXPECT_EQ(asked.search.size(), 1500);
}

TEST(MtuSearch, TheSmallestSizeIsLeftAgain) {
    Asked asked;
    asked.run_for(seconds(3));
    asked.way_takes = 576;
    asked.run_for(seconds(5));
    ASSERT_EQ(asked.search.size(), 576);
    EXPECT_EQ(asked.search.state(), MtuState::Error);
    asked.search.distrust();
    asked.way_takes = 1400;
    asked.run_for(seconds(5));
    EXPECT_EQ(asked.search.size(), 1400);
    EXPECT_EQ(asked.search.state(), MtuState::SearchComplete);
}

TEST(MtuSearch, AnAnswerOfTheWayThatWasChangesNothing) {
    Asked asked;
    asked.send(1500);
    const auto probe = asked.search.next(asked.rtt, {}, asked.random, asked.now);
    ASSERT_TRUE(probe);
    asked.search.distrust();
    EXPECT_FALSE(asked.search.on_response(probe->token, asked.now));
    EXPECT_EQ(asked.search.state(), MtuState::Base);
}

TEST(MtuSearch, ATokenThatWasNotSentOrWasAnsweredIsRefused) {
    Asked asked;
    asked.send(1500);
    const auto probe = asked.search.next(asked.rtt, {}, asked.random, asked.now);
    ASSERT_TRUE(probe);
    wire::ChallengeToken other = probe->token;
    other[0] ^= 1;
    EXPECT_FALSE(asked.search.on_response(other, asked.now));
    EXPECT_FALSE(asked.search.on_response({}, asked.now));
    EXPECT_TRUE(asked.search.on_response(probe->token, asked.now));
    EXPECT_FALSE(asked.search.on_response(probe->token, asked.now));
}

TEST(MtuSearch, NothingIsAskedWithoutAReason) {
    Asked asked;
    asked.run_for(seconds(600));
    EXPECT_EQ(asked.probes.size(), 1U) << "the first large datagram's";
}

TEST(MtuSearch, LossCostsOneQuestionASecondAtMost) {
    Asked asked;
    asked.run_for(seconds(3));
    const size_t before = asked.probes.size();
    for (int i = 0; i < 10'000; ++i) {
        asked.search.on_lost(1500, asked.now, asked.now);
        asked.run_for(milliseconds(1), {});
    }
    EXPECT_GT(asked.probes.size(), before);
    EXPECT_LE(asked.probes.size(), before + 11);
}

}  // namespace
}  // namespace continuo::recovery
