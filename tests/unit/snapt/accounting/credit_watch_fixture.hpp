// A ledger with two users' sessions and the watch of their credits.
#pragma once

#include "snapt/accounting/credit_watch.hpp"
#include "snapt/accounting/quota.hpp"
#include "tests/unit/snapt/ledger/charges_fixture.hpp"

namespace continuo::snapt::accounting {

struct CreditSlots : ledger::LedgerTest {
    using ledger::LedgerTest::add_session;
    using ledger::LedgerTest::count;
    using ledger::LedgerTest::request;
};

// A byte of payload costs 8 micro-denarii.
inline constexpr int64_t kUdOfByte = 8;
inline constexpr int64_t kDenarius = 1'000'000;
inline constexpr uint64_t kHeaders = 40;  // of LedgerTest::count()

class CreditWatchTest : public ledger::ChargesTest {
  protected:
    void SetUp() override {
        ledger::LedgerOptions options;
        options.state_directory = folder_;
        options.snapt_id = "zrh-1";
        options.live_slots = 256;
        ledger_ = ledger::Ledger::open(options, ledger::kNoon).value();
        watch_ = std::make_unique<CreditWatch>(*ledger_);
        CreditSlots::add_session(*ledger_, 1, "alice", ledger::kAlice);
        CreditSlots::add_session(*ledger_, 2, "bob", ledger::kBob);
    }
    void TearDown() override {
        watch_.reset();
        ledger_.reset();
    }
    void use_plan_of_bytes() { use(add_flat("flat", "0.001").plan_id); }
    void set_credit(const std::string& user, int64_t limit_ud, const char* then = "stop") {
        TermsChange change;
        change.credit_limit_ud.emplace(limit_ud);
        change.then = parse_exhaustion(then);
        ASSERT_TRUE(change_terms(database_, user, change));
    }
    void pay(const std::string& user, int64_t amount_ud, const std::string& ref) {
        store::MoneyEntry entry;
        entry.user_id = user;
        entry.kind = store::EntryKind::Topup;
        entry.amount_ud = amount_ud;
        entry.ref = ref;
        ASSERT_TRUE(store::book(database_, entry));
    }
    std::shared_ptr<UserMeter> login(int64_t account_id, const std::string& user) {
        const auto meter = std::make_shared<UserMeter>(store::Account{account_id, user});
        MeterTerms terms;
        terms.then = store::Exhaustion{store::OnExhausted::Stop, 0};
        meter->set(terms);
        EXPECT_TRUE(watch_->add(meter));
        return meter;
    }
    bool look(int64_t now_us) {
        const auto changed = watch_->look(now_us);
        EXPECT_TRUE(changed) << changed.error().where;
        return changed && *changed;
    }
    static void count(flow::LiveSlot& slot, uint64_t payload, int64_t at_us) {
        CreditSlots::count(slot, payload + kHeaders, at_us);
    }

    std::unique_ptr<ledger::Ledger> ledger_;
    std::unique_ptr<CreditWatch> watch_;
};

}  // namespace continuo::snapt::accounting
