#include "common/report/json_value.hpp"
#include "snapt/ledger/ledger.hpp"
#include "snapt/ledger/record_store.hpp"
#include "snapt/rest_books.hpp"
#include "snapt/store/money.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>

namespace continuo::snapt {
namespace {

using report::JsonValue;
using rest::Call;
using rest::Operation;
using rest::Outcome;
using rest::Scope;

constexpr int64_t kNovember20Us = 1'795'132'800'000'000;
constexpr int64_t kHourUs = 3'600'000'000;

class RestBooksTest : public testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = testing::TempDir() + "snapt-books-XXXXXX";
        ASSERT_NE(mkdtemp(pattern.data()), nullptr);
        folder_ = pattern;
        auto database = store::Database::open(path(), store::OpenMode::ReadWrite).value();
        ASSERT_TRUE(database.execute(
            "INSERT INTO account(account_id,user_id,removed) VALUES(1,'alice',NULL),"
            "(2,'bob',NULL),(3,'alice',5),(4,'gone',5);"
            "INSERT INTO user(user_id,created,disabled,account_id) VALUES('alice',0,0,1),"
            "('bob',0,0,2)"));
        auto store = ledger::RecordStore::open(database).value();
        for (int64_t seq = 0; seq < 5; ++seq) {
            flow::UsageRecord record;
            record.snapt_id = "zrh-1";
            record.epoch = 1;
            record.seq = seq;
            record.user_id = seq == 4 ? "bob" : "alice";
            record.account_id = seq == 4 ? 2 : 1;
            record.t_end = kNovember20Us + (seq + 1) * kHourUs;
            record.t_start = record.t_end - kHourUs;
            record.pay_down = 1000;
            record.flags = flow::record_flag::kHasAccount;
            ASSERT_TRUE(store.insert(record));
        }
        books_ = std::make_unique<RestBooks>(path());
    }
    void TearDown() override {
        books_.reset();
        std::filesystem::remove_all(folder_);
    }
    std::string path() const { return folder_ + "/" + store::kLedgerFileName; }
    static Call
    call(Operation operation, const std::string& name = "", const std::string& query = "") {
        Call made;
        made.operation = operation;
        made.caller.name = "office";
        made.caller.scope = Scope::Admin;
        made.name = name;
        made.target = rest::parse_target("/?" + query).value();
        return made;
    }
    static Call of_self(Call made, int64_t account_id = 1) {
        made.caller.scope = Scope::Self;
        made.caller.user = "alice";
        made.caller.account_id = account_id;
        return made;
    }
    Outcome answer(const Call& made) { return books_->answer(made, kNovember20Us + 6 * kHourUs); }
    JsonValue good(const Call& made) {
        const Outcome outcome = answer(made);
        EXPECT_EQ(outcome.status, 200U) << outcome.body;
        EXPECT_EQ(outcome.content_type, "application/json");
        return JsonValue::parse(outcome.body).value();
    }
    Call booking(Operation operation, const std::string& key, const std::string& body) {
        Call made = call(operation, "alice");
        made.key = key;
        made.body = body;
        return made;
    }

    std::string folder_;
    std::unique_ptr<RestBooks> books_;
};

TEST_F(RestBooksTest, RecordsArePaged) {
    const JsonValue first = good(call(Operation::Records, "", "limit=2&user=alice"));
    ASSERT_EQ(first["records"].items().size(), 2U);
    EXPECT_EQ(first.text("next"), "zrh-1/1/1");
    const JsonValue rest = good(call(Operation::Records, "", "limit=3&user=alice&after=zrh-1/1/1"));
    ASSERT_EQ(rest["records"].items().size(), 2U);
    EXPECT_EQ(rest["records"].items()[1]["seq"].integer(), 3);
    EXPECT_TRUE(rest["next"].is_null());
    EXPECT_EQ(good(call(Operation::Records))["records"].items().size(), 5U);
}

TEST_F(RestBooksTest, OwnRecordsAreOfTheAccountAlone) {
    EXPECT_EQ(good(of_self(call(Operation::Records)))["records"].items().size(), 4U);
    EXPECT_EQ(good(of_self(call(Operation::Records), 3))["records"].items().size(), 0U);
    const Outcome csv = answer(of_self(call(Operation::Records, "", "format=csv")));
    EXPECT_EQ(csv.content_type, "text/csv; charset=utf-8");
    EXPECT_EQ(std::count(csv.body.begin(), csv.body.end(), '\n'), 5);
}

TEST_F(RestBooksTest, WrongParametersAreSaid) {
    for (const char* query : {"limit=0", "limit=10001", "limit=x", "after=1", "after=a/b/c",
                              "after=/1/2", "format=xml", "from=yesterday", "zone=Mars/Base"}) {
        EXPECT_EQ(answer(call(Operation::Records, "", query)).status, 422U) << query;
    }
    EXPECT_EQ(answer(call(Operation::Statement, "alice", "month=2026-13")).status, 422U);
    EXPECT_EQ(answer(call(Operation::Statement, "alice")).status, 422U);
    EXPECT_EQ(answer(call(Operation::Statement, "alice", "month=2026-11&zone=Mars/Base")).status,
              404U);
    EXPECT_EQ(answer(call(Operation::Balance, "nobody")).status, 404U);
    EXPECT_EQ(answer(call(Operation::Balance, "gone")).status, 404U);
}

