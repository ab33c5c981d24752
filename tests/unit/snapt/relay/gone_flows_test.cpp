#include "snapt/relay/gone_flows.hpp"

#include <gtest/gtest.h>

namespace continuo::snapt::relay {
namespace {

packet::FiveTuple udp(uint32_t number) {
    packet::FiveTuple tuple;
    tuple.local = base::IpAddress::v4(0x64400002);
    tuple.remote = base::IpAddress::v4(0xC6336402 + (number >> 16));
    tuple.local_port = static_cast<uint16_t>(number);
    tuple.protocol = packet::Protocol::Udp;
    return tuple;
}
bool is_never_back(const packet::FiveTuple& /*tuple*/) {
    return false;
}

TEST(GoneFlows, CountForTheirUserUntilTheyAreForgotten) {
    GoneFlows gone;
    GoneFlows::Share alice;
    GoneFlows::Share bob;
    gone.add(udp(1), alice);
    gone.add(udp(2), alice);
    gone.add(udp(3), bob);
    EXPECT_EQ(gone.take(is_never_back).size(), 3U);
    gone.add(udp(4), alice);
    EXPECT_TRUE(gone.take(is_never_back).empty()) << "others are being forgotten";
    EXPECT_EQ(alice.flows, 3U);
    gone.finish(true);
    EXPECT_EQ(alice.flows, 1U);
    EXPECT_EQ(bob.flows, 0U);
    EXPECT_EQ(gone.take(is_never_back), std::vector{udp(4)});
    gone.finish(true);
    EXPECT_EQ(alice.flows, 0U);
    EXPECT_EQ(gone.left(), 0U);
}

TEST(GoneFlows, OneThatIsBackIsNotForgotten) {
    GoneFlows gone;
    GoneFlows::Share share;
    gone.add(udp(1), share);
    gone.add(udp(2), share);
    const auto tuples = gone.take([](const auto& tuple) { return tuple == udp(1); });
    EXPECT_EQ(tuples, std::vector{udp(2)});
    EXPECT_EQ(share.flows, 1U);
}

TEST(GoneFlows, WhatCannotBeForgottenNowWaits) {
    GoneFlows gone;
    GoneFlows::Share share;
    gone.add(udp(1), share);
    EXPECT_EQ(gone.take(is_never_back).size(), 1U);
    EXPECT_FALSE(gone.may_hurry());
    gone.finish(false);
    EXPECT_FALSE(gone.may_hurry()) << "later";
    EXPECT_EQ(share.flows, 1U);
    EXPECT_EQ(gone.take(is_never_back), std::vector{udp(1)});
    gone.finish(true);
    EXPECT_TRUE(gone.may_hurry());
}

TEST(GoneFlows, LeaveAUserPlacesAndAReserve) {
    GoneFlows::Share share;
    constexpr size_t kMost = 1024;
    share.flows = kMost - kMost / 8 - 1;
    EXPECT_TRUE(GoneFlows::has_room(share, 100, 100, kMost, false));
    ++share.flows;
    EXPECT_FALSE(GoneFlows::has_room(share, 100, 100, kMost, false));
    EXPECT_TRUE(GoneFlows::has_room(share, 100, 100, kMost, true));
    share.flows = kMost;
    EXPECT_FALSE(GoneFlows::has_room(share, 100, 100, kMost, true));
    EXPECT_TRUE(GoneFlows::has_room(share, 99, 100, kMost, true));
    EXPECT_TRUE(GoneFlows::has_room(share, 100, 0, kMost, false)) << "no limit";
}

TEST(GoneFlows, BeyondItsLimitTheKernelIsLeftToItself) {
    GoneFlows gone;
    GoneFlows::Share share;
    for (uint32_t i = 0; i < GoneFlows::kMost + 5; ++i) {
        gone.add(udp(i), share);
    }
    EXPECT_EQ(share.flows, GoneFlows::kMost);
    EXPECT_EQ(gone.left(), 5U);
    EXPECT_EQ(gone.take(is_never_back).size(), GoneFlows::kMostInOneGo) << "a part at a time";
    gone.finish(true);
    EXPECT_EQ(share.flows, GoneFlows::kMost - GoneFlows::kMostInOneGo);
}

}  // namespace
}  // namespace continuo::snapt::relay
