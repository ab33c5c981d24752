#include "snapt/accounting/ledger.hpp"
#include "snapt/accounting/money.hpp"
#include "snapt/accounting/quota_watch.hpp"
#include "snapt/accounting/record_store.hpp"

#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>

namespace continuo::snapt {
namespace {

// 2026-12-01 00:00:00 UTC, an hour later than in Zurich
constexpr int64_t kDecemberUs = 1'796'083'200'000'000;
constexpr int64_t kHourUs = 3'600'000'000;

class QuotaWatchTest : public testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = testing::TempDir() + "snapt-watch-XXXXXX";
        ASSERT_NE(mkdtemp(pattern.data()), nullptr);
        folder_ = pattern;
        database_ = std::make_unique<Database>(
            Database::open(folder_ + "/" + kLedgerFileName, OpenMode::ReadWrite).value());
        ASSERT_TRUE(database_->execute(
            "INSERT INTO account(account_id,user_id) VALUES(1,'alice'),(2,'bob');"
            "INSERT INTO user(user_id,created,disabled,account_id) VALUES('alice',0,0,1),"
            "('bob',0,0,2)"));
        watch_ = std::make_unique<QuotaWatch>(*database_);
        watch_->add(meter_);
    }
    void TearDown() override {
        watch_.reset();
        database_.reset();
        std::filesystem::remove_all(folder_);
    }
    void record(int64_t end_us, int64_t payload) {
        auto store = RecordStore::open(*database_).value();
        flow::UsageRecord record;
        record.snapt_id = "zrh-1";
        record.epoch = 1;
        record.seq = next_seq_++;
        record.user_id = "alice";
        record.account_id = 1;
        record.t_end = end_us;
        record.t_start = end_us - 1;
        record.pay_down = payload;
        record.flags = flow::record_flag::kHasAccount;
        ASSERT_TRUE(store.insert(record));
    }
    void set_quota(int64_t bytes, const std::string& then, const char* zone = "UTC") {
        TermsChange change;
        change.quota = Quota{bytes, "day"};
        change.then = parse_exhaustion(then);
        change.zone = zone;
        ASSERT_TRUE(change_terms(*database_, "alice", change));
    }
    void look(int64_t now_us) { ASSERT_TRUE(watch_->look(now_us)); }
    void count(uint64_t bytes) { flow::add(meter_->counter(), bytes); }
    Allowance::State state() const { return meter_->allowance().state; }

    std::string folder_;
    std::unique_ptr<Database> database_;
    std::unique_ptr<QuotaWatch> watch_;
    std::shared_ptr<UserMeter> meter_ = std::make_shared<UserMeter>(Account{1, "alice"});
    int64_t next_seq_ = 0;
};

TEST_F(QuotaWatchTest, WhatRecordsHaveAndWhatWasCountedSinceIsUsed) {
    record(kDecemberUs, 9'999'999);  // of the day before
    record(kDecemberUs + kHourUs, 700);
    count(100);
    set_quota(1000, "stop");
    look(kDecemberUs + 2 * kHourUs);
    EXPECT_EQ(meter_->allowance().used_bytes, 700) << "the 100 may be in the records";
    ASSERT_EQ(watch_->to_seal(false).size(), 1U);
    record(kDecemberUs + kHourUs + 1, 100);
    watch_->on_sealed({meter_, 100, {1, next_seq_}, 3});
    record(kDecemberUs + kHourUs + 2, 50);  // sealed meanwhile, of what the meter counts
    EXPECT_TRUE(watch_->to_seal(false).empty());
    EXPECT_EQ(watch_->to_seal(true).size(), 1U);
    count(5);
    look(kDecemberUs + 2 * kHourUs);
    EXPECT_EQ(meter_->allowance().used_bytes, 808) << "with the 3 that have no record yet";
    EXPECT_EQ(state(), Allowance::State::Warned) << "80 % are used";
    count(191);
    EXPECT_FALSE(meter_->is_stopped());
    count(1);
    EXPECT_TRUE(meter_->is_stopped()) << "without another look";
    EXPECT_EQ(state(), Allowance::State::Stopped);
    EXPECT_EQ(meter_->allowance().until_us, kDecemberUs + 24 * kHourUs);
}