TEST_F(RestBooksTest, PaymentIsBookedOnce) {
    const Call topup = booking(Operation::Topup, "INV-17", R"({"amount":"50","note":"cash"})");
    const JsonValue first = good(topup);
    EXPECT_EQ(first["booked"].boolean(), true);
    EXPECT_EQ(first["balance_ud"].integer(), 50'000'000);
    EXPECT_EQ(good(topup)["booked"].boolean(), false);
    EXPECT_EQ(
        answer(booking(Operation::Topup, "INV-17", R"({"amount":"51","note":"cash"})")).status,
        409U);
    EXPECT_EQ(
        good(booking(Operation::Adjust, "C-1", R"({"debit":"0.25"})"))["balance_ud"].integer(),
        49'750'000);
    EXPECT_EQ(good(call(Operation::Balance, "alice"))["entries"].integer(), 2);
    auto database = store::Database::open(path(), store::OpenMode::ReadOnly).value();
    std::string actor;
    ASSERT_TRUE(
        store::visit_entries(database, [&actor](const store::MoneyEntry& entry, bool is_genuine) {
            EXPECT_TRUE(is_genuine);
            actor = entry.actor;
        }));
    EXPECT_EQ(actor, "token office");
}

TEST_F(RestBooksTest, WrongBookingsBookNothing) {
    for (const char* body :
         {"", "[]", "{}", R"({"amount":50})", R"({"amount":"0"})", R"({"amount":"-1"})",
          R"({"amount":"1e3"})", R"({"amount":"50")", R"({"amount":"50","note":"a\nb"})"}) {
        EXPECT_EQ(answer(booking(Operation::Topup, "k", body)).status, 422U) << body;
    }
    for (const char* body : {R"({"amount":"1"})", R"({"credit":"1","debit":"1"})"}) {
        EXPECT_EQ(answer(booking(Operation::Adjust, "k", body)).status, 422U) << body;
    }
    EXPECT_EQ(answer(booking(Operation::Topup, "u:1", R"({"amount":"1"})")).status, 422U);
    Call of_nobody = booking(Operation::Topup, "k", R"({"amount":"1"})");
    of_nobody.name = "nobody";
    EXPECT_EQ(answer(of_nobody).status, 404U);
    EXPECT_EQ(good(call(Operation::Balance, "alice"))["entries"].integer(), 0);
}

TEST_F(RestBooksTest, QuotaIsSetAndTold) {
    Call set = call(Operation::SetQuota, "alice");
    set.body = R"({"quota":"50GB/month","zone":"Europe/Zurich"})";
    const JsonValue now = good(set);
    EXPECT_EQ(now["quota_bytes"].integer(), 50'000'000'000);
    EXPECT_EQ(now["used_bytes"].integer(), 4000);
    EXPECT_EQ(good(of_self(call(Operation::Quota, "alice"))).text("zone"), "Europe/Zurich");
    EXPECT_EQ(now.text("then"), "notify");
    set.body = R"({"quota":"50GB/month","then":"throttle=1mbit"})";
    EXPECT_EQ(good(set).text("then"), "throttle=1000000");
    set.body = R"({"quota":null})";
    EXPECT_TRUE(good(set)["quota_bytes"].is_null());
    for (const char* body : {"", "{}", R"({"quota":5})", R"({"quota":"50GB"})",
                             R"({"quota":"50GB/day","then":"x"})"}) {
        set.body = body;
        EXPECT_EQ(answer(set).status, 422U) << body;
    }
}

TEST_F(RestBooksTest, StatementHasForms) {
    EXPECT_EQ(good(of_self(call(Operation::Statement, "alice", "month=2026-11"))).text("user"),
              "alice");
    EXPECT_EQ(answer(call(Operation::Statement, "alice", "month=2026-11&format=csv")).content_type,
              "text/csv; charset=utf-8");
    EXPECT_EQ(answer(call(Operation::Statement, "alice", "month=2026-11&format=html")).content_type,
              "text/html; charset=utf-8");
}

TEST_F(RestBooksTest, RemovedUserHasNoToken) {
    EXPECT_TRUE(books_->is_there(of_self(call(Operation::Me)).caller).value());
    EXPECT_FALSE(books_->is_there(of_self(call(Operation::Me), 3).caller).value());  // removed
    EXPECT_FALSE(books_->is_there(of_self(call(Operation::Me), 2).caller).value());  // bob's
    EXPECT_FALSE(books_->is_there(of_self(call(Operation::Me), 99).caller).value());
}

}  // namespace
}  // namespace continuo::snapt
