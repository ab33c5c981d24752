#include "common/session/epochs.hpp"

#include <gtest/gtest.h>

namespace continuo::session {
namespace {

using base::milliseconds;
using base::seconds;
using base::TimePoint;
using path::Role;

class EpochsTest : public ::testing::TestWithParam<Role> {
  protected:
    EpochsTest() { settings_.role = GetParam(); }

    EpochState& install(uint32_t number) {
        EpochInstall keys;
        keys.epoch = number;
        return epochs_.install(std::move(keys), milliseconds(100), now_);
    }

    SessionSettings settings_;
    elision::DecodeScratch scratch_;
    SessionCounters counters_;
    Epochs epochs_{settings_, scratch_, counters_};
    TimePoint now_ = TimePoint{} + seconds(10);
};

TEST_P(EpochsTest, ANodeSendsInTheNewestAndSnaptInTheNewestThatItHeard) {
    EXPECT_EQ(epochs_.sending(), nullptr);
    EXPECT_EQ(epochs_.newest(), std::nullopt);
    EpochState& first = install(1);
    EXPECT_EQ(epochs_.sending(), &first) << "there is no other";
    EpochState& second = install(2);
    EXPECT_EQ(epochs_.newest(), 2U);
    EXPECT_EQ(epochs_.before(second), &first);
    EXPECT_EQ(epochs_.before(first), nullptr);
    EXPECT_EQ(epochs_.sending(), GetParam() == Role::Node ? &second : &first);
    EXPECT_TRUE(epochs_.on_heard(second, now_ + seconds(1)));
    EXPECT_EQ(epochs_.sending(), &second);
}

TEST_P(EpochsTest, ACopyIsSealedUnderTheKeysOfItsOriginal) {
    EpochState& first = install(1);
    EpochState& second = install(2);
    const bool is_node = GetParam() == Role::Node;
    EXPECT_EQ(epochs_.sealing(1), &first);
    EXPECT_EQ(epochs_.sealing(2), is_node ? &second : nullptr) << "not heard yet";
    epochs_.on_heard(second, now_ + seconds(1));
    EXPECT_EQ(epochs_.sealing(1), is_node ? &first : nullptr);
    EXPECT_EQ(epochs_.sealing(3), nullptr);
}

TEST_P(EpochsTest, ThePreviousOneEndsSomeTimeAfterTheNextWasHeard) {
    EpochState& first = install(1);
    EpochState& second = install(2);
    epochs_.on_time(now_ + seconds(1000));
    EXPECT_EQ(epochs_.find(1), &first) << "the other end may not have the new keys";
    EXPECT_TRUE(epochs_.may_move(first));
    epochs_.on_heard(second, now_ + seconds(1));
    EXPECT_FALSE(epochs_.may_move(first));
    EXPECT_TRUE(epochs_.may_move(second));
    epochs_.on_time(now_ + milliseconds(999));
    EXPECT_EQ(epochs_.find(1), &first);
    epochs_.set_in_use(true);
    epochs_.on_time(now_ + seconds(1));
    EXPECT_EQ(epochs_.find(1), &first) << "a call uses it";
    epochs_.set_in_use(false);
    epochs_.on_time(now_ + seconds(1));
    EXPECT_EQ(epochs_.find(1), nullptr);
    EXPECT_EQ(epochs_.find(2), &second);
}

TEST_P(EpochsTest, AnEpochThatWasNeverHeardIsGrantedAnew) {
    EXPECT_TRUE(epochs_.may_grant(7)) << "the first";
    install(7);
    EXPECT_TRUE(epochs_.may_grant(7));
    EXPECT_TRUE(epochs_.may_grant(8));
    EXPECT_FALSE(epochs_.may_grant(9));
    EXPECT_EQ(epochs_.succession(7), Epochs::Succession::Anew);
    EXPECT_EQ(epochs_.succession(8), Epochs::Succession::Next);
    EXPECT_EQ(epochs_.succession(9), Epochs::Succession::First);
    EXPECT_FALSE(epochs_.on_heard(*epochs_.current(), now_)) << "there is none before it";
    EXPECT_FALSE(epochs_.may_grant(7));
}

TEST_P(EpochsTest, AnEpochOfAnotherAssociationSharesNothingWithTheOneBefore) {
    install(1);
    EpochState& later = install(5);
    EXPECT_EQ(epochs_.find(1), nullptr);
    EXPECT_EQ(epochs_.sending(), &later);
}

TEST_P(EpochsTest, CountsGapsAsLostOnceTheyAreASecondOldAndAsMissingAtOnce) {
    crypto::ReplayWindow& window = install(1).windows[0];
    for (const uint64_t number : {0U, 1U, 5U}) {
        EXPECT_TRUE(window.check_and_mark(number));
    }
    EXPECT_EQ(epochs_.missing_datagrams(), 3U);
    epochs_.on_time(now_);
    EXPECT_EQ(counters_.lost_datagrams, 0U) << "they may still come";
    epochs_.on_time(now_ + seconds(1));
    EXPECT_EQ(counters_.lost_datagrams, 3U);
    epochs_.on_silent_gap(2);
    EXPECT_EQ(epochs_.missing_datagrams(), 1U);
}

INSTANTIATE_TEST_SUITE_P(Ends, EpochsTest, ::testing::Values(Role::Node, Role::Snapt));

}  // namespace
}  // namespace continuo::session
