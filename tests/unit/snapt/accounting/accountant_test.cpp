#include "common/base/traffic_class.hpp"
#include "common/flow/attribution.hpp"
#include "common/flow/flow_table.hpp"
#include "snapt/accounting/accountant.hpp"
#include "snapt/ledger/record_store.hpp"
#include "snapt/store/plan_store.hpp"
#include "tests/unit/snapt/ledger/accounting_fixture.hpp"

#include <atomic>
#include <chrono>
#include <future>
#include <set>

namespace continuo::snapt::accounting {
namespace {

using base::Result;
using flow::Cause;
using ledger::kNoon;
using ledger::kSecond;
using ledger::SessionIdentity;
using ledger::UsageReport;
using store::Account;
using store::Database;
using store::kLedgerFileName;
using store::OpenMode;

class AccountantTest : public ledger::LedgerTest {
  protected:
    static SessionIdentity identity(const std::string& user) {
        SessionIdentity identity;
        identity.user_id = user;
        identity.cnapt_id = "laptop";
        identity.opened_at_us = kNoon;
        return identity;
    }
    static UsageReport
    usage(Accountant& accountant, const ledger::UsageQuery& query, int64_t now_us) {
        std::promise<Result<UsageReport>> answer;
        EXPECT_TRUE(accountant.usage(query, now_us, [&](Result<UsageReport> report) {
            answer.set_value(std::move(report));
        }));
        return answer.get_future().get().value();
    }
    // Opens a session and waits for the commit.
    static uint32_t login(Accountant& accountant, const std::string& user) {
        std::promise<uint32_t> committed;
        const auto number = accountant.open_session(
            identity(user), [&](Result<uint32_t> result) { committed.set_value(result.value()); });
        EXPECT_EQ(committed.get_future().get(), *number);
        return *number;
    }
};

TEST_F(AccountantTest, UsageOfALiveFlowIsCurrent) {
    auto accountant = Accountant::start(options(), kNoon).value();
    const uint32_t number = login(*accountant, "alice");
    const auto names = std::make_shared<AppNames>();
    ASSERT_TRUE(names->add(std::vector<control::App>{{2, "ssh"}}));
    EXPECT_TRUE(accountant->name_apps(number, names));
    auto wanted = request(1, number, kNoon);
    wanted.app = 2;
    flow::LiveSlot* slot = accountant->slots().take(wanted);
    count(*slot, 1000, kNoon + 1);
    ledger::UsageQuery query;
    query.by = {ledger::UsageKey::User, ledger::UsageKey::App};
    auto report = usage(*accountant, query, kNoon + 2);
    ASSERT_EQ(report.rows.size(), 1U);
    EXPECT_EQ(report.rows[0].user, "alice");
    EXPECT_EQ(report.rows[0].app, "ssh");
    EXPECT_EQ(report.rows[0].inner_up, 1000);
    count(*slot, 500, kNoon + 3);
    report = usage(*accountant, query, kNoon + 4);
    EXPECT_EQ(report.rows[0].inner_up, 1500);
    EXPECT_EQ(report.rows[0].flows, 1);
    ASSERT_TRUE(accountant->stop(kNoon + 5));
    EXPECT_EQ(accountant->status().records, 2U);
}

TEST_F(AccountantTest, TotalsAreExactWhileAnotherThreadSeals) {
    auto accountant = Accountant::start(options(), kNoon).value();
    const uint32_t number = login(*accountant, "alice");
    uint64_t inner = 0;
    uint64_t outer = 0;
    {
        flow::FlowTable table(100, accountant->slots());
        table.set_utc_offset_us(kNoon);
        packet::PacketSummary summary;
        summary.tuple.local = *base::IpAddress::parse("192.0.2.2");
        summary.tuple.remote = *base::IpAddress::parse("198.51.100.2");
        summary.tuple.protocol = packet::Protocol::Udp;
        for (int step = 0; step < 20'000; ++step) {
            const base::TimePoint now{base::milliseconds(10 * step)};
            std::array<flow::AttributionMember, 2> members;
            for (uint16_t i = 0; i < 2; ++i) {
                summary.tuple.local_port = static_cast<uint16_t>(1000 + (step / 50 + i) % 40);
                flow::Flow* flow = table.find(summary.tuple);
                if (flow == nullptr) {
                    flow = table.create(summary.tuple, base::TrafficClass::HtLd, now, {number});
                }
                ASSERT_NE(flow, nullptr);
                table.on_packet(*flow, flow::Direction::Up, summary, now);
                flow::count_packets(flow->counters->counters, flow::Direction::Up, 1, 100, 72);
                members[i] = {&flow->counters->counters, 100};
                inner += 100;
            }
            flow::attribute(members, 151, flow::Direction::Up);
            outer += 151;
            table.expire(now, [](const flow::Flow&) {});
            if (step % 20 == 0) {
                accountant->tick(kNoon + step * 10'000);
            }
            if (step % 50 == 49) {
                summary.tuple.local_port = static_cast<uint16_t>(1000 + step / 50 % 40);
                if (flow::Flow* done = table.find(summary.tuple)) {
                    table.erase(*done);
                }
            }
        }
    }
    ASSERT_TRUE(accountant->stop(kNoon + 300 * kSecond));
    const ledger::LedgerStatus status = accountant->status();
    EXPECT_EQ(status.failed_seals, 0U);
    EXPECT_EQ(status.orphan_records, 0U);
    accountant.reset();
    int64_t post = 0;
    const auto all = records(1);
    for (const auto& record : all) {
        post += record.post;
    }
    EXPECT_EQ(inner_up(all), static_cast<int64_t>(inner));
    EXPECT_EQ(post, static_cast<int64_t>(outer));
}

TEST_F(AccountantTest, SessionsOpenedTogetherAreAllCommittedWithNumbersOfTheirOwn) {
    auto accountant = Accountant::start(options(), kNoon).value();
    std::set<uint32_t> numbers;
    std::atomic<int> committed{0};
    for (int i = 0; i < 200; ++i) {
        const auto number =
            accountant->open_session(identity("alice"), [&](const Result<uint32_t>& result) {
                committed += result ? 1 : 0;
            });
        ASSERT_TRUE(number);
        numbers.insert(*number);
    }
    accountant->flush();
    EXPECT_EQ(committed, 200);
    EXPECT_EQ(numbers.size(), 200U);
    EXPECT_EQ(number("SELECT count(*) FROM open_session"), 200);
    ASSERT_TRUE(accountant->stop(kNoon + 1));
    EXPECT_EQ(number("SELECT count(*) FROM session_record"), 200);
}

// In the callback the session's traffic may begin.
TEST_F(AccountantTest, ASessionBeginsWithItsQuotaAndCredit) {
    auto accountant = Accountant::start(options(), kNoon).value();
    auto database = Database::open(path(kLedgerFileName), OpenMode::ReadWrite).value();
    ASSERT_TRUE(database.execute(
        "INSERT INTO account(account_id,user_id,quota_bytes,quota_period,credit_limit_ud,"
        "on_exhausted) VALUES(1,'alice',5000,'day',NULL,'stop'),(2,'bob',NULL,NULL,0,'stop'),"
        "(3,'carol',6000,'day',1,'stop');"
        "INSERT INTO user(user_id,created,disabled,account_id) VALUES('alice',0,0,1),('bob',0,0,2),"
        "('carol',0,0,3);"));
    // Records of an earlier run.
    auto store = ledger::RecordStore::open(database).value();
    for (const int64_t account_id : {1, 3}) {
        auto transaction = store::Transaction::begin(database).value();
        ledger::RecordSums sums;
        flow::UsageRecord record;
        record.snapt_id = "zrh-1";
        record.seq = account_id;
        record.account_id = account_id;
        record.user_id = account_id == 1 ? "alice" : "carol";
        record.t_start = kNoon - kSecond;
        record.t_end = kNoon;
        record.pay_down = 5000;
        ASSERT_TRUE(store.insert(record, sums));
        ASSERT_TRUE(store.write(sums));
        ASSERT_TRUE(transaction.commit());
    }
    const auto is_stopped_at_first = [&](int64_t account_id, const std::string& user) {
        SessionIdentity who = identity(user);
        who.account_id = account_id;
        const auto meter = std::make_shared<UserMeter>(Account{account_id, user});
        std::promise<bool> stopped;
        EXPECT_TRUE(accountant->open_session(
            who,
            [&](const Result<uint32_t>& opened) {
                EXPECT_TRUE(opened);
                stopped.set_value(meter->is_stopped());
            },
            meter));
        return stopped.get_future().get();
    };
    EXPECT_TRUE(is_stopped_at_first(1, "alice")) << "the quota";
    EXPECT_TRUE(is_stopped_at_first(2, "bob")) << "the credit";
    EXPECT_FALSE(is_stopped_at_first(3, "carol")) << "there is some of both";
    ASSERT_TRUE(accountant->stop(kNoon + 1));
}

TEST_F(AccountantTest, CreditActsBetweenTicks) {
    auto accountant = Accountant::start(options(), kNoon).value();
    std::atomic<int> told{0};
    accountant->set_on_credit([&told] { ++told; });
    auto database = Database::open(path(kLedgerFileName), OpenMode::ReadWrite).value();
    ASSERT_TRUE(database.execute(
        "INSERT INTO account(account_id,user_id,credit_limit_ud,on_exhausted) "
        "VALUES(1,'alice',5,'stop');"
        "INSERT INTO user(user_id,created,disabled,account_id) VALUES('alice',0,0,1)"));
    SessionIdentity who = identity("alice");
    who.account_id = 1;
    auto meter = std::make_shared<UserMeter>(Account{1, "alice"});
    std::promise<void> committed;
    ASSERT_TRUE(accountant->open_session(
        who, [&](const Result<uint32_t>&) { committed.set_value(); }, meter));
    committed.get_future().wait();
    accountant->tick(kNoon + kSecond);
    accountant->flush();
    EXPECT_FALSE(meter->is_stopped());
    ASSERT_TRUE(database.execute("INSERT INTO balance VALUES(1,-5,0)"));
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!meter->is_stopped() && std::chrono::steady_clock::now() < until) {
        accountant->flush();  // no tick
    }
    EXPECT_TRUE(meter->is_stopped());
    // Two watch it, and neither keeps it.
    const std::weak_ptr<UserMeter> gone = meter;
    meter.reset();
    int64_t now_us = kNoon + kSecond;
    while (!gone.expired() && std::chrono::steady_clock::now() < until) {
        accountant->tick(now_us += 2 * kSecond);
        accountant->flush();
    }
    EXPECT_TRUE(gone.expired());
    ASSERT_TRUE(accountant->stop(now_us + kSecond));
    EXPECT_EQ(told, 1);
}

// As a disk that does not answer holds the ledger's thread, for as long as it likes.
TEST_F(AccountantTest, AHeldThreadLetsNobodyPassItsCredit) {
    auto accountant = Accountant::start(options(), kNoon).value();
    auto database = Database::open(path(kLedgerFileName), OpenMode::ReadWrite).value();
    ASSERT_TRUE(database.execute(
        "INSERT INTO account(account_id,user_id,credit_limit_ud,on_exhausted) "
        "VALUES(1,'alice',8000000,'stop');"
        "INSERT INTO user(user_id,created,disabled,account_id) VALUES('alice',0,0,1)"));
    // A byte of payload costs 8 micro-denarii.
    std::string plan = "version = 1\n[plan]\nname = \"flat\"\ndelay_unknown_ms = 100\n"
                       "p_min_denarii_per_vu = 0.001\np_max_denarii_per_vu = 0.001\n";
    for (const base::TrafficClass traffic_class : base::kAllTrafficClasses) {
        plan += "[plan.class." + std::string(base::token(traffic_class)) +
                "]\nk_x = 1.0\nk_d = 0.0\nx_kbps = [0, 64]\nd_ms = [0, 100]\n"
                "u = [[0, 0], [0, 0]]\n";
    }
    const int64_t plan_id = store::add_plan(database, "flat", plan, 0)->plan.plan_id;
    ASSERT_TRUE(store::use_plan(database, {store::kNoAccount, plan_id, 0}, kNoon, "root"));
    SessionIdentity who = identity("alice");
    who.account_id = 1;
    const auto meter = std::make_shared<UserMeter>(Account{1, "alice"});
    std::promise<uint32_t> committed;
    ASSERT_TRUE(accountant->open_session(
        who, [&](const Result<uint32_t>& number) { committed.set_value(*number); }, meter));
    flow::LiveSlot* slot =
        accountant->slots().take(request(1, committed.get_future().get(), kNoon));
    const auto use_bytes = [&](uint64_t payload) {
        count(*slot, payload + 40, kNoon + kSecond);
        flow::add(meter->counter(), payload);
    };
    use_bytes(400'000);
    accountant->tick(kNoon + kSecond);
    accountant->flush();
    std::promise<void> entered;
    std::promise<void> release;
    auto released = release.get_future();
    ASSERT_TRUE(accountant->open_session(identity("bob"), [&](const Result<uint32_t>&) {
        entered.set_value();
        released.wait();
    }));
    entered.get_future().wait();
    uint64_t passed = 400'000;
    for (; passed < 5'000'000 && meter->throttled_bits_per_s() == 0; passed += 1400) {
        use_bytes(1400);
    }
    EXPECT_GE(passed, 1'000'000U);
    EXPECT_LE(passed, 1'000'000U + 1400) << "no more than the last packet";
    accountant->look_soon();
    release.set_value();
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!meter->is_stopped() && std::chrono::steady_clock::now() < until) {
        accountant->flush();  // no tick
    }
    EXPECT_TRUE(meter->is_stopped());
    ASSERT_TRUE(accountant->stop(kNoon + 5 * kSecond));
}

TEST_F(AccountantTest, FullQueueRefusesAndCounts) {
    auto accountant = Accountant::start(options(), kNoon).value();
    const auto names = std::make_shared<AppNames>();
    std::promise<void> entered;
    std::promise<void> release;
    auto released = release.get_future();
    // The ledger's thread waits in a callback meanwhile.
    ASSERT_TRUE(accountant->open_session(identity("alice"), [&](const Result<uint32_t>&) {
        entered.set_value();
        released.wait();
    }));
    entered.get_future().wait();
    for (size_t i = 0; i < kMaxLedgerCommands; ++i) {
        ASSERT_TRUE(accountant->name_apps(1, names));
    }
    EXPECT_FALSE(accountant->name_apps(1, names));
    EXPECT_FALSE(accountant->open_session(identity("bob"), {}));
    EXPECT_EQ(accountant->refused_commands(), 2U);
    release.set_value();
    accountant->flush();
    EXPECT_TRUE(accountant->name_apps(1, names));
    ASSERT_TRUE(accountant->stop(kNoon + 1));
}

TEST_F(AccountantTest, DestroyedWithoutStopLeavesTheRestToTheNextStart) {
    {
        auto accountant = Accountant::start(options(), kNoon).value();
        const uint32_t number = login(*accountant, "alice");
        count(*accountant->slots().take(request(1, number, kNoon)), 700, kNoon + 1);
    }
    auto accountant = Accountant::start(options(), kNoon + 2).value();
    EXPECT_EQ(accountant->epoch(), 2);
    EXPECT_EQ(accountant->status().recovered_records, 1U);
    EXPECT_EQ(inner_up(records(1)), 700);
}

}  // namespace
}  // namespace continuo::snapt::accounting
