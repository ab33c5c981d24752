// Questions for usage, and the removal of old records, beside those who log in.
#include "snapt/accounting/accountant.hpp"
#include "tests/unit/snapt/ledger/accounting_fixture.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <future>
#include <thread>

namespace continuo::snapt::accounting {
namespace {

using base::Result;
using ledger::kNoon;
using ledger::UsageQuery;
using ledger::UsageReport;
using store::kLedgerFileName;

constexpr std::chrono::seconds kPatience{20};
constexpr int64_t kHour = 3600 * ledger::kSecond;
constexpr int64_t kDay = 24 * kHour;

// Its answer is taken when that is let go. It must outlive who answers.
class Held {
  public:
    UsageDesk::Done taker() {
        return [this](const Result<UsageReport>& report) {
            is_good_ = report.operator bool();
            taken_.set_value();
            go_on_.get_future().wait();
        };
    }
    bool wait() { return taken_.get_future().wait_for(kPatience) == std::future_status::ready; }
    void let_go() { go_on_.set_value(); }
    bool is_good() const { return is_good_; }

  private:
    std::promise<void> taken_;
    std::promise<void> go_on_;
    bool is_good_ = false;
};

UsageQuery own(const std::string& user) {
    UsageQuery query;
    query.user = user;
    query.is_own = true;
    return query;
}

class UsageDeskTest : public ledger::LedgerTest {
  protected:
    void put(int64_t end_us, int64_t count = 1) {
        auto database =
            store::Database::open(path(kLedgerFileName), store::OpenMode::ReadWrite).value();
        auto store = ledger::RecordStore::open(database).value();
        auto transaction = store::Transaction::begin(database).value();
        ledger::RecordSums sums;
        for (int64_t i = 0; i < count; ++i) {
            flow::UsageRecord record;
            record.snapt_id = "zrh-1";
            record.epoch = 99;
            record.seq = next_seq_++;
            record.user_id = "alice";
            record.t_start = end_us + i - 1;
            record.t_end = end_us + i;
            record.inner_up = 1000;
            ASSERT_TRUE(store.insert(record, sums));
        }
        ASSERT_TRUE(store.write(sums));
        ASSERT_TRUE(transaction.commit());
    }
    int64_t kept() const { return number("SELECT count(*) FROM usage_record"); }

  private:
    int64_t next_seq_ = 0;
};

TEST_F(UsageDeskTest, NobodyWhoLogsInWaitsForAnAnswer) {
    Held held;
    auto accountant = Accountant::start(options(), kNoon).value();
    ASSERT_TRUE(accountant->usage(own("alice"), kNoon + 1, held.taker()));
    ASSERT_TRUE(held.wait());
    std::promise<void> committed;
    ASSERT_TRUE(
        accountant->open_session({}, [&](const Result<uint32_t>&) { committed.set_value(); }));
    EXPECT_EQ(committed.get_future().wait_for(kPatience), std::future_status::ready);
    held.let_go();
    EXPECT_TRUE(held.is_good());
    ASSERT_TRUE(accountant->stop(kNoon + 2));
}

TEST_F(UsageDeskTest, AUserWithManyQuestionsKeepsNobodyElseFromAsking) {
    { const auto ledger = open(kNoon); }
    Held held;
    auto desk = UsageDesk::start(path(kLedgerFileName), 0).value();
    ASSERT_TRUE(desk->ask(own("alice"), held.taker()));
    ASSERT_TRUE(held.wait());
    std::vector<std::string> order;
    std::promise<void> done;
    const auto note = [&](const std::string& name) {
        return [&, name](const Result<UsageReport>&) {
            order.push_back(name);
            if (order.size() == 3) {
                done.set_value();
            }
        };
    };
    EXPECT_TRUE(desk->ask(own("alice"), note("alice")));
    EXPECT_FALSE(desk->ask(own("alice"), note("alice"))) << "one is answered, one waits";
    EXPECT_FALSE(desk->may_ask(own("alice")));
    EXPECT_TRUE(desk->ask(own("bob"), note("bob")));
    UsageQuery of_operator;
    of_operator.user = "alice";
    EXPECT_TRUE(desk->ask(of_operator, note("operator")));
    for (size_t i = 3; i < kMaxUsageQuestions; ++i) {
        EXPECT_TRUE(desk->ask(own("user" + std::to_string(i)), [](const auto&) {}));
    }
    EXPECT_FALSE(desk->ask(own("carol"), [](const auto&) {}));
    EXPECT_TRUE(desk->may_ask(of_operator));
    held.let_go();
    ASSERT_EQ(done.get_future().wait_for(kPatience), std::future_status::ready);
    EXPECT_EQ(order.front(), "operator");
    std::sort(order.begin(), order.end());
    EXPECT_EQ(order, (std::vector<std::string>{"alice", "bob", "operator"}));
}

TEST_F(UsageDeskTest, OldRecordsGoAnHourAfterTheStartAndNotByAWrongClock) {
    { const auto ledger = open(kNoon); }
    for (int64_t i = 0; i < 1200; ++i) {
        put(kNoon - 11 * kDay + i);
    }
    put(kNoon - 9 * kDay);
    auto desk = UsageDesk::start(path(kLedgerFileName), 10).value();
    const auto ask = [&] {  // what was to be removed before is: one thread does both
        std::promise<void> done;
        EXPECT_TRUE(desk->ask({}, [&](const Result<UsageReport>&) { done.set_value(); }));
        done.get_future().wait();
    };
    desk->tick(kNoon);
    desk->tick(kNoon + kHour - 1);
    ask();
    EXPECT_EQ(desk->pruned_records(), 0U);
    desk->tick(kNoon + 400 * kDay);  // somebody set the clock, wrongly
    desk->tick(kNoon + 400 * kDay + kHour - 1);
    ask();
    EXPECT_EQ(desk->pruned_records(), 0U);
    desk->tick(kNoon);  // and right again
    desk->tick(kNoon + kHour);
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (desk->pruned_records() < 1200 && std::chrono::steady_clock::now() < end) {
        ask();
    }
    EXPECT_EQ(desk->pruned_records(), 1200U);
    EXPECT_EQ(kept(), 1);
}

// Asks again as soon as it is answered.
class Asker {
  public:
    // Outlives `desk`.
    void start(UsageDesk& desk, const UsageQuery& query) {
        EXPECT_TRUE(desk.ask(query, [this, &desk, query](const Result<UsageReport>&) {
            ++answers_;
            start(desk, query);
        }));
    }
    size_t answers() const { return answers_; }