TEST_F(QuotaWatchTest, ThePeriodEndsInTheZoneOfTheAccount) {
    record(kDecemberUs + 10 * kHourUs, 1000);
    set_quota(1000, "stop", "Europe/Zurich");
    look(kDecemberUs + 22 * kHourUs);
    EXPECT_TRUE(meter_->is_stopped());
    EXPECT_EQ(meter_->allowance().until_us, kDecemberUs + 23 * kHourUs);
    look(kDecemberUs + 23 * kHourUs);
    EXPECT_FALSE(meter_->is_stopped());
    EXPECT_EQ(state(), Allowance::State::Free);
    EXPECT_EQ(meter_->allowance().until_us, kDecemberUs + 47 * kHourUs);
}

TEST_F(QuotaWatchTest, ADayOfTwentyFiveHoursIsOne) {
    constexpr int64_t kOctoberUs = 1'792'879'200'000'000;  // 2026-10-25 00:00 in Zurich
    set_quota(1000, "stop", "Europe/Zurich");
    look(kOctoberUs + kHourUs);
    EXPECT_EQ(meter_->allowance().until_us, kOctoberUs + 25 * kHourUs);
}

TEST_F(QuotaWatchTest, EachActionIsItsOwn) {
    record(kDecemberUs + kHourUs, 1000);
    set_quota(1000, "notify");
    look(kDecemberUs + 2 * kHourUs);
    EXPECT_EQ(state(), Allowance::State::Noted);
    EXPECT_FALSE(meter_->is_stopped());
    EXPECT_EQ(meter_->throttled_bits_per_s(), 0U);
    set_quota(1000, "throttle=128kbit");
    look(kDecemberUs + 2 * kHourUs);
    EXPECT_EQ(state(), Allowance::State::Throttled);
    EXPECT_EQ(meter_->throttled_bits_per_s(), 128'000U);
    EXPECT_FALSE(meter_->is_stopped());
    set_quota(2000, "throttle=128kbit");
    look(kDecemberUs + 2 * kHourUs);
    EXPECT_EQ(meter_->throttled_bits_per_s(), 0U) << "a larger quota holds at once";
    TermsChange none;
    none.quota.emplace();
    ASSERT_TRUE(change_terms(*database_, "alice", none));
    look(kDecemberUs + 2 * kHourUs);
    EXPECT_FALSE(meter_->allowance().quota);
    EXPECT_EQ(state(), Allowance::State::Free);
}

TEST_F(QuotaWatchTest, ACreditActsByTheBalance) {
    TermsChange change;
    change.credit_limit_ud.emplace(2'000'000);
    change.then = parse_exhaustion("stop");
    ASSERT_TRUE(change_terms(*database_, "alice", change));
    look(kDecemberUs);
    EXPECT_FALSE(meter_->is_stopped());
    MoneyEntry entry;
    entry.user_id = "alice";
    entry.kind = EntryKind::Adjust;
    entry.amount_ud = -2'000'000;
    entry.ref = "A-1";
    ASSERT_TRUE(book(*database_, entry));
    look(kDecemberUs);
    EXPECT_TRUE(meter_->is_stopped());
    EXPECT_TRUE(meter_->allowance().is_for_credit);
    EXPECT_EQ(meter_->allowance().until_us, 0) << "nobody knows";
    entry.kind = EntryKind::Topup;
    entry.amount_ud = 1;
    entry.ref = "A-2";
    ASSERT_TRUE(book(*database_, entry));
    look(kDecemberUs);
    EXPECT_FALSE(meter_->is_stopped());
}

TEST_F(QuotaWatchTest, AMeterThatNobodyElseHoldsIsForgotten) {
    look(kDecemberUs);
    EXPECT_FALSE(watch_->is_empty());
    meter_.reset();
    look(kDecemberUs);
    EXPECT_TRUE(watch_->is_empty());
}

TEST(Exhaustion, IsReadAndWritten) {
    for (const char* text : {"notify", "stop", "throttle=128000"}) {
        EXPECT_EQ(to_string(*parse_exhaustion(text)), text);
    }
    EXPECT_EQ(parse_exhaustion("throttle=1mbit")->bits_per_s, 1'000'000U);
    for (const char* text : {"", "throttle", "throttle=", "throttle=7kbit", "throttle=fast",
                             "throttled=1mbit", "Stop"}) {
        EXPECT_FALSE(parse_exhaustion(text)) << text;
    }
}

}  // namespace
}  // namespace continuo::snapt
