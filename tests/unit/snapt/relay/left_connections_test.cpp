#include "common/dataplane/conntrack_timeouts.hpp"
#include "snapt/relay/left_connections.hpp"

#include <gtest/gtest.h>

namespace continuo::snapt::relay {
namespace {

using Kind = LeftConnections::Kind;

constexpr base::TimePoint kStart{base::seconds(1000)};

packet::FiveTuple connection_of(uint32_t number) {
    packet::FiveTuple tuple;
    tuple.local = base::IpAddress::v4(0x64400002);
    tuple.remote = base::IpAddress::v4(0xC6336402 + (number >> 16));
    tuple.local_port = static_cast<uint16_t>(number);
    tuple.protocol = packet::Protocol::Udp;
    return tuple;
}

TEST(LeftConnections, GiveWayTheNeverAnsweredFirstAndThenTheOldest) {
    LeftConnections left(1);
    LeftConnections::Share alice;
    LeftConnections::Share bob;
    left.add(connection_of(1), Kind::Established, alice, kStart);
    left.add(connection_of(2), Kind::Short, alice, kStart);
    left.add(connection_of(3), Kind::Short, bob, kStart);
    left.add(connection_of(4), Kind::Short, alice, kStart);
    left.add(connection_of(5), Kind::Unanswered, alice, kStart);
    EXPECT_EQ(left.size(), 5U);
    EXPECT_EQ(alice.count(), 4U);
    for (const uint32_t number : {5U, 2U, 4U, 1U}) {
        EXPECT_EQ(left.take_oldest(alice), connection_of(number));
    }
    EXPECT_EQ(left.take_oldest(alice), std::nullopt);
    EXPECT_EQ(bob.count(), 1U);
}

TEST(LeftConnections, OneIsThereOnceWhoeverHasIt) {
    LeftConnections left(1);
    LeftConnections::Share alice;
    LeftConnections::Share bob;
    left.add(connection_of(1), Kind::Short, alice, kStart);
    left.add(connection_of(2), Kind::Short, alice, kStart);
    left.add(connection_of(1), Kind::Short, alice, kStart);
    EXPECT_EQ(alice.count(), 2U);
    EXPECT_EQ(left.take_oldest(alice), connection_of(2)) << "the other one is the newest again";
    left.add(connection_of(1), Kind::Established, bob, kStart);
    EXPECT_EQ(alice.count(), 0U);
    EXPECT_EQ(bob.count(), 1U);
    left.remove(connection_of(1));
    left.remove(connection_of(1));
    EXPECT_EQ(left.size(), 0U);
    EXPECT_EQ(bob.count(), 0U);
}

TEST(LeftConnections, LiveAsLongAsTheKernelRemembersThem) {
    LeftConnections left(1);
    LeftConnections::Share share;
    left.add(connection_of(1), Kind::Established, share, kStart);
    left.add(connection_of(2), Kind::Short, share, kStart);
    EXPECT_EQ(left.take_expired(share, kStart + LeftConnections::kShortLife - base::seconds(1)),
              std::nullopt);
    const base::TimePoint later = kStart + LeftConnections::kShortLife;
    EXPECT_EQ(left.take_expired(share, later), connection_of(2));
    EXPECT_EQ(left.take_expired(share, later), std::nullopt);
    EXPECT_EQ(left.take_expired(share, kStart + LeftConnections::kLongLife), connection_of(1));
    for (const host::SysctlSetting& setting : dataplane::conntrack_timeouts()) {
        const bool is_tcp = setting.key.find("_tcp_") != std::string::npos;
        const base::Duration life =
            is_tcp ? LeftConnections::kLongLife : LeftConnections::kShortLife;
        EXPECT_GE(life, base::seconds(std::stoi(setting.value))) << setting.key;
    }
}

TEST(LeftConnections, BeyondTheirLimitNoneStays) {
    LeftConnections left(1);
    LeftConnections::Share share;
    for (uint32_t i = 0; i < LeftConnections::kMost; ++i) {
        ASSERT_TRUE(left.add(connection_of(i), Kind::Short, share, kStart));
    }
    EXPECT_FALSE(left.add(connection_of(LeftConnections::kMost), Kind::Short, share, kStart));
    EXPECT_TRUE(left.add(connection_of(7), Kind::Short, share, kStart)) << "known";
    EXPECT_TRUE(left.take_oldest(share));
    EXPECT_TRUE(left.add(connection_of(LeftConnections::kMost), Kind::Short, share, kStart));
    EXPECT_EQ(share.count(), LeftConnections::kMost);
}

}  // namespace
}  // namespace continuo::snapt::relay
