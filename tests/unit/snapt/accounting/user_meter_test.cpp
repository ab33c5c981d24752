// When a quota warns and when it acts.
#include "snapt/accounting/user_meter.hpp"

#include <gtest/gtest.h>

namespace continuo::snapt::accounting {
namespace {

using store::Account;

using State = Allowance::State;

class UserMeterTest : public testing::Test {
  protected:
    // The state when `used` bytes of a quota of `bytes` are used, all of them counted before.
    static State state_at(int64_t bytes, int64_t used) {
        UserMeter meter{Account{}};
        meter.set(terms(bytes, used));
        return meter.allowance().state;
    }
    static MeterTerms terms(int64_t bytes, int64_t used) {
        MeterTerms terms;
        terms.quota.emplace().bytes = bytes;
        terms.used_bytes = used;
        terms.then.action = store::OnExhausted::Stop;
        return terms;
    }
};

TEST_F(UserMeterTest, WarnsFromEightyPercentOn) {
    for (const int64_t bytes : {int64_t{100}, int64_t{5'000'000}, int64_t{1} << 53}) {
        const int64_t edge = bytes - bytes / 100 * 20;
        EXPECT_EQ(state_at(bytes, bytes / 100 * 79), State::Free) << bytes;
        EXPECT_EQ(state_at(bytes, edge - 1), State::Free) << bytes;
        EXPECT_EQ(state_at(bytes, edge), State::Warned) << bytes;
        EXPECT_EQ(state_at(bytes, bytes - 1), State::Warned) << bytes;
        EXPECT_EQ(state_at(bytes, bytes), State::Stopped) << bytes;
    }
    EXPECT_EQ(state_at(100, 79), State::Free);
    EXPECT_EQ(state_at(100, 80), State::Warned);
}

TEST_F(UserMeterTest, WarnsByWhatItHasCountedSince) {
    UserMeter meter{Account{}};
    meter.set(terms(1000, 700));
    flow::add(meter.counter(), 99);
    EXPECT_EQ(meter.allowance().state, State::Free);
    flow::add(meter.counter(), 1);
    EXPECT_EQ(meter.allowance().state, State::Warned);
    EXPECT_FALSE(meter.is_stopped());
    flow::add(meter.counter(), 200);
    EXPECT_EQ(meter.allowance().state, State::Stopped);
    EXPECT_TRUE(meter.is_stopped());
}

TEST_F(UserMeterTest, AQuotaThatWarnsComesBeforeACredit) {
    UserMeter meter{Account{}};
    meter.set(terms(1000, 0));
    meter.set_credit({false, CreditGrant::kNoEnd, true, AccountMoney{5, 1, 2}});
    EXPECT_EQ(meter.allowance().state, State::Warned);
    EXPECT_TRUE(meter.allowance().is_for_credit);
    EXPECT_EQ(meter.allowance().until_us, 0) << "no period ends";
    EXPECT_EQ(meter.allowance().money, (AccountMoney{5, 1, 2}));
    meter.set(terms(1000, 800));
    EXPECT_EQ(meter.allowance().state, State::Warned);
    EXPECT_FALSE(meter.allowance().is_for_credit);
    meter.set_credit({true, CreditGrant::kNoEnd, false, {}});
    EXPECT_EQ(meter.allowance().state, State::Stopped);
    EXPECT_TRUE(meter.allowance().is_for_credit);
}

}  // namespace
}  // namespace continuo::snapt::accounting
