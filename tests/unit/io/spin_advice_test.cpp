#include "common/io/spin_advice.hpp"

#include <gtest/gtest.h>

namespace continuo::io {
namespace {

using base::Duration;
using base::microseconds;
using base::TimePoint;

class SpinAdviceTest : public testing::Test {
  protected:
    SpinAdviceTest() { advice_.set_limit(microseconds(100)); }

    static constexpr size_t kSmall = 100;

    void turns(int count, Duration waited = microseconds(30)) {
        for (int i = 0; i < count; ++i) {
            advice_.note_moved(++served_ % 2 == 0 ? &tun_ : &udp_, kSmall, waited);
        }
    }
    bool is_worth_while() const { return advice_.is_worth_while(now_); }
    // A window in which programs waited for so much of it.
    void window(int percent) {
        ASSERT_TRUE(advice_.is_asking(now_));
        advice_.note_pressure(waited_, now_);
        EXPECT_FALSE(is_worth_while());
        now_ += kPressureWindow - microseconds(1);
        EXPECT_FALSE(advice_.is_asking(now_));
        now_ += microseconds(1);
        waited_ += kPressureWindow * percent / 100;
        ASSERT_TRUE(advice_.is_asking(now_));
        advice_.note_pressure(waited_, now_);
    }

    const int tun_ = 0;
    const int udp_ = 0;
    unsigned served_ = 0;
    SpinAdvice advice_;
    Duration waited_ = base::seconds(77);
    TimePoint now_ = TimePoint() + base::seconds(1000);
};

TEST_F(SpinAdviceTest, RequestsAndAnswersInTurnAreWorthIt) {
    turns(kSpinTurns - 1);
    EXPECT_FALSE(advice_.is_asking(now_));
    turns(1);
    window(20);
    EXPECT_TRUE(is_worth_while());
    advice_.set_limit({});
    turns(kSpinTurns);
    EXPECT_FALSE(is_worth_while());
}

TEST_F(SpinAdviceTest, AStreamIsNot) {
    turns(kSpinTurns);
    window(0);
    turns(kSpinTurns);
    for (int i = 0; i < 3; ++i) {
        advice_.note_moved(&tun_, kSmall, microseconds(1));
    }
    EXPECT_FALSE(is_worth_while());
    for (int i = 0; i < 100; ++i) {  // with an acknowledgement for each two packets
        advice_.note_moved(i % 3 == 0 ? &udp_ : &tun_, kSmall, microseconds(1));
        EXPECT_FALSE(is_worth_while());
    }
}

TEST_F(SpinAdviceTest, FullSegmentsThatAcknowledgementsPaceAreNot) {
    for (int i = 0; i < 100; ++i) {
        advice_.note_moved(&udp_, 40, microseconds(30));
        advice_.note_moved(&tun_, kLargestTurnBytes + 1, microseconds(30));
        EXPECT_FALSE(advice_.is_asking(now_));
    }
}

TEST_F(SpinAdviceTest, AnswersFromFarAwayAreNot) {
    turns(10 * kSpinTurns, microseconds(201));
    EXPECT_FALSE(advice_.is_asking(now_));
    turns(10 * kSpinTurns, microseconds(200));
    EXPECT_TRUE(advice_.is_asking(now_)) << "half of that may be its own wake-up";
}

TEST_F(SpinAdviceTest, OneWakeUpOfAnotherKindIsForgiven) {
    turns(kSpinTurns);
    window(0);
    turns(kSpinTurns);
    advice_.note_moved(nullptr, kSmall, microseconds(5));
    EXPECT_TRUE(is_worth_while());
    turns(kSpinTurns);
    advice_.note_moved(&tun_, kLargestTurnBytes + 1, microseconds(5));
    EXPECT_TRUE(is_worth_while());
    advice_.note_moved(&tun_, kSmall, microseconds(5));
    EXPECT_FALSE(is_worth_while());
}

TEST_F(SpinAdviceTest, WhereProgramsWaitForAProcessorItRests) {
    turns(kSpinTurns);
    window(kMaxPressurePercent + 1);
    EXPECT_FALSE(is_worth_while());
    EXPECT_FALSE(advice_.is_asking(now_));
    now_ += kSpinPause;
    window(kMaxPressurePercent);
    EXPECT_TRUE(is_worth_while());
    now_ += kSpinLicence;
    EXPECT_FALSE(is_worth_while()) << "it looks again";
    window(100);
    EXPECT_FALSE(is_worth_while());
}

TEST_F(SpinAdviceTest, EachRestAmongOthersIsLongerUntilNobodyMinded) {
    turns(kSpinTurns);
    window(100);
    now_ += kSpinPause;
    window(100);
    now_ += kSpinPause;
    EXPECT_FALSE(advice_.is_asking(now_));
    now_ += kSpinPause;
    window(0);
    advice_.note_contended(now_);
    now_ += kSpinPause * 3;
    EXPECT_FALSE(advice_.is_asking(now_));
    for (int i = 0; i < 20; ++i) {
        advice_.note_contended(now_);
    }
    now_ += kLongestSpinPause;
    window(0);
    now_ += kSpinLicence;
    window(100);
    now_ += kSpinPause;
    EXPECT_TRUE(advice_.is_asking(now_));
}

TEST_F(SpinAdviceTest, ALongWindowSaysNothing) {
    turns(kSpinTurns);
    advice_.note_pressure(waited_, now_);
    now_ += kPressureWindow * 5;
    advice_.note_pressure(waited_, now_);
    EXPECT_FALSE(is_worth_while());
    now_ += kPressureWindow;
    advice_.note_pressure(waited_, now_);
    EXPECT_TRUE(is_worth_while()) << "its end was the beginning of another";
}

TEST_F(SpinAdviceTest, InVainSeveralTimesInARowItRests) {
    turns(kSpinTurns);
    window(0);
    for (int i = 0; i < kMaxSpinMisses - 1; ++i) {
        advice_.note_spun(false, now_);
    }
    advice_.note_spun(true, now_);
    for (int i = 0; i < kMaxSpinMisses - 1; ++i) {
        advice_.note_spun(false, now_);
    }
    EXPECT_TRUE(is_worth_while());
    advice_.note_spun(false, now_);
    EXPECT_FALSE(is_worth_while());
    EXPECT_FALSE(advice_.is_asking(now_));
    now_ += kSpinPause;
    window(0);
    EXPECT_TRUE(is_worth_while());
    advice_.note_contended(now_);
    EXPECT_FALSE(is_worth_while());
}

}  // namespace
}  // namespace continuo::io
