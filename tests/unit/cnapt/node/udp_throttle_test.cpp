#include "cnapt/node/udp_throttle.hpp"

#include <array>

#include <gtest/gtest.h>

namespace continuo::cnapt::node {
namespace {

using base::Duration;
using base::seconds;
using base::TimePoint;
using Step = UdpThrottle::Step;

// A download: what comes each second over UDP and over TCP, and how much of it UDP loses.
struct Download {
    UdpThrottle throttle;
    UdpTraffic traffic;
    TimePoint now{seconds(1000)};
    bool is_on_stream = false;
    bool may_try = true;
    uint64_t sent_per_s = 1000;
    double loss = 0;
    uint64_t stream_per_s = 1000;
    uint64_t sent_up_per_s = 0;  // bytes
    uint64_t inner_bytes = 1400;
    Duration late{};  // each tick

    // Gives the first step that is not None within the span, with the time it took.
    std::pair<Step, Duration> run(Duration span) {
        const TimePoint begin = now;
        while (now < begin + span) {
            now += UdpThrottle::kTick + late;
            const auto tick = [](uint64_t per_s) { return per_s / 2; };
            const uint64_t lost =
                is_on_stream ? 0
                             : static_cast<uint64_t>(static_cast<double>(tick(sent_per_s)) * loss);
            const uint64_t came = is_on_stream ? tick(stream_per_s) : tick(sent_per_s) - lost;
            traffic.lost_datagrams += lost;
            traffic.received_datagrams += came;
            traffic.sent_bytes += tick(sent_up_per_s);
            traffic.received_inner_bytes += came * inner_bytes;
            const Step step = throttle.on_tick(traffic, is_on_stream, may_try, now);
            if (step != Step::None) {
                is_on_stream = step == Step::TryStream;
                return {step, now - begin};
            }
        }
        return {Step::None, now - begin};
    }
};

TEST(UdpThrottle, UdpThatLosesLittleIsLeftAlone) {
    Download download;
    download.loss = 0.1;
    EXPECT_EQ(download.run(seconds(600)).first, Step::None);
}

TEST(UdpThrottle, AFewLostDatagramsAreNoReason) {
    Download download;
    download.sent_per_s = 4;
    download.loss = 0.5;
    ASSERT_EQ(download.run(seconds(600)).first, Step::None);
    EXPECT_GE(download.traffic.lost_datagrams, 500U);
}

// A call, or a download that the loss has slowed down.
TEST(UdpThrottle, AThinFlowThatLosesMuchForTenSecondsIsEnough) {
    Download download;
    download.sent_per_s = 40;
    download.loss = 0.4;
    download.stream_per_s = 40;  // all of it, and it wants no more
    const auto [step, after] = download.run(seconds(600));
    EXPECT_EQ(step, Step::TryStream);
    EXPECT_EQ(after, UdpThrottle::kTick * (UdpThrottle::kThinWindowTicks + 1));
    const Duration kept = download.run(seconds(1000)).second;
    EXPECT_EQ(kept, UdpThrottle::kTrialEnds + UdpThrottle::kFirstStay);
}

// So much is lost that nothing proves UDP at times; TCP carries the call for a while then.
TEST(UdpThrottle, SilencesOfUdpDoNotHideItsLoss) {
    for (const bool is_long : {false, true}) {
        const Duration silence = is_long ? UdpThrottle::kLongestSilence + seconds(1) : seconds(4);
        Download download;
        download.sent_per_s = 40;
        download.loss = 0.4;
        download.stream_per_s = 40;
        Step step = Step::None;
        for (int i = 0; i < 4 && step == Step::None; ++i) {
            download.is_on_stream = true;
            ASSERT_EQ(download.run(silence).first, Step::None);
            download.is_on_stream = false;
            step = download.run(seconds(4)).first;
        }
        EXPECT_EQ(step, is_long ? Step::None : Step::TryStream);
    }
}

TEST(UdpThrottle, AThinFlowGoesBackWhereTcpCarriesNoMore) {
    Download download;
    download.sent_per_s = 40;
    download.loss = 0.4;
    download.stream_per_s = 26;  // UDP delivers 24
    ASSERT_EQ(download.run(seconds(600)).first, Step::TryStream);
    const auto [step, after] = download.run(seconds(1000));
    EXPECT_EQ(step, Step::TryUdp);
    EXPECT_EQ(after, UdpThrottle::kTrialEnds);
}

TEST(UdpThrottle, TicksThatComeLateChangeNothingOfThat) {
    Download download;
    download.late = base::microseconds(300);
    download.sent_per_s = 40;
    download.loss = 0.4;
    download.stream_per_s = 26;
    ASSERT_EQ(download.run(seconds(600)).first, Step::TryStream);
    const auto [step, after] = download.run(seconds(1000));
    EXPECT_EQ(step, Step::TryUdp);
    EXPECT_LE(after, UdpThrottle::kTrialEnds + UdpThrottle::kTick);
}

// TCP delivers all of it in the end, but not now.
TEST(UdpThrottle, AThinFlowGoesBackWhereTcpStandsStillAtTimes) {
    Download download;
    download.sent_per_s = 40;
    download.loss = 0.4;
    ASSERT_EQ(download.run(seconds(600)).first, Step::TryStream);
    download.stream_per_s = 80;
    ASSERT_EQ(download.run(seconds(4)).first, Step::None);
    download.stream_per_s = 0;
    ASSERT_EQ(download.run(UdpThrottle::kTick).first, Step::None);
    download.stream_per_s = 80;
    EXPECT_EQ(download.run(seconds(1000)).second,
              UdpThrottle::kTrialEnds - seconds(4) - UdpThrottle::kTick);
}

// Traffic before a call does not count for UDP's delivery of it.
TEST(UdpThrottle, SilenceBeforeAThinFlowDoesNotMakeTcpLookGood) {
    Download download;
    download.sent_per_s = 0;
    ASSERT_EQ(download.run(seconds(20)).first, Step::None);
    download.sent_per_s = 40;
    download.loss = 0.4;
    download.stream_per_s = 20;
    const auto [step, after] = download.run(seconds(600));
    ASSERT_EQ(step, Step::TryStream);
    EXPECT_GE(after, UdpThrottle::kTick * UdpThrottle::kThinShortest);
    const Duration trial = download.run(seconds(1000)).second;
    EXPECT_EQ(trial, UdpThrottle::kTrialEnds);
}

TEST(UdpThrottle, AnotherNetworkOrSessionBeginsAnew) {
    for (const bool is_session : {false, true}) {
        Download download;
        download.sent_per_s = 40;
        download.loss = 0.4;
        ASSERT_EQ(download.run(seconds(9)).first, Step::None);
        if (is_session) {
            download.traffic.session_id = 7;
        } else {
            download.traffic.network = 8;
        }
        download.loss = 0;
        EXPECT_EQ(download.run(seconds(600)).first, Step::None);
        download.loss = 0.4;
        EXPECT_EQ(download.run(seconds(600)).first, Step::TryStream);
    }
}

// Datagrams without packets tell of no flow that TCP could carry better.
TEST(UdpThrottle, LostReportsOfAnUploadAreNoReason) {
    Download download;
    download.sent_per_s = 1000;
    download.loss = 0.5;
    download.inner_bytes = 0;
    EXPECT_EQ(download.run(seconds(600)).first, Step::None);
}

// A call that ends in the trial tells nothing of TCP.
TEST(UdpThrottle, ATrialInWhichNothingWasToCarryMakesNoLongerRest) {
    Download download;
    download.loss = 0.6;
    for (int i = 0; i < 3; ++i) {
        ASSERT_EQ(download.run(seconds(100)).first, Step::TryStream) << i;
        download.stream_per_s = 0;
        ASSERT_EQ(download.run(seconds(100)).first, Step::TryUdp) << i;
    }
    const Duration rest = download.run(seconds(1000)).second;
    EXPECT_EQ(rest, UdpThrottle::kFirstRest);
}

TEST(UdpThrottle, WhatCameLateWasNotLost) {
    Download download;
    download.sent_per_s = 40;
    for (int i = 0; i < 60; ++i) {
        download.traffic.lost_datagrams += 10;
        ASSERT_EQ(download.run(UdpThrottle::kTick).first, Step::None) << i;
        download.traffic.lost_datagrams -= 10;
        ASSERT_EQ(download.run(UdpThrottle::kTick).first, Step::None) << i;
    }
}

// Packets lost in a pause of the link are all missed at once, when it goes on.
TEST(UdpThrottle, APauseOfAThinFlowIsNoHeavyLoss) {
    Download download;
    download.sent_per_s = 12;
    for (int i = 0; i < 20; ++i) {
        download.loss = 0;
        ASSERT_EQ(download.run(seconds(6)).first, Step::None) << i;
        download.traffic.lost_datagrams += 48;  // of 4 s
        download.now += seconds(4);
    }
}

// Data sent up over TCP counts as delivered: it hides no loss in the other direction, and must go
// on.
TEST(UdpThrottle, TheWayThatIsBadIsJudgedAndTheOtherMayNotSuffer) {
    for (const bool is_slowed_down : {false, true}) {
        Download download;
        download.sent_per_s = 40;
        download.loss = 0.4;
        download.stream_per_s = 40;
        download.sent_up_per_s = 1'000'000;
        ASSERT_EQ(download.run(seconds(600)).first, Step::TryStream);
        download.sent_up_per_s = is_slowed_down ? 300'000 : 1'000'000;
        const Duration stay = is_slowed_down ? Duration{} : UdpThrottle::kFirstStay;
        EXPECT_EQ(download.run(seconds(1000)).second, UdpThrottle::kTrialEnds + stay);
    }
}

TEST(UdpThrottle, HeavyLossIsNoticedWithinTwoSeconds) {
    Download download;
    ASSERT_EQ(download.run(seconds(10)).first, Step::None);
    download.loss = 0.6;
    const auto [step, after] = download.run(seconds(10));
    EXPECT_EQ(step, Step::TryStream);
    EXPECT_LE(after, seconds(2));
}

// As measured: a download that a policer slows down at once, in the middle of half a second in
// which much came; later it loses little.
TEST(UdpThrottle, WhatCameJustBeforeDoesNotHideTheLoss) {
    Download download;
    download.sent_per_s = 2500;
    ASSERT_EQ(download.run(seconds(10)).first, Step::None);
    struct Tick {
        uint64_t received;
        uint64_t lost;
    };
    constexpr std::array<Tick, 4> kTicks = {{{1264, 93}, {824, 150}, {18, 23}, {12, 12}}};
    for (size_t i = 0; i < kTicks.size(); ++i) {
        download.traffic.lost_datagrams += kTicks[i].lost;
        download.sent_per_s = kTicks[i].received * 2;
        const Step step = download.run(UdpThrottle::kTick).first;
        ASSERT_EQ(step, i == 3 ? Step::TryStream : Step::None) << i;
        if (step == Step::TryStream) {
            break;
        }
    }
    download.stream_per_s = 1000;  // far less than before, far more than now
    EXPECT_EQ(download.run(seconds(1000)).second,
              UdpThrottle::kTrialEnds + UdpThrottle::kFirstStay);
}

// The box lets half a second's burst pass, then little. TCP carries eight times as much as UDP does
// from then on, and less than what came with the burst.
TEST(UdpThrottle, WhatCameBeforeTheLossIsNotWhatTcpHasToBeat) {
    Download download;
    download.sent_per_s = 2600;
    ASSERT_EQ(download.run(seconds(60)).first, Step::None);
    download.loss = 0.3;
    ASSERT_EQ(download.run(UdpThrottle::kTick).first, Step::None);
    download.sent_per_s = 100;
    download.loss = 0.5;
    download.stream_per_s = 400;
    ASSERT_EQ(download.run(seconds(2)).first, Step::TryStream);
    const Duration kept = download.run(seconds(1000)).second;
    EXPECT_EQ(kept, UdpThrottle::kTrialEnds + UdpThrottle::kFirstStay);
}

// A roam: what was on its way is missed in one half second, beside the odd loss of each link.
// As measured: all that was in flight is lost in one tick, and so few packets leave in each tick
// after it that none of these alone says much.
TEST(UdpThrottle, LossesOfASenderThatSlowedDownAtOnceCountTogether) {
    Download download;
    download.sent_per_s = 2500;
    ASSERT_EQ(download.run(seconds(10)).first, Step::None);
    download.sent_per_s = 1700;
    download.loss = 0.41;
    ASSERT_EQ(download.run(UdpThrottle::kTick).first, Step::None);
    download.sent_per_s = 24;
    download.loss = 0.26;
    const auto [step, after] = download.run(seconds(20));
    EXPECT_EQ(step, Step::TryStream);
    EXPECT_LE(after, UdpThrottle::kTick * 4);
}

TEST(UdpThrottle, APauseOfAFastStreamIsNoReason) {
    Download download;
    download.sent_per_s = 2500;
    const auto tick = [&](uint64_t lost) {
        download.traffic.lost_datagrams += lost;
        return download.run(UdpThrottle::kTick).first;
    };
    for (int i = 0; i < 200; ++i) {
        download.sent_per_s = i % 10 == 5 ? 1250 : 2500;
        ASSERT_EQ(tick(i % 10 == 5 ? 625 : 2), Step::None) << i;
    }
}

// As long as it is: what TCP carries beside the second in which UDP stood still proves nothing.
TEST(UdpThrottle, NorIsALongerOneOfAVideo) {
    for (const uint64_t ms : {300U, 400U, 700U, 1200U}) {
        Download download;
        for (int i = 0; i < 20; ++i) {
            download.sent_per_s = 150;
            ASSERT_EQ(download.run(seconds(6)).first, Step::None) << ms << ' ' << i;
            download.sent_per_s = 0;
            ASSERT_EQ(download.run(base::milliseconds(ms / 500 * 500)).first, Step::None);
            download.sent_per_s = 150 - 150 * (ms % 500) / 500;
            download.traffic.lost_datagrams += 150 * ms / 1000;
            ASSERT_EQ(download.run(UdpThrottle::kTick).first, Step::None) << ms << ' ' << i;
        }
    }
}

// A queue that overflows once, and the sender slows down for a while.
TEST(UdpThrottle, ABurstOfLossInAFastDownloadIsNoReason) {
    Download download;
    download.sent_per_s = 2500;
    for (int i = 0; i < 20; ++i) {
        ASSERT_EQ(download.run(seconds(3)).first, Step::None) << i;
        download.traffic.lost_datagrams += 200;
        ASSERT_EQ(download.run(UdpThrottle::kTick).first, Step::None) << i;
        download.traffic.lost_datagrams += 30;
        download.sent_per_s = 100;
        ASSERT_EQ(download.run(UdpThrottle::kTick).first, Step::None) << i;
        download.traffic.lost_datagrams += 4;
        ASSERT_EQ(download.run(UdpThrottle::kTick).first, Step::None) << i;
        download.sent_per_s = 2500;
    }
}

TEST(UdpThrottle, LossOnTheWayUpCountsToo) {
    Download download;
    download.sent_per_s = 0;
    for (int i = 0; i < 4; ++i) {
        download.traffic.sent_bytes += 100'000;
        download.traffic.sent_datagrams += 70;
        download.traffic.lost_up_datagrams += 35;
        download.traffic.loss_up = 0.5;
        download.now += UdpThrottle::kTick;
        const Step step = download.throttle.on_tick(download.traffic, false, true, download.now);
        EXPECT_EQ(step, i == 3 ? Step::TryStream : Step::None) << i;
        if (step == Step::TryStream) {
            break;
        }
    }
}

// Datagrams sent into the outage are all found missing at once, when the path is heard again.
TEST(UdpThrottle, LossesOfAnOutageOnTheWayUpAreNoReason) {
    Download download;
    download.sent_per_s = 0;
    for (int i = 0; i < 20; ++i) {
        download.traffic.sent_bytes += 100'000;
        download.traffic.sent_datagrams += 70;
        download.traffic.lost_up_datagrams += i == 1 ? 400 : 1;
        download.traffic.loss_up = 400.0 / (400.0 + 70.0 * i);
        download.now += UdpThrottle::kTick;
        EXPECT_EQ(download.throttle.on_tick(download.traffic, false, true, download.now),
                  Step::None)
            << i;
    }
}

TEST(UdpThrottle, NothingIsTriedWhereNothingCouldTakeOver) {
    Download download;
    download.loss = 0.6;
    download.may_try = false;
    EXPECT_EQ(download.run(seconds(600)).first, Step::None);
}

// Two uplinks whose silences take turns: the one that is silent now carries again soon.
TEST(UdpThrottle, NothingIsTriedWhileAnotherUplinkWasHeardLately) {
    Download download;
    download.loss = 0.6;
    for (int i = 0; i < 20; ++i) {
        download.traffic.other_heard_at = download.now;
        ASSERT_EQ(download.run(seconds(5)).first, Step::None) << i;
    }
    const auto [step, after] = download.run(seconds(20));
    EXPECT_EQ(step, Step::TryStream);
    EXPECT_EQ(after, UdpThrottle::kLatelyHeard - seconds(5));
}

TEST(UdpThrottle, TcpThatCarriesMoreIsKeptAMinuteThenUdpIsAsked) {
    Download download;
    download.loss = 0.6;
    ASSERT_EQ(download.run(seconds(10)).first, Step::TryStream);
    const auto [step, after] = download.run(seconds(1000));
    EXPECT_EQ(step, Step::TryUdp);
    EXPECT_EQ(after, UdpThrottle::kTrialEnds + UdpThrottle::kFirstStay);
    EXPECT_FALSE(download.throttle.keeps_stream());
}

TEST(UdpThrottle, WhenTheBoxIsStillThereTcpIsKeptTwiceAsLong) {
    Download download;
    download.loss = 0.6;
    Duration stay = UdpThrottle::kFirstStay;
    for (int i = 0; i < 6; ++i) {
        ASSERT_EQ(download.run(seconds(10)).first, Step::TryStream);
        EXPECT_EQ(download.run(seconds(2000)).second, UdpThrottle::kTrialEnds + stay) << i;
        stay = std::min<Duration>(stay * 2, UdpThrottle::kLongestStay);
    }
}

TEST(UdpThrottle, TcpThatCarriesNoMoreIsLeftAndNotTriedAgainSoon) {
    Download download;
    download.loss = 0.4;
    download.stream_per_s = 500;  // UDP delivers 600
    Duration rest = UdpThrottle::kFirstRest;
    ASSERT_EQ(download.run(seconds(10)).first, Step::TryStream);
    for (int i = 0; i < 8; ++i) {
        const auto [left, trial] = download.run(seconds(100));
        EXPECT_EQ(left, Step::TryUdp);
        EXPECT_EQ(trial, UdpThrottle::kTrialEnds);
        const auto [step, after] = download.run(seconds(10000));
        EXPECT_EQ(step, Step::TryStream);
        EXPECT_EQ(after, rest) << i;
        rest = std::min<Duration>(rest * 2, UdpThrottle::kLongestRest);
    }
}

TEST(UdpThrottle, WhatTcpWasWorthElsewhereSaysNothing) {
    Download download;
    download.loss = 0.4;
    download.stream_per_s = 500;
    ASSERT_EQ(download.run(seconds(10)).first, Step::TryStream);
    ASSERT_EQ(download.run(seconds(100)).first, Step::TryUdp);
    ASSERT_EQ(download.run(seconds(10)).first, Step::None);
    download.traffic.network = 7;
    EXPECT_EQ(download.run(seconds(10)).first, Step::TryStream);
}

// As where the losses were those of packets that the way does not take any more, nor TCP's.
TEST(UdpThrottle, ATrialEndsWhenTcpFallsSilent) {
    Download download;
    download.loss = 0.5;
    ASSERT_EQ(download.run(seconds(600)).first, Step::TryStream);
    ASSERT_EQ(download.run(UdpThrottle::kTick * 2).first, Step::None);
    download.traffic.is_stream_silent = true;
    const auto [step, after] = download.run(seconds(600));
    EXPECT_EQ(step, Step::TryUdp);
    EXPECT_EQ(after, UdpThrottle::kTick);
    download.traffic.is_stream_silent = false;
    const Duration rest = UdpThrottle::kFirstRest - UdpThrottle::kTick;
    EXPECT_EQ(download.run(rest).first, Step::None) << "nor is it tried again soon";
}

TEST(UdpThrottle, ATrialEndsWhenTcpDoes) {
    Download download;
    download.loss = 0.6;
    ASSERT_EQ(download.run(seconds(10)).first, Step::TryStream);
    ASSERT_EQ(download.run(seconds(3)).first, Step::None);
    download.is_on_stream = false;
    download.loss = 0;
    EXPECT_EQ(download.run(seconds(1)).first, Step::None);
    EXPECT_FALSE(download.throttle.keeps_stream());
}

}  // namespace
}  // namespace continuo::cnapt::node
