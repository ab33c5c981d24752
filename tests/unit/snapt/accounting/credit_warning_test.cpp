#include "tests/unit/snapt/accounting/credit_watch_fixture.hpp"

#include <chrono>

namespace continuo::snapt::accounting {
namespace {

using ledger::kAlice;
using ledger::kBob;
using ledger::kNoon;
using ledger::kSecond;

class CreditWarningTest : public CreditWatchTest {
  protected:
    // Books so much usage so many times.
    void use_ud(int times, int64_t amount_ud) {
        ASSERT_TRUE(database_.execute("BEGIN"));
        auto writer = store::EntryWriter::begin(database_).value();
        for (int i = 0; i < times; ++i) {
            store::MoneyEntry entry;
            entry.account_id = kAlice;
            entry.user_id = "alice";
            entry.kind = store::EntryKind::Usage;
            entry.amount_ud = -amount_ud;
            entry.ref = "u:" + std::to_string(++bookings_);
            ASSERT_TRUE(writer.add(entry));
        }
        ASSERT_TRUE(database_.execute("COMMIT"));
    }

  private:
    int bookings_ = 0;
};

// Four fifths of what there was after the latest payment; what is not booked counts.
TEST_F(CreditWarningTest, WarnsWhenFourFifthsAreUsed) {
    use_plan_of_bytes();
    set_credit("alice", 2000 * kUdOfByte);
    pay("alice", 8000 * kUdOfByte, "INV-1");
    const auto meter = login(kAlice, "alice");
    const auto state = [&meter] { return meter->allowance().state; };
    flow::LiveSlot* slot = ledger_->live().take(CreditSlots::request(1, 1, kNoon));
    count(*slot, 7999, kNoon + 1);
    look(kNoon + kSecond);
    EXPECT_EQ(state(), Allowance::State::Free);
    count(*slot, 1, kNoon + kSecond);
    look(kNoon + 2 * kSecond);
    EXPECT_EQ(state(), Allowance::State::Warned);
    EXPECT_TRUE(meter->allowance().is_for_credit);
    EXPECT_EQ(meter->allowance().money,
              (AccountMoney{8000 * kUdOfByte, 8000 * kUdOfByte, 2000 * kUdOfByte}));
    ASSERT_TRUE(ledger_->seal_now(kNoon + 3 * kSecond));
    book_until(kBookAll);
    look(kNoon + 3 * kSecond);
    EXPECT_EQ(state(), Allowance::State::Warned) << "booking is no payment";
    EXPECT_EQ(meter->allowance().money, (AccountMoney{0, 0, 2000 * kUdOfByte}));
    pay("alice", 500 * kUdOfByte, "INV-2");
    look(kNoon + 4 * kSecond);
    EXPECT_EQ(state(), Allowance::State::Free) << "of 2500 bytes all are left";
    count(*slot, 1999, kNoon + 4 * kSecond);
    look(kNoon + 5 * kSecond);
    EXPECT_EQ(state(), Allowance::State::Free);
    count(*slot, 1, kNoon + 5 * kSecond);
    look(kNoon + 6 * kSecond);
    EXPECT_EQ(state(), Allowance::State::Warned);
}

// At the bound a warning does not come and go: live flows become cheaper, too.
TEST_F(CreditWarningTest, AWarningStaysUntilClearlyMoreIsLeft) {
    use_plan_of_bytes();
    set_credit("alice", 2000 * kUdOfByte);
    pay("alice", 8000 * kUdOfByte, "INV-1");
    const auto meter = login(kAlice, "alice");
    const auto state = [&meter] { return meter->allowance().state; };
    flow::LiveSlot* slot = ledger_->live().take(CreditSlots::request(1, 1, kNoon));
    count(*slot, 8000, kNoon + 1);
    look(kNoon + kSecond);
    EXPECT_EQ(state(), Allowance::State::Warned);
    add_flat("flat", "0.00097");
    look(kNoon + 2 * kSecond);
    EXPECT_EQ(state(), Allowance::State::Warned) << "22.4 % are left";
    add_flat("flat", "0.0009");
    look(kNoon + 3 * kSecond);
    EXPECT_EQ(state(), Allowance::State::Free) << "28 % are left";
    add_flat("flat", "0.00097");
    look(kNoon + 4 * kSecond);
    EXPECT_EQ(state(), Allowance::State::Free) << "22.4 % again";
    add_flat("flat", "0.001");
    look(kNoon + 5 * kSecond);
    EXPECT_EQ(state(), Allowance::State::Warned);
    set_credit("alice", 2400 * kUdOfByte);
    look(kNoon + 6 * kSecond);
    EXPECT_EQ(state(), Allowance::State::Free) << "23 % of another credit";
}

TEST_F(CreditWarningTest, WithoutAPaymentTheCreditIsTheWhole) {
    use_plan_of_bytes();
    set_credit("alice", 1000 * kUdOfByte);
    const auto meter = login(kAlice, "alice");
    flow::LiveSlot* slot = ledger_->live().take(CreditSlots::request(1, 1, kNoon));
    count(*slot, 799, kNoon + 1);
    look(kNoon + kSecond);
    EXPECT_EQ(meter->allowance().state, Allowance::State::Free);
    count(*slot, 1, kNoon + kSecond);
    look(kNoon + 2 * kSecond);
    EXPECT_EQ(meter->allowance().state, Allowance::State::Warned);
    // A correction of usage in the user's favour is no payment.
    book_until(kBookAll);
    ASSERT_TRUE(database_.execute("BEGIN"));
    store::MoneyEntry correction;
    correction.account_id = kAlice;
    correction.user_id = "alice";
    correction.kind = store::EntryKind::Adjust;
    correction.amount_ud = 10;
    correction.ref = "r:zrh-1/1/0/2";
    correction.at_us = kNoon;
    ASSERT_TRUE(store::EntryWriter::begin(database_)->add(correction));
    ASSERT_TRUE(database_.execute("COMMIT"));
    look(kNoon + 3 * kSecond);
    EXPECT_EQ(meter->allowance().state, Allowance::State::Warned);
}

// One who logs in with entries of years is warned, too, and by what it paid last. No look reads
// more than some of them.
TEST_F(CreditWarningTest, APaymentOfLongAgoIsFound) {
    use_plan_of_bytes();
    pay("alice", 100'000, "INV-1");
    use_ud(3000, 27);
    set_credit("alice", 0);
    const auto meter = login(kAlice, "alice");
    const auto state = [&meter] { return meter->allowance().state; };
    look(kNoon + kSecond);
    static_assert(kMostEntriesALook == 1000);
    for (int i = 2; i <= 3; ++i) {
        const auto began = std::chrono::steady_clock::now();
        look(kNoon + i * kSecond);
        const std::chrono::duration<double, std::micro> taken =
            std::chrono::steady_clock::now() - began;
        RecordProperty("us_of_a_look", std::to_string(taken.count()));  // of entries alone
        EXPECT_EQ(state(), Allowance::State::Free) << "after " << i << " of four looks";
    }
    look(kNoon + 4 * kSecond);
    EXPECT_EQ(state(), Allowance::State::Warned) << "19 % are left";
    EXPECT_EQ(meter->allowance().money, (AccountMoney{19'000, 0, 0}));
}

TEST_F(CreditWarningTest, WhatIsBookedWhileAPaymentIsLookedForCounts) {
    use_plan_of_bytes();
    pay("alice", 100'000, "INV-1");
    use_ud(3000, 25);
    set_credit("alice", 0);
    const auto meter = login(kAlice, "alice");
    look(kNoon + kSecond);
    use_ud(1, 5000);
    for (int i = 2; i <= 5; ++i) {
        look(kNoon + i * kSecond);
    }
    EXPECT_EQ(meter->allowance().state, Allowance::State::Warned);
    EXPECT_EQ(meter->allowance().money, (AccountMoney{20'000, 0, 0}));
    pay("alice", 5000, "INV-2");
    look(kNoon + 6 * kSecond);
    EXPECT_EQ(meter->allowance().state, Allowance::State::Free) << "of 25 000 all are left";
}

TEST_F(CreditWarningTest, APaymentIsFoundWhereTheBalanceIsAsBefore) {
    use_plan_of_bytes();
    pay("alice", 10'000, "INV-1");
    use_ud(1, 9000);
    set_credit("alice", 0);
    const auto meter = login(kAlice, "alice");
    look(kNoon + kSecond);
    EXPECT_EQ(meter->allowance().state, Allowance::State::Warned);
    use_ud(1, 500);
    pay("alice", 500, "INV-2");
    look(kNoon + 2 * kSecond);
    EXPECT_EQ(meter->allowance().money, (AccountMoney{1000, 0, 0}));
    EXPECT_EQ(meter->allowance().state, Allowance::State::Free) << "of 1000 all are left";
}

TEST_F(CreditWarningTest, ABalanceIsToldWithoutACreditToo) {
    const auto poor = login(kBob, "bob");
    look(kNoon + 1);
    EXPECT_FALSE(poor->allowance().money) << "no bookings";
    pay("bob", 7, "INV-1");
    look(kNoon + 2);
    EXPECT_EQ(poor->allowance().money, (AccountMoney{7, 0, std::nullopt}));
    EXPECT_EQ(poor->allowance().state, Allowance::State::Free);
    const auto again = login(kBob, "bob");
    EXPECT_EQ(again->allowance().money, (AccountMoney{7, 0, std::nullopt})) << "at once";
    CreditWatch fresh(*ledger_);
    const auto other = std::make_shared<UserMeter>(store::Account{kBob, "bob"});
    ASSERT_TRUE(fresh.add(other));
    EXPECT_EQ(other->allowance().money, (AccountMoney{7, 0, std::nullopt}));
}

}  // namespace
}  // namespace continuo::snapt::accounting