  private:
    std::atomic<size_t> answers_{0};
};

bool wait(const std::function<bool()>& done) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (!done() && std::chrono::steady_clock::now() < end) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return done();
}

TEST_F(UsageDeskTest, QuestionsWithoutAPauseKeepNeitherOldRecordsNorTheLog) {
    { const auto ledger = open(kNoon); }
    constexpr int64_t kOld = 1200;
    constexpr int64_t kRecords = 10000;
    put(kNoon - 10 * kDay - kOld, kOld + kRecords);
    std::array<Asker, 2> askers;  // so that one waits always
    auto desk = UsageDesk::start(path(kLedgerFileName), 10).value();
    UsageQuery by_records;
    by_records.to_us = kNoon - 10 * kDay + kRecords + 1;  // within a quarter of an hour
    for (Asker& asker : askers) {
        asker.start(*desk, by_records);
    }
    desk->tick(kNoon - kHour);
    desk->tick(kNoon);
    EXPECT_TRUE(wait([&] { return desk->pruned_records() >= kOld; }));
    auto database =
        store::Database::open(path(kLedgerFileName), store::OpenMode::ReadWrite).value();
    for (int i = 0; i < 12; ++i) {
        ASSERT_TRUE(database.execute("UPDATE usage_record SET inner_up=inner_up+1"));
        const size_t before = askers[0].answers();
        ASSERT_TRUE(wait([&] { return askers[0].answers() > before + 1; }));
    }
    const auto log_bytes = std::filesystem::file_size(path(kLedgerFileName) + std::string("-wal"));
    const auto database_bytes = std::filesystem::file_size(path(kLedgerFileName));
    EXPECT_LT(log_bytes, 4 * database_bytes) << "twelve times all records were written";
}

TEST_F(UsageDeskTest, AUserWhoseQuestionsTakeLongPausesAndOthersDoNot) {
    { const auto ledger = open(kNoon); }
    put(kNoon, 30000);
    Asker alice;
    Asker bob;  // has no records
    auto desk = UsageDesk::start(path(kLedgerFileName), 0).value();
    UsageQuery by_records = own("alice");
    by_records.to_us = kNoon + 30001;  // within a quarter of an hour
    alice.start(*desk, by_records);
    bob.start(*desk, own("bob"));
    EXPECT_TRUE(wait([&] { return alice.answers() >= 5; }));
    EXPECT_GT(bob.answers(), 3 * alice.answers()) << "by turns they would have as many";
}

TEST_F(UsageDeskTest, WithoutRetentionNothingIsRemoved) {
    { const auto ledger = open(kNoon); }
    put(kNoon - 4000 * kDay);
    auto desk = UsageDesk::start(path(kLedgerFileName), 0).value();
    for (int64_t hour = 0; hour < 5; ++hour) {
        desk->tick(kNoon + hour * kHour);
    }
    std::promise<void> done;
    ASSERT_TRUE(desk->ask({}, [&](const Result<UsageReport>&) { done.set_value(); }));
    done.get_future().wait();
    EXPECT_EQ(kept(), 1);
}

}  // namespace
}  // namespace continuo::snapt::accounting
