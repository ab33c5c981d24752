#include "common/netlink/watched_addresses.hpp"

#include <algorithm>

#include <gtest/gtest.h>

namespace continuo::netlink {
namespace {

using base::IpAddress;

// `count` of them, of a network of 12 bits in 198.18.0.0/15.
std::vector<IpAddress> addresses(uint32_t net, uint32_t count) {
    constexpr uint32_t kFirst = 0xC6120000U;
    std::vector<IpAddress> list;
    for (uint32_t i = 0; i < count; ++i) {
        list.push_back(IpAddress::v4(kFirst + (net << 12U) + i));
    }
    return list;
}

bool has(const std::vector<IpAddress>& list, const std::vector<IpAddress>& all) {
    return std::all_of(all.begin(), all.end(), [&](const IpAddress& one) {
        return std::binary_search(list.begin(), list.end(), one);
    });
}

class WatchedAddressesTest : public testing::Test {
  protected:
    const int first_ = 0;
    const int second_ = 0;
    const int third_ = 0;
    WatchedAddresses watched_;
};

TEST_F(WatchedAddressesTest, AreThoseOfAllEachOnce) {
    EXPECT_TRUE(watched_.set(&first_, WatchRank::First, addresses(1, 3)));
    EXPECT_TRUE(watched_.set(&second_, WatchRank::Second, addresses(1, 5)));
    EXPECT_EQ(watched_.list(), addresses(1, 5));
    EXPECT_FALSE(watched_.set(&first_, WatchRank::First, addresses(1, 3))) << "the same";
    EXPECT_TRUE(watched_.set(&second_, WatchRank::Second, {}));
    EXPECT_FALSE(watched_.set(&second_, WatchRank::Second, {})) << "nothing is nothing";
    EXPECT_EQ(watched_.list(), addresses(1, 3));
    EXPECT_EQ(watched_.left_out(), 0U);
}

TEST_F(WatchedAddressesTest, WhereThereAreTooManyThoseOfTheFirstRankStay) {
    watched_.set(&first_, WatchRank::Second, addresses(1, 30));
    watched_.set(&second_, WatchRank::First, addresses(2, kMaxWatched - 10));
    EXPECT_EQ(watched_.left_out(), 20U);
    const auto list = watched_.list();
    EXPECT_EQ(list.size(), kMaxWatched);
    EXPECT_TRUE(std::is_sorted(list.begin(), list.end()));
    EXPECT_TRUE(has(list, addresses(2, kMaxWatched - 10)));
    EXPECT_TRUE(has(list, addresses(1, 10))) << "its first ones";
    watched_.set(&second_, WatchRank::First, addresses(2, 5));
    EXPECT_EQ(watched_.left_out(), 0U) << "no more than there are now";
}

TEST_F(WatchedAddressesTest, OfOneRankEachKeepsItsFirstOnes) {
    watched_.set(&first_, WatchRank::First, addresses(1, 300));
    watched_.set(&second_, WatchRank::First, addresses(2, 300));
    watched_.set(&third_, WatchRank::First, addresses(3, 10));
    const auto list = watched_.list();
    EXPECT_TRUE(has(list, addresses(3, 10)));
    EXPECT_TRUE(has(list, addresses(1, 123)));
    EXPECT_TRUE(has(list, addresses(2, 123)));
    EXPECT_EQ(watched_.left_out(), 610 - kMaxWatched);
}

}  // namespace
}  // namespace continuo::netlink
