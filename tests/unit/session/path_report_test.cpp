#include "common/session/path_report.hpp"
#include "common/session/receive_report.hpp"

#include <gtest/gtest.h>

namespace continuo::session {
namespace {

using base::Duration;
using base::milliseconds;
using base::seconds;
using base::TimePoint;
using base::TrafficClass;

constexpr uint32_t kEpoch = 3;
constexpr uint32_t kOverhead = 28;
constexpr uint64_t kDatagram = 1000;  // outer

// A sender that is told what a receiver saw.
struct Sender {
    PathReport report;
    TimePoint now{seconds(100)};
    uint64_t next = 0;
    Duration rtt = milliseconds(20);

    // Sends so many, evenly over the time.
    void send(uint64_t count, Duration over) {
        for (uint64_t i = 0; i < count; ++i) {
            report.on_sent(kEpoch, TrafficClass::HtHd, next++, kDatagram, true, now);
            now += over / static_cast<int64_t>(count);
        }
    }
    // `backlog`: datagrams that the path still holds.
    wire::Report seen(uint64_t datagrams, uint64_t interval_ms, uint64_t backlog = 0) const {
        wire::Report told;
        told.space.traffic_class = TrafficClass::HtHd;
        told.highest = static_cast<uint32_t>(next - 1 - backlog);
        told.interval_ms = interval_ms;
        told.datagrams = datagrams;
        told.bytes = datagrams * (kDatagram - kOverhead);
        return told;
    }
    std::optional<Duration> hear(const wire::Report& told) {
        report.on_report(kEpoch, told, kOverhead);
        return report.finish(rtt, now);
    }
    // `queued`: more than the path's delay, which is 5 ms.
    void
    hear_delayed(uint64_t datagrams, uint64_t interval_ms, Duration queued, uint64_t backlog = 0) {
        wire::Report told = seen(datagrams, interval_ms, backlog);
        wire::ReportDelay delay;
        const auto units = static_cast<uint16_t>((milliseconds(5) + queued) / wire::kClockUnit);
        delay.smallest = units;
        delay.mean = units;
        delay.echo = clock_at(now - milliseconds(30));
        told.delay = delay;
        hear(told);
    }
};

TEST(PathReport, LossIsOfWhatWasJudgedLessWhatCameLater) {
    Sender sender;
    EXPECT_FALSE(sender.report.loss(sender.now));
    sender.send(100, seconds(1));
    wire::Report told = sender.seen(80, 1000);
    told.lost = 20;
    sender.hear(told);
    EXPECT_DOUBLE_EQ(*sender.report.loss(sender.now), 0.2);
    sender.send(100, seconds(1));
    told = sender.seen(110, 1000);
    told.late = 10;
    sender.hear(told);
    EXPECT_DOUBLE_EQ(*sender.report.loss(sender.now), 10.0 / 200);
    EXPECT_EQ(sender.report.lost(), 20U);
    EXPECT_EQ(sender.report.late(), 10U);
}

TEST(PathReport, LossIsOfTheLastSeconds) {
    Sender sender;
    for (int second = 0; second < 30; ++second) {
        sender.send(100, seconds(1));
        wire::Report told = sender.seen(90, 1000);
        told.lost = second < 15 ? 10 : 0;
        sender.hear(told);
    }
    EXPECT_DOUBLE_EQ(*sender.report.loss(sender.now), 0);
}

TEST(PathReport, AFewNumbersTellNoLoss) {
    Sender sender;
    sender.send(10, seconds(1));
    wire::Report told = sender.seen(5, 1000);
    told.lost = 5;
    sender.hear(told);
    EXPECT_FALSE(sender.report.loss(sender.now));
}

TEST(PathReport, TheRoundTripIsFromTheEchoWithoutTheTimeItWasHeld) {
    Sender sender;
    sender.send(20, milliseconds(200));
    wire::Report told = sender.seen(20, 200);
    wire::ReportDelay delay;
    delay.echo = clock_at(sender.now - milliseconds(80));
    delay.held = 300;  // 30 ms
    told.delay = delay;
    EXPECT_EQ(sender.hear(told), milliseconds(50));
    delay.echo = clock_at(sender.now + seconds(1));
    told.delay = delay;
    EXPECT_FALSE(sender.hear(told)) << "a clock that was never sent";
}

TEST(PathReport, WhatThePathGivesOutIsItsRateWhenItTakesInMore) {
    Sender sender;
    for (uint64_t i = 1; i <= 6; ++i) {
        sender.send(100, milliseconds(200));        // 500 kB/s
        sender.hear(sender.seen(50, 200, 50 * i));  // 250 kB/s
    }
    EXPECT_NEAR(static_cast<double>(sender.report.delivery_bytes_per_s()), 250e3, 1e3);
    EXPECT_TRUE(sender.report.is_bottleneck());
}

TEST(PathReport, AnApplicationThatSendsLessChangesNothing) {
    Sender sender;
    for (uint64_t i = 1; i <= 10; ++i) {
        sender.send(100, milliseconds(200));
        sender.hear(sender.seen(50, 200, 50 * i));
    }
    const uint64_t before = sender.report.delivery_bytes_per_s();
    for (int i = 0; i < 100; ++i) {
        sender.send(10, milliseconds(200));
        sender.hear(sender.seen(10, 200));
    }
    EXPECT_EQ(sender.report.delivery_bytes_per_s(), before);
    EXPECT_FALSE(sender.report.is_bottleneck());
    sender.send(200, milliseconds(200));
    sender.hear(sender.seen(200, 200));
    EXPECT_NEAR(static_cast<double>(sender.report.delivery_bytes_per_s()), 1e6, 1e4)
        << "but one that gets more through does";
}

TEST(PathReport, RandomLossIsNotTakenForAFullPath) {
    Sender sender;
    for (int i = 0; i < 30; ++i) {
        sender.send(100, milliseconds(200));
        wire::Report told = sender.seen(70, 200);
        told.lost = 30;
        sender.hear(told);
        EXPECT_FALSE(sender.report.is_bottleneck());
    }
}

TEST(PathReport, AQueueThatStandsMakesTheSampleCount) {
    Sender sender;
    for (int i = 0; i < 20; ++i) {
        sender.send(100, milliseconds(200));
        sender.hear_delayed(100, 200, {});
    }
    EXPECT_NEAR(static_cast<double>(sender.report.delivery_bytes_per_s()), 500e3, 5e3);
    for (int i = 0; i < 30; ++i) {
        sender.send(50, milliseconds(200));
        sender.hear_delayed(50, 200, milliseconds(60));
    }
    EXPECT_TRUE(sender.report.is_bottleneck());
    EXPECT_NEAR(static_cast<double>(sender.report.delivery_bytes_per_s()), 250e3, 5e3);
}

TEST(PathReport, ARoundTripThatWaitedInASilenceHidesNoQueue) {
    Sender sender;
    for (int i = 0; i < 10; ++i) {
        sender.send(100, milliseconds(200));
        sender.hear_delayed(100, 200, {});
    }
    sender.rtt = milliseconds(800);  // smoothed; no other sample comes
    for (int i = 0; i < 30; ++i) {
        sender.send(50, milliseconds(200));
        sender.hear_delayed(50, 200, milliseconds(60));
    }
    EXPECT_TRUE(sender.report.is_bottleneck());
}

TEST(PathReport, AQueueThatComesAndGoesDoesNot) {
    Sender sender;
    for (int i = 0; i < 40; ++i) {
        sender.send(100, milliseconds(200));
        sender.hear_delayed(100, 200, i % 4 == 0 ? milliseconds(60) : Duration{});
        EXPECT_FALSE(sender.report.is_bottleneck());
    }
}

TEST(PathReport, WhatArrivesAllAtOnceWasHeldUpTogether) {
    Sender sender;
    sender.send(100, seconds(1));  // 100 kB/s
    sender.hear(sender.seen(100, 200));
    EXPECT_NEAR(static_cast<double>(sender.report.delivery_bytes_per_s()), 100e3, 5e3);
}

TEST(PathReport, APauseOfTheSenderIsNotTakenForAFullPath) {
    Sender sender;
    for (int i = 0; i < 20; ++i) {
        sender.send(100, milliseconds(100));
        sender.now += milliseconds(100);
        sender.hear(sender.seen(100, 200));
        EXPECT_FALSE(sender.report.is_bottleneck());
    }
}

// The path had nothing to give out for most of the interval. Had it been full, what was taken in
// first would have waited for as long.
TEST(PathReport, ABurstAfterAPauseIsNotTakenForAFullPath) {
    for (const Duration queued : {milliseconds(10), milliseconds(40)}) {
        Sender sender;
        sender.send(20, milliseconds(100));
        sender.hear_delayed(20, 100, {});
        sender.send(30, milliseconds(45));
        sender.now += milliseconds(55);
        sender.hear_delayed(22, 100, queued, 8);
        EXPECT_EQ(sender.report.is_bottleneck(), queued == milliseconds(40));
    }
}

TEST(PathReport, AReportThatIsLostChangesNoRate) {
    Sender sender;
    for (uint64_t i = 1; i <= 20; ++i) {
        sender.send(100, milliseconds(200));
        if (i % 3 != 0) {
            sender.hear(sender.seen(50, 200, 50 * i));
        }
    }
    EXPECT_NEAR(static_cast<double>(sender.report.delivery_bytes_per_s()), 250e3, 5e3);
}

TEST(PathReport, WhatAReportNamesIsNoLongerUnderWay) {
    Sender sender;
    sender.send(100, milliseconds(200));
    EXPECT_EQ(sender.report.under_way_bytes(), 100 * kDatagram);
    wire::Report told = sender.seen(60, 120);
    told.highest = 59;
    sender.hear(told);
    EXPECT_EQ(sender.report.under_way_bytes(), 40 * kDatagram) << "between two marks";
    sender.send(10, milliseconds(20));
    EXPECT_EQ(sender.report.under_way_bytes(), 50 * kDatagram);
    sender.hear(sender.seen(10, 20));
    EXPECT_EQ(sender.report.under_way_bytes(), 0U);
}

// A router may let the datagrams of one class overtake those of another.
TEST(PathReport, WhatIsReportedOfOneClassTellsNothingOfAnother) {
    Sender sender;
    sender.send(100, milliseconds(200));
    sender.report.on_sent(kEpoch, TrafficClass::LtLd, 500, 100, true, sender.now);
    EXPECT_EQ(sender.report.under_way_bytes(), 100 * kDatagram + 100);
    wire::Report told = sender.seen(1, 20);
    told.space.traffic_class = TrafficClass::LtLd;
    told.highest = 500;
    sender.hear(told);
    EXPECT_EQ(sender.report.under_way_bytes(), 100 * kDatagram);
}

TEST(PathReport, AnEpochThatIsGrantedAnewCountsItsOwnNumbers) {
    Sender sender;
    sender.send(10, milliseconds(300));
    sender.next = 0;
    sender.send(50, milliseconds(300));
    sender.hear(sender.seen(45, 300, 5));
    EXPECT_LE(sender.report.under_way_bytes(), 60 * kDatagram);
    sender.hear(sender.seen(5, 100));
    EXPECT_EQ(sender.report.under_way_bytes(), 0U) << "what went before it came is not missed";
}

TEST(PathReport, AQueueOfHalfATurnOfTheClockDoesNotMakeThePathFaster) {
    Sender sender;
    sender.send(20, milliseconds(200));
    sender.hear_delayed(20, 200, {});
    const uint16_t base = *sender.report.base_delay();
    sender.send(20, milliseconds(200));
    sender.hear_delayed(20, 200, seconds(4));
    EXPECT_EQ(*sender.report.base_delay(), base);
}

TEST(PathReport, WhatIsLostOnAPathThatMakesNoQueueLimitsItsRate) {
    Sender sender;
    for (int i = 0; i < 10; ++i) {
        sender.send(100, milliseconds(200));       // 500 kB/s
        wire::Report told = sender.seen(20, 200);  // 100 kB/s
        told.lost = 80;
        sender.hear(told);
    }
    sender.report.on_lag(milliseconds(20), sender.now);
    EXPECT_NEAR(static_cast<double>(
                    base::to_ms(sender.report.delivered_at(10'000, {}, sender.now) - sender.now)),
                100, 10);
}

TEST(PathReport, AReportIsOverdueAfterARoundTripAndItsInterval) {
    constexpr Duration kInterval = milliseconds(100);
    Sender sender;
    const auto is_overdue = [&] {
        return sender.report.is_overdue(milliseconds(30), kInterval, sender.now);
    };
    sender.send(100, milliseconds(200));
    sender.hear(sender.seen(100, 200));
    EXPECT_FALSE(is_overdue()) << "nothing is under way";
    sender.send(5, milliseconds(300));
    EXPECT_FALSE(is_overdue()) << "so few are not reported by themselves";
    sender.send(20, milliseconds(200));
    EXPECT_FALSE(is_overdue());
    sender.send(20, milliseconds(80));
    EXPECT_TRUE(is_overdue()) << "it reports by itself after two intervals";
    sender.now += seconds(1);
    EXPECT_FALSE(is_overdue()) << "it is tried again";
    sender.send(1, {});
    EXPECT_TRUE(is_overdue());
    sender.hear(sender.seen(45, 200));
    EXPECT_FALSE(is_overdue());
    sender.send(100, milliseconds(150));
    EXPECT_FALSE(is_overdue());
    sender.send(1, milliseconds(20));
    EXPECT_TRUE(is_overdue()) << "of so much after one";
}

TEST(PathReport, AReportMayTakeWhatReportsTookByWhateverPathTheyCameBack) {
    Sender sender;
    EXPECT_FALSE(sender.report.report_after(seconds(1)));
    const auto hear_after = [&](Duration rtt, bool came_back) {
        sender.send(20, milliseconds(200));
        wire::Report told = sender.seen(20, 200);
        wire::ReportDelay delay;
        delay.echo = clock_at(sender.now - rtt);
        told.delay = delay;
        sender.report.on_report(kEpoch, told, kOverhead, came_back);
        EXPECT_EQ(sender.report.finish(rtt, sender.now).has_value(), came_back);
    };
    hear_after(milliseconds(100), false);
    EXPECT_EQ(sender.report.report_after(seconds(1)), milliseconds(300));
    EXPECT_FALSE(sender.report.base_round_trip()) << "it is not the path's own";
    hear_after(milliseconds(100), true);
    EXPECT_EQ(sender.report.report_after(seconds(1)), milliseconds(250));
    sender.now += seconds(5);
    hear_after(seconds(3), true);
    EXPECT_EQ(sender.report.report_after(seconds(1)), milliseconds(1100))
        << "one that waited in a silence of the link does not make the next silence longer";
}

TEST(PathReport, APathIsReadyWhenItHasDeliveredWhatWasSentAtItsRate) {
    Sender sender;
    for (uint64_t i = 1; i <= 10; ++i) {
        sender.send(100, milliseconds(200));
        sender.hear(sender.seen(50, 200, 50 * i));  // 250 kB/s
    }
    sender.hear(sender.seen(500, 2000));
    sender.report.on_lag(milliseconds(20), sender.now);
    EXPECT_EQ(sender.report.ready_at(sender.now), sender.now) << "all has arrived";
    sender.send(25, {});
    EXPECT_EQ(sender.report.ready_at(sender.now) - sender.now, milliseconds(100));
    EXPECT_EQ(sender.report.delivered_at(kDatagram, {}, sender.now) - sender.now,
              milliseconds(104));
    wire::Report told = sender.seen(1, 10);
    told.highest -= 24;
    sender.hear(told);
    sender.report.on_lag(milliseconds(20), sender.now);
    EXPECT_NEAR(static_cast<double>(base::to_ms(sender.report.ready_at(sender.now) - sender.now)),
                76, 5)
        << "24 are under way since 20 ms";
}

// A path that looks slow is tried sooner the longer it tells nothing: from when it is used on.
TEST(PathReport, APathThatWasJustTakenIsAsSlowAsItLooks) {
    Sender sender;
    sender.send(1, milliseconds(1));
    const auto takes = [&] {
        return base::to_ms(sender.report.delivered_at(kDatagram, milliseconds(100), sender.now) -
                           sender.now);
    };
    EXPECT_NEAR(static_cast<double>(takes()), 101, 1);
    sender.now += seconds(2);
    EXPECT_NEAR(static_cast<double>(takes()), 50, 1);
}

TEST(PathReport, AThinStreamTakesASecondForASample) {
    Sender sender;
    sender.send(4, milliseconds(400));
    sender.hear(sender.seen(4, 400));
    EXPECT_EQ(sender.report.delivery_bytes_per_s(), 0U);
    sender.send(8, milliseconds(800));
    sender.hear(sender.seen(8, 800));
    EXPECT_NEAR(static_cast<double>(sender.report.delivery_bytes_per_s()), 10e3, 1e3);
}

TEST(PathReport, AnotherEpochBeginsWithItsOwnNumbers) {
    Sender sender;
    sender.send(100, milliseconds(200));
    sender.hear(sender.seen(50, 200));
    sender.next = 0;
    sender.report.on_sent(kEpoch + 1, TrafficClass::HtHd, sender.next++, kDatagram, true,
                          sender.now);
    wire::Report late = sender.seen(50, 200);
    late.highest = 99;
    sender.hear(late);
    EXPECT_FALSE(sender.report.is_bottleneck()) << "its numbers are of the epoch before";
}

TEST(PathReport, FiguresBeyondAllReasonDoNoHarm) {
    Sender sender;
    sender.send(10, seconds(1));
    wire::Report told = sender.seen(10, 1);
    for (uint64_t* value : {&told.interval_ms, &told.bytes, &told.datagrams, &told.lost, &told.late,
                            &told.duplicates}) {
        *value = UINT64_MAX;
    }
    for (int i = 0; i < 100; ++i) {
        sender.hear(told);
    }
    const auto loss = sender.report.loss(sender.now);
    EXPECT_TRUE(loss && *loss >= 0 && *loss <= 1);
    told.datagrams = 0;
    sender.hear(told);
    told.datagrams = 1;
    told.interval_ms = 0;
    sender.hear(told);
}

TEST(PathReport, TimeGoesOnceAnIntervalWhereBytesGo) {
    Sender sender;
    sender.send(1, milliseconds(1));
    EXPECT_FALSE(sender.report.is_time_due(false, sender.now));
    EXPECT_TRUE(sender.report.is_time_due(true, sender.now));
    sender.send(2, milliseconds(1));
    EXPECT_TRUE(sender.report.is_time_due(false, sender.now));
    sender.report.on_time_sent(sender.now);
    sender.send(10, milliseconds(90));
    EXPECT_FALSE(sender.report.is_time_due(true, sender.now));
    sender.now += milliseconds(11);
    EXPECT_TRUE(sender.report.is_time_due(false, sender.now));
}

TEST(PathReport, AfterAMinuteWithoutReportsTheLossIsUnknown) {
    Sender sender;
    sender.send(100, seconds(1));
    sender.hear(sender.seen(100, 1000));
    EXPECT_TRUE(sender.report.loss(sender.now + seconds(60)));
    EXPECT_FALSE(sender.report.loss(sender.now + seconds(61)));
    EXPECT_TRUE(sender.report.is_idle(sender.now + seconds(61)));
}

TEST(PathReport, ARoundTripIsOfReportsThatCameBackByThePathAndWereNotHeldUp) {
    Sender sender;
    sender.send(100, seconds(1));
    wire::Report told = sender.seen(80, 1000);
    told.delay.emplace();
    told.delay->echo = clock_at(sender.now - milliseconds(50));
    told.delay->held = 100;  // 10 ms
    const auto hear = [&](bool came_back) {
        sender.report.on_report(kEpoch, told, kOverhead, came_back);
        return sender.report.finish(sender.rtt, sender.now);
    };
    EXPECT_EQ(hear(true), base::Duration(milliseconds(40)));
    EXPECT_FALSE(hear(false));
    sender.report.distrust_round_trip(sender.now - milliseconds(60));
    EXPECT_EQ(hear(true), base::Duration(milliseconds(40)));
    sender.report.distrust_round_trip(sender.now - milliseconds(40));
    EXPECT_FALSE(hear(true));
}

}  // namespace
}  // namespace continuo::session
