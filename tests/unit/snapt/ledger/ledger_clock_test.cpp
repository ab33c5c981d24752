// A wall clock that is set while flows count.
#include "snapt/accounting/verify.hpp"
#include "tests/unit/snapt/ledger/accounting_fixture.hpp"

#include <cstdlib>

namespace continuo::snapt::ledger {
namespace {

using flow::Cause;
namespace record_flag = flow::record_flag;

constexpr int64_t kHour = 3600 * kSecond;
constexpr int64_t kQuarter = 900 * kSecond;
constexpr int64_t kUptime = 77 * kSecond;  // at noon

class LedgerClockTest : public LedgerTest {
  protected:
    LedgerClockTest() {
        LedgerOptions wanted = options();
        wanted.clocks = [this] { return is_readable_ ? std::optional(clocks_) : std::nullopt; };
        ledger_ = open(kNoon, wanted);
        add_session(*ledger_, 1, "alice");
        slot_ = ledger_->live().take(request(1, 1, kNoon));
    }
    void open_aggregate() {
        LedgerOptions wanted = ledger_->options();
        wanted.is_aggregate = true;
        ledger_.reset();
        ledger_ = open(kNoon, wanted);
        add_session(*ledger_, 1, "alice");
        ledger_->watch({store::kNoAccount});
    }
    int64_t unsealed_active_us() const {
        int64_t sum_us = 0;
        EXPECT_TRUE(ledger_->visit_unsealed(
            clocks_.utc_us, [&sum_us](const flow::UsageRecord& record) -> base::Result<void> {
                sum_us += record.active_us;
                return {};
            }));
        return sum_us;
    }
    // Time passes; the wall clock is set by `step_us` meanwhile.
    int64_t pass(int64_t us, int64_t step_us = 0) {
        clocks_.boot_us += us;
        clocks_.utc_us += us + step_us;
        return clocks_.utc_us;
    }
    size_t tick_at(int64_t now_us) { return ledger_->tick(now_us).value(); }
    void count_now(uint64_t bytes) { count(*slot_, bytes, clocks_.utc_us); }
    std::vector<flow::UsageRecord> sound_records() const {
        auto all = records(1);
        for (const auto& record : all) {
            EXPECT_LT(record.t_start, record.t_end) << record.seq;
            EXPECT_EQ(record.t_start / kQuarter, (record.t_end - 1) / kQuarter)
                << record.seq << " crosses a quarter of an hour";
        }
        return all;
    }
    static bool is_stepped(const flow::UsageRecord& record) {
        return (record.flags & record_flag::kClockStepped) != 0;
    }
    // Usage counted before the step is in a record of the old time, the rest in one of the new.
    void expect_a_record_before_and_after(int64_t step_us) {
        pass(30 * kSecond);
        count_now(100);
        ASSERT_EQ(tick_at(clocks_.utc_us), 0U);
        const int64_t now_us = pass(kSecond, step_us);
        EXPECT_EQ(tick_at(now_us), 1U);
        EXPECT_EQ(ledger_->status().clock_steps, 1U);
        count_now(200);
        EXPECT_EQ(tick_at(pass(29 * kSecond)), 1U) << "the next boundary";
        const auto all = sound_records();
        ASSERT_EQ(all.size(), 2U);
        EXPECT_EQ(all[0].t_start, kNoon);
        EXPECT_EQ(all[0].t_end, kNoon + 31 * kSecond);
        EXPECT_EQ(all[0].inner_up, 100);
        EXPECT_TRUE(is_stepped(all[0]));
        EXPECT_EQ(all[1].t_start, std::max(now_us, kNoon));
        EXPECT_EQ(all[1].t_end, kNoon + step_us + kSecond * 60);
        EXPECT_EQ(all[1].inner_up, 200);
        EXPECT_FALSE(is_stepped(all[1]));
        EXPECT_EQ(number("SELECT count(*) FROM event WHERE kind='clock_step'"), 1);
        EXPECT_EQ(number("SELECT at FROM event WHERE kind='clock_step'"), now_us);
        EXPECT_EQ(number("SELECT mono FROM event WHERE kind='clock_step'"), kUptime + 31 * kSecond);
        EXPECT_EQ(number("SELECT cast(detail AS INTEGER) FROM event WHERE kind='clock_step'"),
                  step_us);
    }

