#include "snapt/accounting/account_statement.hpp"
#include "snapt/accounting/usage_booker.hpp"
#include "snapt/commands/statement_command.hpp"
#include "snapt/ledger/record_store.hpp"
#include "tests/unit/rating/plans.hpp"
#include "tests/unit/snapt/ledger/accounting_fixture.hpp"

namespace continuo::snapt::accounting {
namespace {

using base::Errc;
using ledger::kNoon;
using ledger::kSecond;
using store::EntryKind;

constexpr int64_t kOneHour = 3600 * kSecond;
constexpr int64_t kOneDay = 24 * kOneHour;
// 2026-12-01 00:00 UTC, an hour later than in Zurich
constexpr int64_t kDecember = kNoon - 12 * kOneHour + 11 * kOneDay;

class StatementTest : public ledger::StateFolder {
  protected:
    StatementTest() {
        EXPECT_TRUE(database_.execute("INSERT INTO account(account_id,user_id) VALUES(1,'alice')"));
        const auto added = store::add_plan(
            database_, "standard", rating::tests::text_of_file(rating::tests::kShippedPlan), 0);
        EXPECT_TRUE(
            store::use_plan(database_, {store::kNoAccount, added->plan.plan_id, 0}, kNoon, "root"));
    }
    // The contract's first record.
    void put_download(int64_t end_us) {
        flow::UsageRecord record;
        record.snapt_id = "zrh-1";
        record.seq = next_seq_++;
        record.account_id = 1;
        record.user_id = "alice";
        record.cls = static_cast<int64_t>(base::index_of(base::TrafficClass::HtHd));
        record.t_end = end_us;
        record.t_start = end_us - 10 * kSecond;
        record.active_us = 10 * kSecond;
        record.pay_down = 2'500'000;
        record.delay_us = 60'000;
        record.pre = 2'580'000;
        record.post = 1'420'000;
        record.flags = flow::record_flag::kHasAccount;
        ASSERT_TRUE(ledger::RecordStore::open(database_)->insert(record));
    }
    void book_all(int64_t now_us) {
        UsageBooker booker(database_);
        while (booker.step(now_us, kBookAll)->has_more) {
        }
    }
    void pay(EntryKind kind, int64_t amount_ud, int64_t at_us, const std::string& ref) {
        store::MoneyEntry entry;
        entry.account_id = 1;
        entry.user_id = "alice";
        entry.kind = kind;
        entry.amount_ud = amount_ud;
        entry.at_us = at_us;
        entry.ref = ref;
        entry.note = "<b>&\"";
        ASSERT_TRUE(store::book(database_, entry));
    }
    AccountStatement month(const std::string& text, const std::string& zone = "UTC") {
        const auto statement = account_statement(database_, 1, text, zone);
        EXPECT_TRUE(statement) << statement.error().where;
        EXPECT_FALSE(database_.in_transaction());
        return statement ? *statement : AccountStatement{};
    }
    static void expect_sums(const AccountStatement& statement) {
        int64_t sum = statement.opening_ud + statement.usage_ud + statement.discount_ud +
                      statement.late_ud + statement.rerated_ud + statement.further_ud;
        for (const store::MoneyEntry& entry : statement.bookings) {
            sum += entry.amount_ud;
        }
        EXPECT_EQ(sum, statement.closing_ud);
        EXPECT_EQ(statement.usage_ud, -statement.total.gross_ud);
        EXPECT_EQ(statement.discount_ud, statement.total.discount_ud);
    }

