#include "common/recovery/liveness.hpp"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

namespace continuo::recovery {
namespace {

using base::Duration;
using base::milliseconds;
using base::seconds;
using base::TimePoint;

constexpr Duration kPto = milliseconds(100);

TEST(Liveness, ThinTrafficOwesNothingAndIsAskedFor) {
    Liveness liveness;
    const TimePoint now{seconds(1)};
    liveness.on_sent(true, false, 100, now);
    EXPECT_FALSE(liveness.is_owed());
    EXPECT_EQ(liveness.deadline(kPto), base::kNever);
    EXPECT_EQ(liveness.ask_at(kPto), now + Liveness::kAskAfter);
    EXPECT_EQ(liveness.ask_at(seconds(2)), now + seconds(2));
    liveness.on_heard(now);
    EXPECT_EQ(liveness.ask_at(kPto), base::kNever);
    // Frames alone are answered by nobody.
    liveness.on_sent(false, false, 0, now);
    EXPECT_EQ(liveness.ask_at(kPto), base::kNever);
}

TEST(Liveness, EnoughBytesOrAPingOwe) {
    const TimePoint now{seconds(1)};
    Liveness bytes;
    bytes.on_sent(true, false, Liveness::kOwedBytes - 1, now);
    EXPECT_FALSE(bytes.is_owed());
    bytes.on_sent(true, false, Liveness::kOwedBytes, now + milliseconds(5));
    EXPECT_EQ(bytes.deadline(kPto), now + milliseconds(105));
    Liveness ping;
    ping.on_sent(false, true, 0, now);
    EXPECT_EQ(ping.deadline(kPto), now + kPto);
}

struct Judged {
    Duration doubtful{};
    Duration dead{};
    int probes = 0;
};

// A path that acknowledges nothing for three seconds while datagrams are sent all the time: that
// must not keep the time-out from passing.
Judged judge_silence(Duration probe_timeout) {
    Liveness liveness;
    const TimePoint began{seconds(1)};
    Judged judged{seconds(10), seconds(10)};
    for (TimePoint now = began; now < began + seconds(3); now += milliseconds(1)) {
        liveness.on_sent(true, false, 100'000, now);
        judged.probes += liveness.on_time(probe_timeout, now) ? 1 : 0;
        if (liveness.health() == Health::Doubtful) {
            judged.doubtful = std::min<Duration>(judged.doubtful, now - began);
        } else if (liveness.health() == Health::Dead) {
            judged.dead = std::min<Duration>(judged.dead, now - began);
        }
    }
    return judged;
}

// The latest of the probes leaves 160 ms after the first.
constexpr Duration kProbing = (Liveness::kProbes - 1) * Liveness::kProbeInterval;

TEST(Liveness, DoubtfulAfterTwoTimeoutsDeadAfterThreeAndASecond) {
    const Judged judged = judge_silence(kPto);
    EXPECT_EQ(judged.doubtful, 2 * kPto + kProbing);
    EXPECT_EQ(judged.dead, seconds(1)) << "three time-outs had passed after 460 ms";
    EXPECT_EQ(judged.probes, 7) << "five after a time-out, then after 3 and 7";
}

// A scan of Wi-Fi takes the radio away for 100 to 300 ms.
TEST(Liveness, AShortRoundTripIsNotDoubtedWithinAQuarterOfASecond) {
    EXPECT_EQ(judge_silence(milliseconds(30)).doubtful, milliseconds(250));
    EXPECT_EQ(judge_silence(milliseconds(45)).doubtful, milliseconds(250));
}

// Four probes are lost by chance, the fifth is answered in time.
TEST(Liveness, AnyProbeThatIsAnsweredEndsTheQuestion) {
    Liveness liveness;
    TimePoint now{seconds(1)};
    liveness.on_sent(false, true, 0, now);
    std::vector<Duration> left;
    const TimePoint began = now;
    while (left.size() < Liveness::kProbes) {
        now = liveness.deadline(kPto);
        ASSERT_TRUE(liveness.on_time(kPto, now));
        liveness.on_sent(false, true, 0, now);
        left.push_back(now - began);
    }
    EXPECT_EQ(left, (std::vector<Duration>{kPto, kPto + milliseconds(40), kPto + milliseconds(80),
                                           kPto + milliseconds(120), kPto + milliseconds(160)}));
    EXPECT_EQ(liveness.timeouts(), 1U);
    now += kPto - milliseconds(1);
    liveness.on_time(kPto, now);
    EXPECT_EQ(liveness.health(), Health::Usable);
    liveness.on_progress(0, false, now);
    EXPECT_EQ(liveness.deadline(kPto), base::kNever);
    // Whatever is asked next has as many again.
    liveness.on_sent(false, true, 0, now);
    now = liveness.deadline(kPto);
    EXPECT_TRUE(liveness.on_time(kPto, now));
    EXPECT_EQ(liveness.deadline(kPto), now + Liveness::kProbeInterval);
}

// This end stood still for seconds: answers wait in its socket.
TEST(Liveness, AnEndThatIsLateJudgesNothingBeforeItsProbesWereUnanswered) {
    Liveness liveness;
    TimePoint now{seconds(1)};
    liveness.on_sent(false, true, 0, now);
    now += seconds(5);
    while (liveness.health() == Health::Usable) {
        ASSERT_LE(now, TimePoint{seconds(7)});
        liveness.on_time(kPto, now);
        now += milliseconds(1);
    }
    EXPECT_EQ(now - TimePoint{seconds(6)}, kProbing + kPto + milliseconds(1));
}

TEST(Liveness, OneTimeoutIsAReasonToProbeAndNoDoubt) {
    Liveness liveness;
    TimePoint now{seconds(1)};
    liveness.on_sent(false, true, 0, now);
    now += milliseconds(700);
    ASSERT_TRUE(liveness.on_time(milliseconds(700), now));
    EXPECT_EQ(liveness.health(), Health::Usable);
}

TEST(Liveness, ADeadPathIsProbedAgainOnlyWhenSomethingIsHeard) {
    Liveness liveness;
    TimePoint now{seconds(1)};
    const auto probes_in = [&](Duration span) {
        int probes = 0;
        for (const TimePoint end = now + span; now < end; now += milliseconds(1)) {
            liveness.on_sent(true, false, 100'000, now);
            probes += liveness.on_time(kPto, now) ? 1 : 0;
        }
        return probes;
    };
    EXPECT_GE(probes_in(seconds(3)), 3);
    EXPECT_EQ(probes_in(seconds(1000)), 0);
    EXPECT_EQ(liveness.deadline(kPto), base::kNever);
    liveness.on_heard(now);
    EXPECT_EQ(probes_in(seconds(1)), 1);
    EXPECT_EQ(liveness.health(), Health::Dead) << "until something is acknowledged";
    liveness.on_progress(0, false, now);
    EXPECT_EQ(liveness.health(), Health::Usable);
}

// One lost probe at 600 ms must not move a session.
TEST(Liveness, OfALongRoundTripThreeTimeoutsTakeLongerThanASecond) {
    Liveness liveness;
    TimePoint now{seconds(1)};
    const TimePoint began = now;
    liveness.on_sent(false, true, 0, now);
    while (liveness.health() != Health::Dead) {
        now += milliseconds(10);
        liveness.on_time(milliseconds(700), now);
    }
    EXPECT_EQ(now - began, milliseconds(3 * 700) + kProbing);
}

// The answer is owed by the path on which the datagrams are sent again.
TEST(Liveness, WhatIsSentAgainElsewhereIsWaitedForNoMore) {
    Liveness liveness;
    const TimePoint now{seconds(1)};
    liveness.on_sent(true, false, 10'000, now);
    liveness.on_taken_out(Liveness::kOwedBytes, false);
    EXPECT_TRUE(liveness.is_owed()) << "the rest of it";
    liveness.on_taken_out(0, true);
    EXPECT_TRUE(liveness.is_owed()) << "a PING is under way";
    liveness.on_taken_out(0, false);
    EXPECT_FALSE(liveness.is_owed());
    EXPECT_EQ(liveness.deadline(kPto), base::kNever);
    EXPECT_EQ(liveness.health(), Health::Usable);
}

TEST(Liveness, APathThatHasTimedOutIsAskedThoughItsDatagramsAreSentElsewhere) {
    Liveness liveness;
    TimePoint now{seconds(1)};
    liveness.on_sent(true, false, 10'000, now);
    now = liveness.deadline(kPto);
    ASSERT_TRUE(liveness.on_time(kPto, now));
    liveness.on_taken_out(0, false);
    EXPECT_EQ(liveness.timeouts(), 1U) << "nothing has arrived";
    while (liveness.deadline(kPto) != base::kNever) {
        ASSERT_GT(liveness.deadline(kPto), now);
        now = liveness.deadline(kPto);
        liveness.on_time(kPto, now);
        ASSERT_LE(liveness.timeouts(), 4U);
    }
    EXPECT_EQ(liveness.health(), Health::Dead);
    liveness.on_heard(now);
    EXPECT_NE(liveness.deadline(kPto), base::kNever) << "asked once more";
    liveness.on_progress(0, false, now);
    EXPECT_EQ(liveness.health(), Health::Usable);
}

TEST(Liveness, WhatIsStillOwedIsWaitedForAnew) {
    Liveness liveness;
    TimePoint now{seconds(1)};
    liveness.on_sent(true, false, 50'000, now);
    liveness.on_progress(40'000, false, now + milliseconds(90));
    EXPECT_EQ(liveness.deadline(kPto), now + milliseconds(190));
    liveness.on_progress(100, true, now + milliseconds(100));
    EXPECT_EQ(liveness.deadline(kPto), now + milliseconds(200)) << "a PING is under way";
    liveness.on_progress(100, false, now + milliseconds(110));
    EXPECT_EQ(liveness.deadline(kPto), base::kNever);
}

// An end that only receives sends acknowledgements, which nobody answers.
TEST(Liveness, TheEndOfAStreamIsASilenceFromItsLastDatagramAskedAboutOnce) {
    Liveness liveness;
    TimePoint now{seconds(1)};
    liveness.on_heard(now);
    EXPECT_EQ(liveness.ask_at(kPto), base::kNever) << "no stream yet";
    liveness.expect_more(now);
    for (int i = 0; i < 10; ++i) {
        now += milliseconds(100);
        liveness.on_heard(now);
    }
    EXPECT_EQ(liveness.silent_since(), now);
    EXPECT_EQ(liveness.ask_at(kPto), now + Liveness::kAskAfter);
    liveness.on_sent(false, true, 0, now += Liveness::kAskAfter);
    now += milliseconds(20);
    liveness.on_heard(now);
    liveness.on_progress(0, false, now);
    EXPECT_EQ(liveness.ask_at(kPto), base::kNever);
    EXPECT_EQ(liveness.silent_since(), base::kNever);
}

// The way back may be dead.
TEST(Liveness, WhatAnotherPathTellsEndsAQuestionOnceSomethingIsHeard) {
    Liveness liveness;
    TimePoint now{seconds(1)};
    liveness.on_sent(false, true, 0, now);
    liveness.on_progress_told_elsewhere(0, false, now += milliseconds(20));
    EXPECT_TRUE(liveness.is_asked());
    EXPECT_NE(liveness.deadline(kPto), base::kNever);
    liveness.on_heard(now += milliseconds(20));
    EXPECT_FALSE(liveness.is_asked());
    EXPECT_EQ(liveness.deadline(kPto), base::kNever);
    // Without a question, bytes that are owed need no way back.
    liveness.on_sent(true, false, Liveness::kOwedBytes, now);
    liveness.on_progress_told_elsewhere(0, false, now += milliseconds(20));
    EXPECT_FALSE(liveness.is_owed());
    // Nor does a datagram end a question of which nothing was told.
    liveness.on_sent(false, true, 0, now);
    liveness.on_heard(now += milliseconds(20));
    EXPECT_TRUE(liveness.is_asked());
}

TEST(Liveness, AnAnswerToldElsewhereEndsNoLaterQuestion) {
    Liveness liveness;
    TimePoint now{seconds(1)};
    liveness.on_sent(false, true, 0, now);
    liveness.on_progress_told_elsewhere(0, false, now += milliseconds(20));
    liveness.on_sent(false, true, 0, now);
    liveness.on_heard(now += milliseconds(20));
    EXPECT_TRUE(liveness.is_asked());
    EXPECT_NE(liveness.deadline(kPto), base::kNever);
}

TEST(Liveness, WithoutALogOfWhatWasSentOnlyTheSilenceIsKept) {
    Liveness liveness;
    const TimePoint began{seconds(1)};
    liveness.on_sent(true, false, 10'000, began);
    for (TimePoint now = began; liveness.health() != Health::Dead; now += milliseconds(10)) {
        ASSERT_LT(now, began + seconds(10));
        liveness.on_time(kPto, now);
    }
    liveness.forget_judgement();
    EXPECT_EQ(liveness.health(), Health::Usable);
    EXPECT_EQ(liveness.deadline(kPto), base::kNever);
    EXPECT_EQ(liveness.unheard_since(), began);
}

// Each question waits for the end of the one before.
TEST(Liveness, APathThatDoesNotAnswerIsNotAskedOncePerRoundTrip) {
    Liveness liveness;
    TimePoint now{seconds(1)};
    int asked = 0;
    for (const TimePoint end = now + seconds(10); now < end; now += milliseconds(1)) {
        liveness.on_sent(true, false, 100, now);
        const bool is_due = liveness.on_time(kPto, now) || liveness.ask_at(kPto) <= now;
        if (is_due) {
            liveness.on_sent(false, true, 0, now);
            liveness.on_progress_told_elsewhere(0, false, now);
            ++asked;
        }
    }
    EXPECT_EQ(liveness.health(), Health::Dead);
    EXPECT_LE(asked, 1 + 7);
}

}  // namespace
}  // namespace continuo::recovery
