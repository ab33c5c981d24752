#include "cnapt/node/tcp_fallback.hpp"

#include <gtest/gtest.h>

namespace continuo::cnapt::node {
namespace {

using base::milliseconds;
using base::seconds;
using base::TimePoint;
using Step = TcpFallback::Step;

constexpr TimePoint kStart{seconds(1000)};

UdpFacts silent(bool was_proven) {
    UdpFacts udp;
    udp.silent_since = kStart;
    udp.was_proven = was_proven;
    return udp;
}

TEST(TcpFallback, AnAnsweringUdpPathIsLeftAlone) {
    TcpFallback fallback;
    fallback.on_stream_answered(kStart);
    EXPECT_EQ(fallback.decide({}, kStart + seconds(100)).step, Step::None);
    EXPECT_EQ(fallback.decide({}, kStart + seconds(100)).again_at, base::kNever);
    const auto early = fallback.decide(silent(true), kStart + milliseconds(999));
    EXPECT_EQ(early.step, Step::None);
    EXPECT_EQ(early.again_at, kStart + kAskStreamAfter);
}

TEST(TcpFallback, AStreamThatIsSilentTooTakesNothingOver) {
    TcpFallback fallback;
    fallback.on_stream_answered(kStart - seconds(1));  // long before it mattered
    for (int i = 10; i < 200; ++i) {
        EXPECT_EQ(fallback.decide(silent(true), kStart + milliseconds(100) * i).step,
                  Step::AskStream);
    }
}

TEST(TcpFallback, AStreamThatAnswersTakesOverWithinTwoSeconds) {
    TcpFallback fallback;
    ASSERT_EQ(fallback.decide(silent(true), kStart + seconds(1)).step, Step::AskStream);
    fallback.on_stream_answered(kStart + milliseconds(1100));
    const auto waits = fallback.decide(silent(true), kStart + milliseconds(1100));
    EXPECT_EQ(waits.step, Step::None) << "UDP was asked at the same time";
    EXPECT_EQ(waits.again_at, kStart + milliseconds(1500));
    EXPECT_EQ(fallback.decide(silent(true), waits.again_at).step, Step::UseStream);
}

TEST(TcpFallback, ALateAnswerGivesUdpItsChanceAsWell) {
    TcpFallback fallback;
    fallback.on_stream_answered(kStart + seconds(4));
    EXPECT_EQ(fallback.decide(silent(true), kStart + seconds(4)).again_at,
              kStart + seconds(4) + kUdpGrace);
}

TEST(TcpFallback, UdpThatNeverWorkedIsWaitedForOneSecond) {
    TcpFallback fallback;
    ASSERT_EQ(fallback.decide(silent(false), kStart + milliseconds(500)).step, Step::AskStream);
    fallback.on_stream_answered(kStart + milliseconds(520));
    EXPECT_EQ(fallback.decide(silent(false), kStart + milliseconds(999)).step, Step::None);
    EXPECT_EQ(fallback.decide(silent(false), kStart + seconds(1)).step, Step::UseStream);
}

TEST(TcpFallback, TcpThatCarriedAMomentAgoIsAskedAtOnce) {
    TcpFallback fallback;
    fallback.on_stream_used(kStart - seconds(20));
    fallback.on_stream_ended(kStart);
    EXPECT_EQ(fallback.decide(silent(true), kStart + milliseconds(50)).step, Step::AskStream);
    fallback.on_stream_answered(kStart + milliseconds(100));
    const auto waits = fallback.decide(silent(true), kStart + milliseconds(100));
    EXPECT_EQ(waits.step, Step::None) << "UDP has its chance";
    EXPECT_EQ(fallback.decide(silent(true), waits.again_at).step, Step::UseStream);
    EXPECT_LE(waits.again_at, kStart + milliseconds(500));

    UdpFacts later = silent(true);
    later.silent_since = kStart + kCarriedLately;
    EXPECT_EQ(fallback.decide(later, later.silent_since + milliseconds(50)).step, Step::None);
}

// A download: UDP owes an answer since its last datagram, a moment ago.
TEST(TcpFallback, UdpThatWorksIsNotGivenUpForTcpThatCarriedAMomentAgo) {
    TcpFallback fallback;
    fallback.on_stream_used(kStart - seconds(20));
    fallback.on_stream_ended(kStart);
    UdpFacts udp = silent(true);
    for (TimePoint now = kStart; now < kStart + seconds(5); now += milliseconds(10)) {
        udp.silent_since = now - milliseconds(5);
        const auto decision = fallback.decide(udp, now);
        ASSERT_NE(decision.step, Step::UseStream);
        if (decision.step == Step::AskStream) {
            fallback.on_stream_answered(now);
        }
    }
}

TEST(TcpFallback, AnotherUplinksUdpIsBetterThanTcp) {
    TcpFallback fallback;
    fallback.on_stream_answered(kStart + milliseconds(1100));
    UdpFacts udp = silent(true);
    udp.has_other_answered = true;
    EXPECT_EQ(fallback.decide(udp, kStart + seconds(5)).step, Step::None);
}

int retries(TcpFallback& fallback, base::Duration from, base::Duration to, bool is_busy) {
    int count = 0;
    for (base::Duration at = from; at < to; at += milliseconds(500)) {
        const uint64_t traffic = is_busy ? static_cast<uint64_t>(base::to_ms(at)) : 7;
        count += fallback.wants_retry(traffic, kStart + at) ? 1 : 0;
    }
    return count;
}

TEST(TcpFallback, UdpIsTriedEverySecondUnderTrafficAndSeldomWithoutIt) {
    TcpFallback fallback;
    fallback.on_stream_used(kStart);
    EXPECT_EQ(retries(fallback, {}, seconds(60), true), 59);
    EXPECT_LE(retries(fallback, seconds(60), seconds(160), false), 6);
    EXPECT_GE(retries(fallback, seconds(160), seconds(260), false), 3);
}

TEST(TcpFallback, UdpThatFailsAgainAtOnceIsLeftAloneForLongerEachTime) {
    TcpFallback fallback;
    base::Duration at{};
    base::Duration former{};
    for (int i = 0; i < 8; ++i) {
        fallback.on_stream_used(kStart + at);
        base::Duration waited{};
        while (!fallback.wants_retry(static_cast<uint64_t>(base::to_ms(at + waited)),
                                     kStart + at + waited)) {
            waited += milliseconds(500);
            ASSERT_LE(waited, kLongestRest);
        }
        EXPECT_GE(waited, former);
        former = waited;
        at += waited + seconds(1);
        fallback.on_udp_used(kStart + at);
        at += seconds(2);
    }
    EXPECT_EQ(former, kLongestRest);
    fallback.on_udp_used(kStart + at);
    at += kShortStay;
    fallback.on_stream_used(kStart + at);
    EXPECT_EQ(retries(fallback, at, at + seconds(3), true), 2) << "a long stay forgives";
}

}  // namespace
}  // namespace continuo::cnapt::node
