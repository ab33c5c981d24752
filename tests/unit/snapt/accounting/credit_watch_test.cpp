#include "tests/unit/snapt/accounting/credit_watch_fixture.hpp"

namespace continuo::snapt::accounting {
namespace {

using ledger::kAlice;
using ledger::kNoon;
using ledger::kSecond;
using store::Account;
using store::Exhaustion;
using store::OnExhausted;

TEST_F(CreditWatchTest, FlowsCountBeforeTheyAreRecorded) {
    use_plan_of_bytes();
    set_credit("alice", 2000 * kUdOfByte);
    pay("alice", 8000 * kUdOfByte, "INV-1");
    const auto meter = login(kAlice, "alice");
    flow::LiveSlot* slot = ledger_->live().take(CreditSlots::request(1, 1, kNoon));
    flow::LiveSlot* bobs = ledger_->live().take(CreditSlots::request(2, 2, kNoon));
    count(*slot, 9999, kNoon + 1);
    count(*bobs, 50'000, kNoon + 1);
    EXPECT_FALSE(look(kNoon + kSecond));
    EXPECT_FALSE(meter->is_stopped());
    EXPECT_EQ(ledger_->status().records, 0U) << "nobody needs its record";
    count(*slot, 1, kNoon + kSecond + 1);
    EXPECT_TRUE(look(kNoon + 2 * kSecond));
    EXPECT_TRUE(meter->is_stopped());
    const Allowance allowance = meter->allowance();
    EXPECT_EQ(allowance.state, Allowance::State::Stopped);
    EXPECT_TRUE(allowance.is_for_credit);
    EXPECT_EQ(allowance.until_us, 0) << "nobody knows";
    EXPECT_EQ(ledger_->status().records, 1U) << "what acts has its final price";
    EXPECT_FALSE(look(kNoon + 3 * kSecond));
    EXPECT_EQ(ledger_->status().records, 1U) << "once";
    pay("alice", 1, "INV-2");
    EXPECT_TRUE(look(kNoon + 4 * kSecond));
    EXPECT_FALSE(meter->is_stopped());
}

TEST_F(CreditWatchTest, SealingAndBookingChangeNothing) {
    use_plan_of_bytes();
    pay("alice", 10'000 * kUdOfByte, "INV-1");
    set_credit("alice", 0);
    const auto meter = login(kAlice, "alice");
    flow::LiveSlot* slot = ledger_->live().take(CreditSlots::request(1, 1, kNoon));
    count(*slot, 4000, kNoon + 1);
    EXPECT_FALSE(look(kNoon + kSecond));
    ASSERT_TRUE(ledger_->seal_now(kNoon + 2 * kSecond));
    count(*slot, 3000, kNoon + 2 * kSecond);
    EXPECT_FALSE(look(kNoon + 3 * kSecond));
    ASSERT_TRUE(ledger_->seal_now(kNoon + 4 * kSecond));
    count(*slot, 2999, kNoon + 4 * kSecond);
    EXPECT_EQ(book_until(kBookAll).records, 2U) << "one is new to the watch, too";
    EXPECT_FALSE(look(kNoon + 5 * kSecond));
    EXPECT_FALSE(meter->is_stopped());
    EXPECT_EQ(book_until(kBookAll).records, 0U);
    count(*slot, 1, kNoon + 6 * kSecond);
    EXPECT_TRUE(look(kNoon + 6 * kSecond));
    EXPECT_TRUE(meter->is_stopped());
    book_until(kBookAll);
    EXPECT_EQ(balance(kAlice), 0);
    EXPECT_FALSE(look(kNoon + 7 * kSecond));
    EXPECT_TRUE(meter->is_stopped());
}

TEST_F(CreditWatchTest, MergedFlowsCountToo) {
    watch_.reset();
    ledger_.reset();
    ledger::LedgerOptions options;
    options.state_directory = folder_;
    options.snapt_id = "zrh-1";
    options.live_slots = 256;
    options.is_aggregate = true;
    ledger_ = ledger::Ledger::open(options, kNoon).value();
    watch_ = std::make_unique<CreditWatch>(*ledger_);
    CreditSlots::add_session(*ledger_, 1, "alice", kAlice);
    use_plan_of_bytes();
    set_credit("alice", 1000 * kUdOfByte);
    const auto meter = login(kAlice, "alice");
    flow::LiveSlot* slot = ledger_->live().take(CreditSlots::request(1, 1, kNoon));
    count(*slot, 600, kNoon + 1);
    ledger_->live().release(slot, flow::Cause::Closed);
    ASSERT_TRUE(ledger_->tick(kNoon + kSecond)) << "merged, without a record";
    EXPECT_FALSE(look(kNoon + kSecond));
    count(*ledger_->live().take(CreditSlots::request(2, 1, kNoon)), 399, kNoon + kSecond);
    EXPECT_FALSE(look(kNoon + 2 * kSecond));
    count(*ledger_->live().take(CreditSlots::request(3, 1, kNoon)), 1, kNoon + 2 * kSecond);
    EXPECT_TRUE(look(kNoon + 3 * kSecond));
    EXPECT_TRUE(meter->is_stopped());
    ASSERT_TRUE(ledger_->tick(kNoon + 60 * kSecond));
    EXPECT_FALSE(look(kNoon + 61 * kSecond)) << "as their record";
    EXPECT_TRUE(meter->is_stopped());
}

// Wherever booking is, also in the middle of a batch, a login finds what is spent.
TEST_F(CreditWatchTest, ALoginCountsWhatIsNotBookedYet) {
    use(add_shipped().plan_id);
    put_many(150);
    const std::array accounts = {std::pair(kAlice, std::string("alice")),
                                 std::pair(ledger::kBob, std::string("bob"))};
    const auto expect_exact = [&](const std::string& where) {
        for (const auto& [account_id, user] : accounts) {
            const int64_t spent_ud = net_ud(account_id, *shipped_);
            ASSERT_GT(spent_ud, 0);
            for (const int64_t more : {0, 1}) {
                set_credit(user, spent_ud + more);
                CreditWatch fresh(*ledger_);
                const auto meter = std::make_shared<UserMeter>(Account{account_id, user});
                MeterTerms terms;
                terms.then = Exhaustion{OnExhausted::Stop, 0};
                meter->set(terms);
                ASSERT_TRUE(fresh.add(meter));
                EXPECT_EQ(meter->is_stopped(), more == 0) << where << " " << user;
            }
        }
    };
    expect_exact("nothing is booked");
    UsageBooker booker(database_, {20, 1, 50, 50});
    for (int step = 0;; ++step) {
        const auto booked = booker.step(kNoon + ledger::kMinute, kBookAll);
        ASSERT_TRUE(booked) << booked.error().where;
        if (booked->has_written) {
            expect_exact("after step " + std::to_string(step));
        }
        if (!booked->has_more) {
            break;
        }
    }
    EXPECT_EQ(balance(kAlice), -net_ud(kAlice, *shipped_));
}

TEST_F(CreditWatchTest, AnotherPlanHoldsForWhatIsNotBooked) {
    use_plan_of_bytes();
    set_credit("alice", 10'000 * kUdOfByte);
    const auto meter = login(kAlice, "alice");
    flow::LiveSlot* slot = ledger_->live().take(CreditSlots::request(1, 1, kNoon));
    count(*slot, 3000, kNoon + 1);
    ASSERT_TRUE(ledger_->seal_now(kNoon + kSecond));
    count(*slot, 2000, kNoon + kSecond);
    EXPECT_FALSE(look(kNoon + 2 * kSecond));
    add_flat("flat", "0.002");
    EXPECT_TRUE(look(kNoon + 3 * kSecond)) << "twice the price";
    EXPECT_TRUE(meter->is_stopped());
}

TEST_F(CreditWatchTest, WithoutAPlanTheBalanceAloneCounts) {
    set_credit("alice", 0, "throttle=128kbit");
    pay("alice", 5, "INV-1");
    const auto meter = login(kAlice, "alice");
    count(*ledger_->live().take(CreditSlots::request(1, 1, kNoon)), 1 << 20, kNoon + 1);
    EXPECT_FALSE(look(kNoon + kSecond));
    store::MoneyEntry entry;
    entry.user_id = "alice";
    entry.kind = store::EntryKind::Adjust;
    entry.amount_ud = -5;
    entry.ref = "C-1";
    ASSERT_TRUE(store::book(database_, entry));
    EXPECT_TRUE(look(kNoon + 2 * kSecond));
    MeterTerms terms;
    terms.then = Exhaustion{OnExhausted::Throttle, 128'000};
    meter->set(terms);
    EXPECT_EQ(meter->throttled_bits_per_s(), 128'000U);
    set_credit("alice", 1);
    EXPECT_TRUE(look(kNoon + 3 * kSecond)) << "a larger credit";
    EXPECT_EQ(meter->throttled_bits_per_s(), 0U);
}

TEST_F(CreditWatchTest, ACreditMayBeginAndEndWhileItsUserIsHere) {
    use_plan_of_bytes();
    const auto meter = login(kAlice, "alice");
    flow::LiveSlot* slot = ledger_->live().take(CreditSlots::request(1, 1, kNoon));
    count(*slot, 600, kNoon + 1);
    ASSERT_TRUE(ledger_->seal_now(kNoon + kSecond));
    count(*slot, 400, kNoon + kSecond);
    EXPECT_FALSE(look(kNoon + kSecond));
    set_credit("alice", 1000 * kUdOfByte);
    EXPECT_TRUE(look(kNoon + 2 * kSecond)) << "of what was used before, too";
    EXPECT_TRUE(meter->is_stopped());
    TermsChange none;
    none.credit_limit_ud.emplace();
    ASSERT_TRUE(change_terms(database_, "alice", none));
    EXPECT_TRUE(look(kNoon + 3 * kSecond));
    EXPECT_FALSE(meter->is_stopped());
}

// The data loop lets through as much whenever the next look is.
TEST_F(CreditWatchTest, ALookGrantsTheBytesThatTheRestPaysFor) {
    use_plan_of_bytes();
    set_credit("alice", 10'000 * kUdOfByte);
    const auto meter = login(kAlice, "alice");
    flow::LiveSlot* slot = ledger_->live().take(CreditSlots::request(1, 1, kNoon));
    const auto use_bytes = [&](uint64_t payload, int64_t at_us) {
        count(*slot, payload, at_us);
        flow::add(meter->counter(), payload);
    };
    use_bytes(4000, kNoon + 1);
    EXPECT_FALSE(look(kNoon + kSecond));
    use_bytes(5999, kNoon + kSecond + 1);
    EXPECT_EQ(meter->throttled_bits_per_s(), 0U);
    use_bytes(1, kNoon + kSecond + 2);
    EXPECT_EQ(meter->throttled_bits_per_s(), kHeldBitsPerS) << "its packets wait for a look";
    EXPECT_FALSE(meter->is_stopped());
    EXPECT_EQ(meter->allowance().state, Allowance::State::Free) << "nobody knows yet";
    pay("alice", 1000 * kUdOfByte, "INV-1");
    EXPECT_TRUE(look(kNoon + 2 * kSecond)) << "they go on";
    EXPECT_EQ(meter->throttled_bits_per_s(), 0U);
    use_bytes(1000, kNoon + 2 * kSecond + 1);
    EXPECT_EQ(meter->throttled_bits_per_s(), kHeldBitsPerS);
    EXPECT_TRUE(look(kNoon + 3 * kSecond));
    EXPECT_TRUE(meter->is_stopped());
    EXPECT_EQ(meter->throttled_bits_per_s(), 0U) << "refusals do not wait";
}

TEST_F(CreditWatchTest, UntilAPriceIsKnownAFirstPartIsGranted) {
    set_credit("alice", 1000 * kDenarius);
    const auto meter = login(kAlice, "alice");
    flow::add(meter->counter(), kFirstGrantBytes);
    EXPECT_EQ(meter->throttled_bits_per_s(), 0U) << "without a plan usage is free";
    use_plan_of_bytes();
    EXPECT_FALSE(look(kNoon + kSecond));
    flow::add(meter->counter(), kFirstGrantBytes - 1);
    EXPECT_EQ(meter->throttled_bits_per_s(), 0U);
    flow::add(meter->counter(), 1);
    EXPECT_EQ(meter->throttled_bits_per_s(), kHeldBitsPerS);
    count(*ledger_->live().take(CreditSlots::request(1, 1, kNoon)), 1000, kNoon + 1);
    EXPECT_TRUE(look(kNoon + 2 * kSecond));
    EXPECT_EQ(meter->throttled_bits_per_s(), 0U);
    flow::add(meter->counter(), 1000 * kDenarius / kUdOfByte - 1001);
    EXPECT_EQ(meter->throttled_bits_per_s(), 0U) << "all that it pays for";
    flow::add(meter->counter(), 1);
    EXPECT_EQ(meter->throttled_bits_per_s(), kHeldBitsPerS);
}

// A price may come at any time, as with a plan that begins later: no grant is without end.
TEST_F(CreditWatchTest, WhatIsFreeOrCheapHasAnEndToo) {
    use(add_flat("flat", "0").plan_id);
    set_credit("alice", 1000 * kDenarius);
    const auto meter = login(kAlice, "alice");
    const auto goes_to_its_end = [&meter] {
        flow::add(meter->counter(), kMostGrantBytes - 1);
        const bool passes = meter->throttled_bits_per_s() == 0;
        flow::add(meter->counter(), 1);
        return passes && meter->throttled_bits_per_s() == kHeldBitsPerS;
    };
    flow::LiveSlot* slot = ledger_->live().take(CreditSlots::request(1, 1, kNoon));
    count(*slot, kFirstGrantBytes, kNoon + 1);
    EXPECT_FALSE(look(kNoon + kSecond));
    EXPECT_TRUE(goes_to_its_end()) << "that cost nothing";
    EXPECT_TRUE(look(kNoon + 2 * kSecond)) << "goes on";
    EXPECT_EQ(meter->throttled_bits_per_s(), 0U);
    use_plan_of_bytes();
    set_credit("alice", store::kMaxBalanceUd);
    count(*slot, kFirstGrantBytes, kNoon + 2 * kSecond + 1);
    EXPECT_FALSE(look(kNoon + 3 * kSecond));
    EXPECT_TRUE(goes_to_its_end()) << "however much is left";
}

TEST_F(CreditWatchTest, WithNotifyNothingWaits) {
    use_plan_of_bytes();
    set_credit("alice", 1000 * kUdOfByte, "notify");
    const auto meter = login(kAlice, "alice");
    meter->set({});
    flow::add(meter->counter(), 10 * kFirstGrantBytes);
    EXPECT_EQ(meter->throttled_bits_per_s(), 0U);
    EXPECT_FALSE(meter->is_stopped());
}

TEST_F(CreditWatchTest, ThePriceOfTheSnaptCounts) {
    watch_.reset();
    ledger_.reset();
    ledger::LedgerOptions options;
    options.state_directory = folder_;
    options.snapt_id = "zrh-1";
    options.live_slots = 256;
    options.price_permille = 2500;
    ledger_ = ledger::Ledger::open(options, kNoon).value();
    watch_ = std::make_unique<CreditWatch>(*ledger_);
    CreditSlots::add_session(*ledger_, 1, "alice", kAlice);
    use_plan_of_bytes();
    set_credit("alice", 25'000 * kUdOfByte);
    const auto meter = login(kAlice, "alice");
    flow::LiveSlot* slot = ledger_->live().take(CreditSlots::request(1, 1, kNoon));
    count(*slot, 6000, kNoon + 1);
    ASSERT_TRUE(ledger_->seal_now(kNoon + kSecond));
    count(*slot, 3999, kNoon + 2 * kSecond);
    flow::add(meter->counter(), 9999);
    EXPECT_FALSE(look(kNoon + 2 * kSecond)) << "two and a half times the price, of records and not";
    EXPECT_EQ(meter->throttled_bits_per_s(), 0U);
    flow::add(meter->counter(), 1);
    EXPECT_EQ(meter->throttled_bits_per_s(), kHeldBitsPerS);
    count(*slot, 1, kNoon + 3 * kSecond);
    EXPECT_TRUE(look(kNoon + 3 * kSecond));
    EXPECT_TRUE(meter->is_stopped());
    book_until(kBookAll);
    EXPECT_EQ(balance(kAlice), -25'000 * kUdOfByte) << "as it is booked";
    EXPECT_FALSE(look(kNoon + 4 * kSecond));
    EXPECT_TRUE(meter->is_stopped());
}

// Just after `plan use` nothing is booked, and where a clock was never set, nothing ever is.
TEST_F(CreditWatchTest, ALoginReadsNothingOfBeforeTheFirstPlan) {
    put_many(20'000);  // none of them is booked
    set_credit("alice", 1);
    const int64_t later = records_.back().t_end;
    use(add_flat("flat", "0.001").plan_id, later);
    int rounds = 0;
    const std::function<bool()> is_read = [&rounds] {
        ++rounds;
        return false;
    };
    ledger_->database().set_give_up(&is_read);
    const auto meter = login(kAlice, "alice");
    ledger_->database().set_give_up(nullptr);
    EXPECT_FALSE(meter->is_stopped());
    EXPECT_LE(rounds, 1) << "of 10 000 steps each, more than a record takes";
    flow::UsageRecord next =
        record(kAlice, base::TrafficClass::HtLd, later - kNoon + 900 * kSecond);
    next.pay_down = 1;
    put(next);
    EXPECT_TRUE(login(kAlice, "alice")) << "known already";
    CreditWatch fresh(*ledger_);
    const auto stopped = std::make_shared<UserMeter>(Account{kAlice, "alice"});
    MeterTerms terms;
    terms.then = Exhaustion{OnExhausted::Stop, 0};
    stopped->set(terms);
    ASSERT_TRUE(fresh.add(stopped));
    EXPECT_TRUE(stopped->is_stopped()) << "what came after it counts";
}

// A record costs kMaxChargeUd at the most, a thousand of them more than 64 bits hold.
TEST_F(CreditWatchTest, SumsOfAbsurdPricesStayWithinTheirBounds) {
    use(add_flat("absurd", "1000000").plan_id);
    set_credit("alice", store::kMaxBalanceUd);
    const auto meter = login(kAlice, "alice");
    flow::LiveSlot* slot = ledger_->live().take(CreditSlots::request(1, 1, kNoon));
    constexpr uint64_t kGigabytes = uint64_t{1} << 50;
    for (int64_t i = 0; i < 2100; ++i) {
        count(*slot, kGigabytes, kNoon + i * kSecond + 1);
        ASSERT_TRUE(ledger_->seal_now(kNoon + (i + 1) * kSecond));
    }
    EXPECT_TRUE(look(kNoon + 3000 * kSecond));
    EXPECT_TRUE(meter->is_stopped());
    CreditWatch fresh(*ledger_);
    const auto later = std::make_shared<UserMeter>(Account{kAlice, "alice"});
    MeterTerms terms;
    terms.then = Exhaustion{OnExhausted::Stop, 0};
    later->set(terms);
    ASSERT_TRUE(fresh.add(later));
    EXPECT_TRUE(later->is_stopped()) << "as for who logs in then";
}

TEST_F(CreditWatchTest, WhoeverIsGoneIsForgotten) {
    use_plan_of_bytes();
    set_credit("alice", 1000);
    auto meter = login(kAlice, "alice");
    auto second = login(kAlice, "alice");
    meter.reset();
    look(kNoon + 1);
    EXPECT_FALSE(watch_->is_empty()) << "another meter of the account";
    second.reset();
    look(kNoon + 2);
    EXPECT_TRUE(watch_->is_empty());
    count(*ledger_->live().take(CreditSlots::request(1, 1, kNoon)), 600, kNoon + 3);
    ASSERT_TRUE(ledger_->seal_now(kNoon + kSecond));
    EXPECT_TRUE(ledger_->take_watched_records().empty()) << "nobody takes them";
}

}  // namespace
}  // namespace continuo::snapt::accounting