    store::Database database_ =
        store::Database::open(path(store::kLedgerFileName), store::OpenMode::ReadWrite).value();
    int64_t next_seq_ = 0;
};

TEST_F(StatementTest, AMonthGoesFromOneBalanceToTheNext) {
    pay(EntryKind::Topup, 50'000'000, kNoon, "INV-1");
    for (int64_t day = 0; day < 11; ++day) {
        put_download(kNoon + day * kOneDay);
        book_all(kNoon + day * kOneDay + kOneHour);
    }
    put_download(kDecember);            // its last microsecond is November's
    put_download(kDecember + kSecond);  // December's
    book_all(kDecember + kOneHour);
    pay(EntryKind::Adjust, -250'000, kDecember - 1, "C-1");
    pay(EntryKind::Topup, 1'000'000, kDecember, "INV-2");
    const AccountStatement november = month("2026-11");
    EXPECT_EQ(november.opening_ud, 0);
    ASSERT_EQ(november.usage.size(), 1U);
    EXPECT_EQ(november.total.records, 12);
    EXPECT_EQ(november.total.gross_ud, 12 * 18'149);
    EXPECT_EQ(november.total.discount_ud, 12 * 9'074);
    EXPECT_EQ(november.bookings.size(), 2U);
    EXPECT_EQ(november.closing_ud, 50'000'000 - 250'000 - 12 * 9'075);
    const AccountStatement december = month("2026-12");
    EXPECT_EQ(december.opening_ud, november.closing_ud);
    EXPECT_EQ(december.total.records, 1);
    EXPECT_EQ(december.closing_ud, november.closing_ud + 1'000'000 - 9'075);
    expect_sums(november);
    expect_sums(december);
    EXPECT_EQ(month("2026-10").closing_ud, 0);
}

// Kathmandu's begin 5 h 45 min before those of UTC.
TEST_F(StatementTest, AMonthIsThatOfTheZone) {
    const int64_t border = kDecember - 5 * kOneHour - 45 * 60 * kSecond;
    put_download(border);
    put_download(border + 1);
    put_download(kDecember + 1);
    book_all(kDecember + kOneHour);
    EXPECT_EQ(month("2026-11", "Asia/Kathmandu").total.records, 1);
    EXPECT_EQ(month("2026-12", "Asia/Kathmandu").total.records, 2);
    EXPECT_EQ(month("2026-11").total.records, 2);
    ASSERT_TRUE(database_.execute("UPDATE account SET zone='Europe/Zurich'"));
    EXPECT_EQ(month("2026-12", "").zone, "Europe/Zurich");
    expect_sums(month("2026-12", "Asia/Kathmandu"));
}

TEST_F(StatementTest, WhatIsLateOrRatedAgainIsToldApart) {
    put_download(kNoon);
    book_all(kNoon + kOneHour);
    put_download(kNoon + kSecond);
    book_all(kDecember + 3 * kOneDay);
    EXPECT_EQ(month("2026-11").total.records, 1);
    EXPECT_EQ(month("2026-11").late.records, 0);
    EXPECT_EQ(month("2026-12").late_ud, -9'075);
    EXPECT_EQ(month("2026-12").late.records, 1);
    EXPECT_EQ(month("2026-12").late.pay_down, month("2026-11").total.pay_down);
    put_download(kDecember + kSecond);
    book_all(kDecember + 3 * kOneDay + 1);
    EXPECT_EQ(month("2026-12").total.records, 0) << "late within the month";
    EXPECT_EQ(month("2026-12").late.records, 2);
    store::PlanBook plans;
    ASSERT_TRUE(store::use_plan(database_, {store::kNoAccount, store::kNoPlan, 0}, kNoon, "root"));
    ASSERT_EQ(ledger::rerate(database_, plans, {0, INT64_MAX, {}, {}}, kDecember + 4 * kOneDay,
                             "root", 0, 10)
                  ->charges,
              3U);
    pay(EntryKind::Adjust, 7, kDecember + 4 * kOneDay, "r:7");
    const AccountStatement december = month("2026-12");
    EXPECT_EQ(december.rerated_ud, 3 * 9'075);
    EXPECT_EQ(december.bookings.size(), 1U) << "a reference that an earlier version let be";
    EXPECT_EQ(december.closing_ud, 7);
    expect_sums(december);
    expect_sums(month("2026-11"));
}

TEST_F(StatementTest, WhatIsNoMonthIsRefused) {
    for (const char* text : {"", "2026", "2026-13", "2026-00", "2026-1", "2026-11-01", "x026-11"}) {
        EXPECT_EQ(account_statement(database_, 1, text, "UTC").error().code, Errc::InvalidConfig)
            << text;
    }
    EXPECT_EQ(account_statement(database_, 1, "2026-11", "Nowhere").error().code, Errc::NotFound);
    EXPECT_EQ(account_statement(database_, 7, "2026-11", "UTC").error().code, Errc::NotFound);
    EXPECT_FALSE(database_.in_transaction());
}

TEST_F(StatementTest, OfManyBookingsTheFirstHaveALine) {
    for (size_t i = 0; i < kMaxStatementBookings + 3; ++i) {
        pay(EntryKind::Topup, 5, kNoon, "r" + std::to_string(i));
    }
    const AccountStatement statement = month("2026-11");
    EXPECT_EQ(statement.bookings.size(), kMaxStatementBookings);
    EXPECT_EQ(statement.further_bookings, 3);
    EXPECT_EQ(statement.further_ud, 15);
    expect_sums(statement);
}

TEST_F(StatementTest, ThePageAndTheLinesTakeAnyText) {
    pay(EntryKind::Topup, 50'000'000, kNoon, "INV \"17\", <script>");
    put_download(kNoon);
    book_all(kNoon + kOneHour);
    const AccountStatement statement = month("2026-11");
    const std::string page = commands::statement_page(statement);
    EXPECT_NE(page.find("<title>Statement of alice, 2026-11</title>"), std::string::npos);
    EXPECT_NE(page.find("INV &quot;17&quot;, &lt;script&gt;"), std::string::npos);
    EXPECT_EQ(page.find("<script"), std::string::npos);
    EXPECT_EQ(page.find("http"), std::string::npos) << "nothing from elsewhere";
    EXPECT_NE(page.find("<td>49.990925</td>"), std::string::npos);
    EXPECT_EQ(commands::statement_csv(statement),
              "what,class,records,payload_up,payload_down,pre,post,gross_ud,discount_ud,amount_ud,"
              "at,ref,note\r\n"
              "before,,,,,,,,,0,,,\r\n"
              "usage,ht-hd,1,0,2500000,2580000,1420000,18149,9074,-9075,,,\r\n"
              "usage booked late,,0,0,0,0,0,0,0,0,,,\r\n"
              "usage rated again,,,,,,,,,0,,,\r\n"
              "payment,,,,,,,,,50000000,2026-11-20T12:00:00Z,\"INV \"\"17\"\", <script>\","
              "\"<b>&\"\"\"\r\n"
              "after,,,,,,,,,49990925,,,\r\n");
}

}  // namespace
}  // namespace continuo::snapt::accounting
