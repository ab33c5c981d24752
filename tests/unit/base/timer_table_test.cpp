#include "common/base/timer_table.hpp"

#include <gtest/gtest.h>

namespace continuo::base {
namespace {

enum class Timer : uint8_t { Probe, Report, Idle, Count };

TimePoint at_ms(int count) {
    return TimePoint(milliseconds(count));
}

TEST(TimerTable, IsEmptyAtFirst) {
    const TimerTable<Timer> table;
    EXPECT_EQ(table.next_deadline(), kNever);
    EXPECT_FALSE(table.is_set(Timer::Probe));
}

TEST(TimerTable, NextDeadlineIsTheEarliest) {
    TimerTable<Timer> table;
    table.set(Timer::Idle, at_ms(30));
    table.set(Timer::Report, at_ms(10));
    table.set(Timer::Probe, at_ms(20));
    EXPECT_EQ(table.next_deadline(), at_ms(10));
    table.stop(Timer::Report);
    EXPECT_EQ(table.next_deadline(), at_ms(20));
    EXPECT_EQ(table.deadline(Timer::Idle), at_ms(30));
}

TEST(TimerTable, ExpiresOnceAndNotEarly) {
    TimerTable<Timer> table;
    table.set(Timer::Probe, at_ms(10));
    table.set(Timer::Idle, at_ms(11));
    EXPECT_FALSE(table.expire(Timer::Probe, at_ms(9)));
    EXPECT_TRUE(table.is_set(Timer::Probe));
    EXPECT_TRUE(table.expire(Timer::Probe, at_ms(10)));
    EXPECT_FALSE(table.expire(Timer::Probe, at_ms(10)));
    EXPECT_FALSE(table.is_set(Timer::Probe));
    EXPECT_TRUE(table.is_set(Timer::Idle));
    EXPECT_FALSE(table.expire(Timer::Report, at_ms(1000))) << "never set";
}

TEST(TimerTable, SetEarlierKeepsTheEarlierDeadline) {
    TimerTable<Timer> table;
    table.set_earlier(Timer::Report, at_ms(20));
    table.set_earlier(Timer::Report, at_ms(30));
    EXPECT_EQ(table.deadline(Timer::Report), at_ms(20));
    table.set_earlier(Timer::Report, at_ms(10));
    EXPECT_EQ(table.deadline(Timer::Report), at_ms(10));
    table.set(Timer::Report, at_ms(40));
    EXPECT_EQ(table.deadline(Timer::Report), at_ms(40));
}

}  // namespace
}  // namespace continuo::base
