#include "common/session/receive_report.hpp"

#include <gtest/gtest.h>

namespace continuo::session {
namespace {

using base::milliseconds;
using base::seconds;
using base::TimePoint;

constexpr int64_t kPlenty = 1000;

struct Receiver {
    crypto::ReplayWindow window;
    ReceiveReport report;
    TimePoint now{seconds(100)};

    void arrive(uint64_t sequence, bool has_packets = true, size_t bytes = 1000) {
        if (window.check_and_mark(sequence)) {
            report.on_datagram(8, window, sequence, bytes, has_packets, now);
        }
    }
    void arrive_all(uint64_t first, uint64_t last) {
        for (uint64_t sequence = first; sequence <= last; ++sequence) {
            arrive(sequence);
        }
    }
    wire::Report tell() {
        std::array<wire::Report, 4> reports;
        EXPECT_EQ(report.build(reports, 1000, now), 1U);
        return reports[0];
    }
};

TEST(ReceiveReport, TellsWhatCameSinceTheLastOne) {
    Receiver end;
    end.arrive_all(0, 9);
    end.now += milliseconds(250);
    const wire::Report first = end.tell();
    EXPECT_EQ(first.space, wire::space_from_number(8));
    EXPECT_EQ(first.highest, 9U);
    EXPECT_EQ(first.interval_ms, 250U);
    EXPECT_EQ(first.bytes, 10'000U);
    EXPECT_EQ(first.datagrams, 10U);
    end.arrive_all(10, 11);
    end.now += milliseconds(300);
    const wire::Report second = end.tell();
    EXPECT_EQ(second.highest, 11U);
    EXPECT_EQ(second.interval_ms, 300U);
    EXPECT_EQ(second.datagrams, 2U);
}

TEST(ReceiveReport, ANumberIsLostWhenItIsMissingForAWholeReport) {
    Receiver end;
    end.arrive_all(0, 4);
    end.arrive_all(7, 9);  // 5 and 6 may be on their way
    EXPECT_EQ(end.tell().lost, 0U);
    end.arrive(5);
    end.arrive_all(10, 19);
    EXPECT_EQ(end.tell().lost, 1U);
    end.arrive(6);
    end.arrive(20);
    const wire::Report last = end.tell();
    EXPECT_EQ(last.lost, 0U);
    EXPECT_EQ(last.late, 1U);
    EXPECT_EQ(end.report.lost(), 0U);
}

TEST(ReceiveReport, AGapIsMissingBeforeAnyReport) {
    Receiver end;
    end.arrive_all(0, 4);
    EXPECT_EQ(end.report.missing(), 0U);
    end.arrive(8);
    EXPECT_EQ(end.report.missing(), 3U);
    end.arrive(6);
    EXPECT_EQ(end.report.missing(), 2U);
    EXPECT_EQ(end.report.lost(), 0U);
}

TEST(ReceiveReport, WhatTheWindowHasLeftIsLost) {
    Receiver end;
    end.arrive(0);
    end.arrive_all(10'000, 10'009);
    EXPECT_EQ(end.tell().lost, 10'010U - 4096 - 1) << "the rest may still come";
    end.arrive(20'000);
    EXPECT_EQ(end.tell().lost, 20'001U - 4096 - 11 - (10'010 - 4096 - 1));
}

TEST(ReceiveReport, DuplicatesAreCounted) {
    Receiver end;
    end.arrive_all(0, 5);
    end.arrive(3);
    end.arrive(4);
    EXPECT_EQ(end.tell().duplicates, 2U);
    end.arrive(6);
    EXPECT_EQ(end.tell().duplicates, 0U);
}

TEST(ReceiveReport, APauseIsNoPartOfTheInterval) {
    Receiver end;
    end.arrive_all(0, 5);
    end.tell();
    end.now += seconds(20);
    end.arrive_all(6, 9);
    end.now += milliseconds(150);
    EXPECT_EQ(end.tell().interval_ms, 150U);
}

TEST(ReceiveReport, TellsTheDelaysOfTimeAndEchoesTheNewest) {
    Receiver end;
    const uint32_t zero = 12'345;  // the peer's clock has another
    const auto stamp = [&](base::Duration delay) {
        return (clock_at(end.now - delay) + zero) % wire::kClockModulus;
    };
    end.arrive(0);
    end.report.on_time_frame(8, stamp(milliseconds(30)), end.now);
    end.now += milliseconds(40);
    end.arrive(1);
    end.report.on_time_frame(8, stamp(milliseconds(20)), end.now);
    end.now += milliseconds(40);
    end.arrive(2);
    const uint32_t newest = stamp(milliseconds(40));
    end.report.on_time_frame(8, newest, end.now);
    end.now += milliseconds(7);
    const wire::Report told = end.tell();
    ASSERT_TRUE(told.delay);
    const auto above = [&](uint16_t delay) { return static_cast<uint16_t>(delay + zero); };
    EXPECT_EQ(above(told.delay->smallest), 200U);
    EXPECT_EQ(above(told.delay->mean), 300U);
    EXPECT_EQ(told.delay->echo, newest);
    EXPECT_EQ(told.delay->held, 70U);
    end.arrive(3);
    EXPECT_FALSE(end.tell().delay) << "no TIME came";
}

TEST(ReceiveReport, RidesAfterARoundTripAndGoesAloneAfterTwo) {
    Receiver end;
    end.report.set_rtt(milliseconds(150));
    end.arrive_all(0, 9);
    const TimePoint came = end.now;
    EXPECT_FALSE(end.report.wants(came + milliseconds(149), true, kPlenty));
    EXPECT_TRUE(end.report.wants(came + milliseconds(150), true, kPlenty));
    EXPECT_FALSE(end.report.wants(came + milliseconds(299), false, kPlenty));
    EXPECT_TRUE(end.report.wants(came + milliseconds(300), false, kPlenty));
    EXPECT_EQ(end.report.next_deadline(kPlenty), came + milliseconds(300));
}

TEST(ReceiveReport, AFewBytesWaitForASecond) {
    Receiver end;
    for (uint64_t sequence = 0; sequence < 10; ++sequence) {
        end.arrive(sequence, true, 100);
    }
    EXPECT_EQ(end.report.next_deadline(kPlenty), end.now + seconds(1));
}

TEST(ReceiveReport, AFewDatagramsAreNotWorthOneOfTheirOwn) {
    Receiver end;
    end.arrive_all(0, 2);
    EXPECT_EQ(end.report.next_deadline(kPlenty), base::kNever);
    EXPECT_TRUE(end.report.wants(end.now + seconds(1), true, kPlenty));
}

TEST(ReceiveReport, ReportsOfReportsRideOnly) {
    Receiver end;
    for (uint64_t sequence = 0; sequence < 100; ++sequence) {
        end.arrive(sequence, false);
    }
    EXPECT_EQ(end.report.next_deadline(kPlenty), base::kNever);
    EXPECT_FALSE(end.report.wants(end.now + milliseconds(999), true, kPlenty));
    EXPECT_TRUE(end.report.wants(end.now + seconds(1), true, kPlenty));
}

TEST(ReceiveReport, NothingIsToldTwice) {
    Receiver end;
    end.arrive_all(0, 20);
    end.now += seconds(1);
    end.tell();
    EXPECT_FALSE(end.report.wants(end.now + seconds(100), true, kPlenty));
    EXPECT_EQ(end.report.next_deadline(kPlenty), base::kNever);
    std::array<wire::Report, 4> reports;
    EXPECT_EQ(end.report.build(reports, 1000, end.now), 0U);
}

TEST(ReceiveReport, TheByteCreditBoundsIt) {
    Receiver end;
    end.arrive_all(0, 20);
    EXPECT_EQ(end.report.next_deadline(kReportFrameBytes + kReportAloneBytes - 1), base::kNever);
    EXPECT_TRUE(end.report.wants(end.now + seconds(1), true, kReportFrameBytes));
    EXPECT_FALSE(end.report.wants(end.now + seconds(1), true, kReportFrameBytes - 1));
}

TEST(ReceiveReport, SoManyDatagramsAreToldAtOnce) {
    Receiver end;
    end.arrive_all(0, wire::kReportEveryDatagrams - 1);
    EXPECT_TRUE(end.report.wants(end.now, false, kPlenty));
}

TEST(ReceiveReport, WhatHasNoRoomWaits) {
    Receiver end;
    crypto::ReplayWindow other;
    end.arrive_all(0, 5);
    other.check_and_mark(0);
    end.report.on_datagram(16, other, 0, 100, true, end.now);
    std::array<wire::Report, 1> one;
    EXPECT_EQ(end.report.build(one, 1000, end.now), 1U);
    EXPECT_TRUE(end.report.wants(end.now + seconds(1), true, kPlenty));
    EXPECT_EQ(end.report.build(one, 10, end.now), 0U);
    EXPECT_EQ(end.report.build(one, 1000, end.now), 1U);
    EXPECT_EQ(one[0].space, wire::space_from_number(16));
}

}  // namespace
}  // namespace continuo::session
