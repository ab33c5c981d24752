#include "snapt/accounting/quota_watch.hpp"
#include "snapt/ledger/ledger.hpp"
#include "snapt/ledger/record_store.hpp"

#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>

namespace continuo::snapt::accounting {
namespace {

using store::Account;
using store::Database;

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
            Database::open(folder_ + "/" + store::kLedgerFileName, store::OpenMode::ReadWrite)
                .value());
        ASSERT_TRUE(database_->execute(
            "INSERT INTO account(account_id,user_id) VALUES(1,'alice'),(2,'bob');"
            "INSERT INTO user(user_id,created,disabled,account_id) VALUES('alice',0,0,1),"
            "('bob',0,0,2)"));
        watch_ = std::make_unique<QuotaWatch>(*database_);
        watch_->add({meter_});
    }
    void TearDown() override {
        watch_.reset();
        database_.reset();
        std::filesystem::remove_all(folder_);
    }
    void record(int64_t end_us, int64_t payload) {
        auto store = ledger::RecordStore::open(*database_).value();
        ledger::RecordSums sums;
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
        store::Transaction transaction = store::Transaction::begin(*database_).value();
        ASSERT_TRUE(store.insert(record, sums));
        ASSERT_TRUE(store.write(sums));
        ASSERT_TRUE(transaction.commit());
    }
    void set_quota(int64_t bytes, const std::string& then, const char* zone = "UTC") {
        TermsChange change;
        change.quota = store::Quota{bytes, "day"};
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

// The login of a user whose quota is used up by its records, before any traffic and any look.
TEST_F(QuotaWatchTest, TheFirstTermsHaveWhatTheRecordsHave) {
    record(kDecemberUs, 9'999'999);  // of the day before
    record(kDecemberUs + kHourUs, 700);
    record(kDecemberUs + 23 * kHourUs, 100);
    set_quota(1000, "stop");
    const MeterTerms terms =
        first_terms(*database_, meter_->account(), kDecemberUs + 23 * kHourUs).value();
    EXPECT_EQ(terms.used_bytes, 800);
    EXPECT_EQ(terms.until_us, kDecemberUs + 24 * kHourUs);
    meter_->set(terms);
    count(199);
    EXPECT_FALSE(meter_->is_stopped());
    count(1);
    EXPECT_TRUE(meter_->is_stopped());
    EXPECT_EQ(first_terms(*database_, {2, "bob"}, kDecemberUs + kHourUs).value(), MeterTerms{});
    EXPECT_EQ(first_terms(*database_, meter_->account(), kHourUs).value(), MeterTerms{})
        << "by this clock it would be another day";
}

TEST_F(QuotaWatchTest, SumsHaveWhatTheRecordsHaveInAnyZone) {
    for (int64_t hour = -40; hour < 40; ++hour) {
        record(kDecemberUs + hour * kHourUs / 2, int64_t{1} << ((hour + 40) % 20));
        record(kDecemberUs + hour * kHourUs / 2 + 1, 3);
    }
    for (const char* zone : {"UTC", "Europe/Zurich", "Asia/Kathmandu", "Pacific/Auckland"}) {
        set_quota(1000, "stop", zone);
        for (int64_t hour = -10; hour < 10; ++hour) {
            const int64_t now_us = kDecemberUs + hour * kHourUs;
            const AccountTerms terms = account_terms(*database_, "alice", now_us).value().at(0);
            EXPECT_EQ(used_by_sums(*database_, terms.account, terms.from_us).value(),
                      used_since(*database_, terms.account, terms.from_us).value())
                << zone << " " << hour;
        }
    }
}

// Bytes counted between a meter's first terms and the first seal are in no record yet.
TEST_F(QuotaWatchTest, ALookAfterTheFirstTermsForgetsNothing) {
    record(kDecemberUs + kHourUs, 700);
    set_quota(1000, "stop");
    const auto meter = std::make_shared<UserMeter>(Account{1, "alice"});
    const int64_t now_us = kDecemberUs + 2 * kHourUs;
    meter->set(first_terms(*database_, meter->account(), now_us).value());
    watch_->add({meter, {1, next_seq_}, now_us});
    flow::add(meter->counter(), 250);
    record(now_us, 100);  // a flow that ended: of what the meter counts
    look(now_us + 1);
    EXPECT_EQ(meter->allowance().used_bytes, 950);
    flow::add(meter->counter(), 50);
    EXPECT_TRUE(meter->is_stopped());
    EXPECT_EQ(watch_->to_seal(false).size(), 2U) << "others of the account may have counted before";
    look(now_us + 24 * kHourUs);
    EXPECT_FALSE(meter->is_stopped());
    EXPECT_EQ(meter->allowance().used_bytes, 0) << "what it had counted is of the day before";
}

TEST_F(QuotaWatchTest, AQuotaThatIsSetLaterCountsNoEarlierPeriod) {
    const auto meter = std::make_shared<UserMeter>(Account{1, "alice"});
    watch_->add({meter, {1, next_seq_}, kDecemberUs - kHourUs});
    flow::add(meter->counter(), 5000);
    look(kDecemberUs - kHourUs);
    set_quota(1000, "stop");
    look(kDecemberUs + kHourUs);
    EXPECT_FALSE(meter->is_stopped());
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
}  // namespace continuo::snapt::accounting