    host::Clocks clocks_{kNoon, kUptime};
    bool is_readable_ = true;
    std::unique_ptr<Ledger> ledger_;
    flow::LiveSlot* slot_ = nullptr;
};

TEST_F(LedgerClockTest, AnHourForwardSealsAtTheOldTime) {
    expect_a_record_before_and_after(kHour);
}

TEST_F(LedgerClockTest, SecondsForwardDoToo) {
    expect_a_record_before_and_after(600'000'000);
}

TEST_F(LedgerClockTest, AnHourBackSealsAtTheOldTime) {
    pass(30 * kSecond);
    count_now(100);
    ASSERT_EQ(tick_at(clocks_.utc_us), 0U);
    EXPECT_EQ(tick_at(pass(kSecond, -kHour)), 1U);
    count_now(200);
    EXPECT_EQ(tick_at(pass(29 * kSecond)), 1U);
    const auto all = sound_records();
    ASSERT_EQ(all.size(), 2U);
    EXPECT_EQ(all[0].t_end, kNoon + 31 * kSecond);
    EXPECT_TRUE(is_stepped(all[0]));
    EXPECT_EQ(all[1].t_end, kNoon - kHour + 60 * kSecond);
    EXPECT_FALSE(is_stepped(all[1]));
    EXPECT_EQ(inner_up(all), 300);
    EXPECT_EQ(number("SELECT count(*) FROM event WHERE kind='clock_step' AND mono IS NOT NULL"), 1);
    EXPECT_EQ(number("SELECT cast(detail AS INTEGER) FROM event WHERE kind='clock_step'"), -kHour);
}

TEST_F(LedgerClockTest, HalfASecondIsNoStep) {
    pass(30 * kSecond);
    count_now(100);
    EXPECT_EQ(tick_at(pass(kSecond, kSecond / 2)), 0U);
    EXPECT_EQ(tick_at(pass(kSecond, -kSecond)), 0U);
    EXPECT_EQ(ledger_->status().clock_steps, 0U);
    EXPECT_EQ(tick_at(pass(kSecond, kSecond)), 0U) << "half a second from the start";
    EXPECT_EQ(tick_at(pass(kSecond, 1)), 1U) << "and a little more";
    EXPECT_EQ(ledger_->status().clock_steps, 1U);
}

TEST_F(LedgerClockTest, SleepIsNoStep) {
    count_now(100);
    ASSERT_EQ(tick_at(pass(30 * kSecond)), 0U);
    EXPECT_EQ(tick_at(pass(kHour + kQuarter)), 1U);
    EXPECT_EQ(ledger_->status().clock_steps, 0U);
    EXPECT_EQ(number("SELECT count(*) FROM event WHERE kind='clock_step'"), 0);
    const auto all = sound_records();
    ASSERT_EQ(all.size(), 1U);
    EXPECT_FALSE(is_stepped(all[0]));
}

TEST_F(LedgerClockTest, NoRecordBeforeTheStepCrossesABoundary) {
    pass(14 * 60 * kSecond + 59'500'000);
    ASSERT_EQ(tick_at(clocks_.utc_us), 0U);
    count_now(100);
    EXPECT_EQ(tick_at(pass(kSecond, kHour)), 1U);
    const auto all = sound_records();
    ASSERT_EQ(all.size(), 1U);
    EXPECT_EQ(all[0].t_end, kNoon + kQuarter);
}

TEST_F(LedgerClockTest, ATimeReadBeforeTheStepIsNotUsedAfterIt) {
    const int64_t before_us = pass(30 * kSecond);
    pass(kSecond, -kHour);
    ASSERT_EQ(tick_at(before_us), 0U) << "nothing was counted";
    EXPECT_EQ(ledger_->status().clock_steps, 1U);
    count_now(100);
    ASSERT_EQ(ledger_->seal_for({"alice"}, before_us).value(), 1U);
    count_now(10);
    ASSERT_EQ(tick_at(pass(29 * kSecond)), 1U) << "the boundary of the new time";
    const auto all = sound_records();
    EXPECT_EQ(all[0].t_end, kNoon - kHour + 31 * kSecond);
    EXPECT_EQ(all[1].t_end, kNoon - kHour + 60 * kSecond);
}

// Opened by the old clock, an hour ahead of the new one.
TEST_F(LedgerClockTest, AFlowThatClosesAfterAStepBackIsRecordedInThePast) {
    pass(30 * kSecond);
    flow::LiveSlot* counted = ledger_->live().take(request(2, 1, clocks_.utc_us));
    count(*counted, 50, clocks_.utc_us);
    flow::LiveSlot* idle = ledger_->live().take(request(3, 1, clocks_.utc_us));
    ASSERT_EQ(tick_at(pass(kSecond, -kHour)), 1U);
    for (flow::LiveSlot* slot : {counted, idle}) {
        count(*slot, 100, pass(kSecond));
        flow::add(slot->counters.active_us, 5 * kSecond);
        ledger_->live().release(slot, Cause::Closed);
    }
    const int64_t now_us = pass(kSecond);
    ASSERT_EQ(tick_at(now_us), 2U);
    const auto all = sound_records();
    ASSERT_EQ(all.size(), 3U);
    for (size_t i = 1; i < all.size(); ++i) {
        EXPECT_LE(all[i].t_end, now_us) << i;
        EXPECT_EQ(all[i].active_us, 5 * kSecond) << i;
        EXPECT_FALSE(is_stepped(all[i])) << i;
    }
}

// Only the database knows then how far the flow is recorded, by the old clock.
TEST_F(LedgerClockTest, SoIsOneAfterASealThatFailed) {
    pass(30 * kSecond);
    count_now(50);
    ASSERT_EQ(ledger_->seal_now(clocks_.utc_us).value(), 1U);
    ASSERT_EQ(tick_at(pass(kSecond, -kHour)), 0U);
    count_now(100);
    flow::add(slot_->counters.active_us, 5 * kSecond);
    ledger_->live().release(slot_, Cause::Closed);
    ASSERT_TRUE(ledger_->database().execute(
        "CREATE TEMP TRIGGER fault BEFORE INSERT ON usage_record BEGIN SELECT RAISE(FAIL, ''); "
        "END"));
    EXPECT_FALSE(ledger_->tick(pass(kSecond)));
    ASSERT_TRUE(ledger_->database().execute("DROP TRIGGER fault"));
    const int64_t now_us = pass(kSecond);
    ASSERT_EQ(tick_at(now_us), 1U);
    const auto all = sound_records();
    ASSERT_EQ(all.size(), 2U);
    EXPECT_LE(all[1].t_end, now_us);
    EXPECT_EQ(all[1].active_us, 5 * kSecond);
}

TEST_F(LedgerClockTest, MergedFlowsKeepTheirActiveTimeAfterAStepBack) {
    open_aggregate();
    pass(30 * kSecond);
    flow::LiveSlot* slot = ledger_->live().take(request(2, 1, clocks_.utc_us));
    ASSERT_EQ(tick_at(pass(kSecond, -kHour)), 0U);
    count(*slot, 100, pass(5 * kSecond));
    flow::add(slot->counters.active_us, 5 * kSecond);
    ledger_->live().release(slot, Cause::Closed);
    ASSERT_EQ(tick_at(pass(kSecond)), 0U);
    EXPECT_EQ(unsealed_active_us(), 5 * kSecond) << "for a credit";
    ASSERT_EQ(tick_at(pass(23 * kSecond)), 1U) << "the boundary";
    const auto all = records(2);
    ASSERT_EQ(all.size(), 1U);
    EXPECT_EQ(all[0].active_us, 5 * kSecond);
    EXPECT_EQ(all[0].t_end, clocks_.utc_us);
    EXPECT_LT(all[0].t_start, all[0].t_end);
}

TEST_F(LedgerClockTest, AStepWaitsForADiskThatIsFull) {
    ASSERT_TRUE(ledger_->database().execute("PRAGMA max_page_count=1"));
    std::vector<flow::LiveSlot*> more;
    for (uint64_t id = 2; id <= 200; ++id) {
        more.push_back(ledger_->live().take(request(id, 1, kNoon)));
        count(*more.back(), 100, kNoon + 1);
    }
    pass(30 * kSecond);
    EXPECT_FALSE(ledger_->tick(pass(kSecond, kHour)));
    EXPECT_EQ(ledger_->status().clock_steps, 0U);
    ASSERT_TRUE(ledger_->database().execute("PRAGMA max_page_count=100000"));
    EXPECT_EQ(tick_at(pass(kSecond)), 199U);
    EXPECT_EQ(ledger_->status().clock_steps, 1U);
    for (const auto& record : sound_records()) {
        EXPECT_TRUE(is_stepped(record));
        EXPECT_EQ(record.t_end, kNoon + 32 * kSecond);
    }
}

TEST_F(LedgerClockTest, ClocksThatCannotBeReadAreReadAtTheNextTick) {
    count_now(100);
    is_readable_ = false;
    EXPECT_EQ(tick_at(pass(kSecond)), 0U);
    is_readable_ = true;
    EXPECT_EQ(tick_at(pass(kSecond, kHour)), 1U);
    EXPECT_EQ(ledger_->status().clock_steps, 1U);
}

// As that of a virtual machine whose host sets it. What follows the first steps of an interval
// costs no commit, and nobody gets more records by it.
TEST_F(LedgerClockTest, AClockThatJumpsEachSecondIsBounded) {
    constexpr int64_t kSeconds = 120;  // two intervals
    LedgerOptions wanted = ledger_->options();
    wanted.user_records = 5;
    ledger_.reset();
    ledger_ = open(kNoon, wanted);
    add_session(*ledger_, 1, "alice");
    slot_ = ledger_->live().take(request(1, 1, kNoon));
    for (int64_t second = 0; second < kSeconds; ++second) {
        count_now(100);
        for (uint64_t i = 0; i < 5; ++i) {
            const auto id = 10 + static_cast<uint64_t>(second) * 5 + i;
            flow::LiveSlot* slot = ledger_->live().take(request(id, 1, clocks_.utc_us));
            count(*slot, 100, clocks_.utc_us);
            flow::add(slot->counters.active_us, kSecond);
            ledger_->live().release(slot, Cause::Closed);
        }
        const int64_t now_us = pass(kSecond, second % 2 == 0 ? -kHour : kHour);
        ASSERT_TRUE(ledger_->tick(now_us));
    }
    EXPECT_EQ(ledger_->status().clock_steps, uint64_t{kSeconds});
    EXPECT_EQ(number("SELECT count(*) FROM event WHERE kind='clock_step'"), 2 * kMostSealedSteps);
    ASSERT_TRUE(ledger_->stop(clocks_.utc_us, Cause::Admin));
    const auto all = records(2);
    EXPECT_EQ(inner_up(all), kSeconds * 600);
    int64_t own = 0;
    int64_t merged = 0;
    for (const auto& record : all) {
        EXPECT_LT(record.t_start, record.t_end) << record.seq;
        EXPECT_EQ(record.t_start / kQuarter, (record.t_end - 1) / kQuarter) << record.seq;
        ((record.flags & record_flag::kAggregate) != 0 ? merged : own) += 1;
    }
    EXPECT_EQ(own, 3 * 5) << "up to the first step, and those of two intervals";
    EXPECT_LE(merged, 2 * kMostSealedSteps + 1);
}

TEST_F(LedgerClockTest, StepsThatSealNothingTakeNoActiveTime) {
    open_aggregate();
    for (int64_t step = 0; step < kMostSealedSteps; ++step) {
        ASSERT_EQ(tick_at(pass(kSecond, -kHour)), 0U);
    }
    flow::LiveSlot* slot = ledger_->live().take(request(2, 1, clocks_.utc_us));
    count(*slot, 100, pass(5 * kSecond));
    flow::add(slot->counters.active_us, 5 * kSecond);
    ledger_->live().release(slot, Cause::Closed);
    ASSERT_EQ(tick_at(clocks_.utc_us), 0U);
    ASSERT_EQ(tick_at(pass(kSecond, -kHour)), 0U) << "back to before it";
    EXPECT_EQ(unsealed_active_us(), 5 * kSecond);
    ASSERT_EQ(tick_at(pass(kSecond, 2 * kHour - (kMostSealedSteps + 6) * kSecond)), 0U)
        << "to the start of a minute";
    EXPECT_EQ(ledger_->status().clock_steps, uint64_t{kMostSealedSteps} + 2);
    EXPECT_EQ(unsealed_active_us(), 5 * kSecond);
    ASSERT_EQ(tick_at(pass(59 * kSecond)), 1U) << "the boundary";
    const auto all = records(2);
    ASSERT_EQ(all.size(), 1U);
    EXPECT_EQ(all[0].active_us, 5 * kSecond);
    EXPECT_TRUE(is_stepped(all[0]));
}

TEST(Clocks, AdvanceTogether) {
    const auto first = host::read_clocks();
    const auto second = host::read_clocks();
    ASSERT_TRUE(first && second);
    EXPECT_LE(first->boot_us, second->boot_us);
    const int64_t moved = (second->utc_us - second->boot_us) - (first->utc_us - first->boot_us);
    EXPECT_LE(std::abs(moved), 20'000);
}

}  // namespace
}  // namespace continuo::snapt::ledger
