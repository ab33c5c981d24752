#include "common/recovery/loss_detector.hpp"

#include <set>

#include <gtest/gtest.h>

namespace continuo::recovery {
namespace {

using base::Duration;
using base::milliseconds;
using base::seconds;
using base::TimePoint;

constexpr NumberSpace kBulk{0, 256};
constexpr NumberSpace kVoice{0, 0};

class LossDetectorTest : public testing::Test {
  protected:
    LossDetectorTest() { rtt_.on_sample(milliseconds(80), {}, now_); }

    void send(const NumberSpace& space, uint32_t number, Duration later = milliseconds(2)) {
        now_ += later;
        SentRun run;
        run.space = space;
        run.first = number;
        run.count = 1;
        run.bytes = run.last_bytes = 1000;
        run.sent_at = now_;
        log_.push(run, {});
    }
    void acknowledge(const NumberSpace& space, uint32_t first, uint32_t last) {
        log_.acknowledge(
            space, first, last,
            [&](SentLog::Position at, const SentRun& run, uint64_t newly, uint64_t late) {
                detector_.on_acknowledged(at, run, newly | late);
                if (late != 0) {
                    detector_.on_late(run, late, now_);
                }
            });
        detect();
    }
    void detect() {
        detector_.detect(log_, rtt_, now_, [&](const SentRun& run, uint64_t bits) {
            for (uint32_t i = 0; i < run.count; ++i) {
                if ((bits >> i & 1U) != 0) {
                    lost_.insert({run.space.space, run.first + i});
                }
            }
        });
    }
    bool is_lost(const NumberSpace& space, uint32_t number) const {
        return lost_.contains({space.space, number});
    }

    TimePoint now_{seconds(10)};
    RttEstimator rtt_;
    SentLog log_;
    LossDetector detector_;
    std::set<std::pair<uint16_t, uint32_t>> lost_;
};

TEST_F(LossDetectorTest, ThreeLaterNumbersOfTheSpaceMakeOneLost) {
    for (uint32_t i = 0; i < 8; ++i) {
        send(kBulk, i);
    }
    acknowledge(kBulk, 3, 3);
    EXPECT_TRUE(is_lost(kBulk, 0));
    EXPECT_EQ(lost_.size(), 1U);
    acknowledge(kBulk, 4, 4);
    EXPECT_TRUE(is_lost(kBulk, 1));
    EXPECT_FALSE(is_lost(kBulk, 5)) << "nothing later has arrived";
}

TEST_F(LossDetectorTest, AnotherClassCountsByTimeOnly) {
    send(kBulk, 0);
    for (uint32_t i = 0; i < 8; ++i) {
        send(kVoice, i);
    }
    acknowledge(kVoice, 0, 7);
    EXPECT_TRUE(lost_.empty()) << "the network prefers voice";
    const TimePoint due = detector_.deadline();
    ASSERT_NE(due, base::kNever);
    now_ = due - base::microseconds(1);
    detect();
    EXPECT_TRUE(lost_.empty());
    now_ = due;
    detect();
    EXPECT_TRUE(is_lost(kBulk, 0));
    EXPECT_EQ(detector_.deadline(), base::kNever);
}

TEST_F(LossDetectorTest, ATailIsNeverDeclaredLost) {
    send(kBulk, 0);
    send(kBulk, 1);
    acknowledge(kBulk, 0, 0);
    now_ += seconds(60);
    detect();
    EXPECT_TRUE(lost_.empty());
    EXPECT_EQ(detector_.deadline(), base::kNever);
}

TEST_F(LossDetectorTest, WhatComesLateRaisesTheThresholdsUntilItIsLongAgo) {
    for (uint32_t i = 0; i < 12; ++i) {
        send(kBulk, i);
    }
    acknowledge(kBulk, 1, 10);
    EXPECT_TRUE(is_lost(kBulk, 0));
    now_ += milliseconds(40);
    acknowledge(kBulk, 0, 0);
    EXPECT_EQ(detector_.packet_threshold(), 11U);
    lost_.clear();
    for (uint32_t i = 12; i < 30; ++i) {
        send(kBulk, i);
    }
    acknowledge(kBulk, 11, 11);
    acknowledge(kBulk, 13, 20);
    EXPECT_TRUE(lost_.empty()) << "as much disorder as before";
    // Each episode of real loss brings the usual thresholds nearer.
    uint32_t number = 30;
    for (uint32_t episode = 0; episode < LossDetector::kReorderingPersists + 1; ++episode) {
        const uint32_t first = number;
        for (; number < first + 20; ++number) {
            send(kBulk, number, milliseconds(10));
        }
        acknowledge(kBulk, first + 1, first + 19);
    }
    EXPECT_EQ(detector_.packet_threshold(), LossDetector::kPacketThreshold);
    EXPECT_EQ(detector_.time_threshold(rtt_), milliseconds(90));
}

TEST_F(LossDetectorTest, ThresholdsAreBoundedWhateverComesLate) {
    send(kBulk, 0);
    send(kBulk, 1);
    for (uint32_t i = 2; i < 1000; ++i) {
        send(kBulk, i, {});
    }
    acknowledge(kBulk, 900, 999);
    EXPECT_TRUE(is_lost(kBulk, 0));
    now_ += seconds(1);
    acknowledge(kBulk, 0, 0);
    EXPECT_EQ(detector_.packet_threshold(), LossDetector::kMostPacketThreshold);
    EXPECT_EQ(detector_.time_threshold(rtt_), milliseconds(160));
}

}  // namespace
}  // namespace continuo::recovery
