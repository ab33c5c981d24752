#include "common/control/control_link.hpp"
#include "common/control/handshake_limiter.hpp"

#include <vector>

#include <gtest/gtest.h>

namespace continuo::control {
namespace {

constexpr base::TimePoint kStart{base::seconds(10)};

base::IpAddress address(const char* text) {
    return *base::IpAddress::parse(text);
}
base::IpAddress host(uint32_t number) {
    return base::IpAddress::v4(0xC6336400U + number);
}

TEST(HandshakeLimiter, AllowsEightOfOneAddressAndOthersBesides) {
    HandshakeLimiter limiter;
    for (size_t i = 0; i < kMaxUnfinishedPerPrefix; ++i) {
        EXPECT_TRUE(limiter.begin(host(1), kStart));
    }
    EXPECT_FALSE(limiter.begin(host(1), kStart));
    EXPECT_TRUE(limiter.begin(host(2), kStart));
    EXPECT_EQ(limiter.refused(), 1U);
}

TEST(HandshakeLimiter, CountsIpv6By64) {
    HandshakeLimiter limiter;
    for (size_t i = 0; i < kMaxUnfinishedPerPrefix; ++i) {
        const std::string text = "2001:db8:0:1::" + std::to_string(i + 1);
        EXPECT_TRUE(limiter.begin(address(text.c_str()), kStart));
    }
    EXPECT_FALSE(limiter.begin(address("2001:db8:0:1:ffff::1"), kStart));
    EXPECT_TRUE(limiter.begin(address("2001:db8:0:2::1"), kStart));
}

TEST(HandshakeLimiter, TheOldestGivesWayInAFullTable) {
    HandshakeLimiter limiter;
    std::vector<HandshakeLimiter::Ticket> tickets;
    for (uint32_t i = 0; i < kMaxUnfinishedHandshakes; ++i) {
        const auto admitted = limiter.begin(host(i), kStart);
        ASSERT_TRUE(admitted);
        EXPECT_EQ(admitted->displaced, 0U);
        tickets.push_back(admitted->ticket);
    }
    limiter.end(tickets[0]);
    EXPECT_EQ(limiter.begin(address("203.0.113.1"), kStart)->displaced, 0U) << "one was free";
    EXPECT_EQ(limiter.begin(address("203.0.113.2"), kStart)->displaced, tickets[1]);
    EXPECT_EQ(limiter.begin(address("203.0.113.3"), kStart)->displaced, tickets[2]);
    EXPECT_EQ(limiter.unfinished(), kMaxUnfinishedHandshakes);
    limiter.end(tickets[1]);
    EXPECT_EQ(limiter.unfinished(), kMaxUnfinishedHandshakes) << "its place is another's";
}

TEST(HandshakeLimiter, EndFreesOnceAndOnlyItsOwnTicket) {
    HandshakeLimiter limiter;
    std::vector<HandshakeLimiter::Ticket> tickets;
    for (size_t i = 0; i < kMaxUnfinishedPerPrefix; ++i) {
        tickets.push_back(limiter.begin(host(1), kStart)->ticket);
    }
    limiter.end(tickets[3]);
    limiter.end(tickets[3]);
    limiter.end(0);
    EXPECT_EQ(limiter.unfinished(), kMaxUnfinishedPerPrefix - 1);
    EXPECT_TRUE(limiter.begin(host(1), kStart));
    EXPECT_FALSE(limiter.begin(host(1), kStart));
}

TEST(HandshakeLimiter, TakesBackAfterTheHandshakeTimeout) {
    HandshakeLimiter limiter;
    const auto old = limiter.begin(host(1), kStart);
    for (size_t i = 1; i < kMaxUnfinishedPerPrefix; ++i) {
        EXPECT_TRUE(limiter.begin(host(1), kStart + base::seconds(1)));
    }
    EXPECT_FALSE(limiter.begin(host(1), kStart + kHandshakeTimeout - base::Duration(1)));
    EXPECT_TRUE(limiter.begin(host(1), kStart + kHandshakeTimeout));
    limiter.end(old->ticket);  // its slot is another's now
    EXPECT_EQ(limiter.unfinished(), kMaxUnfinishedPerPrefix);
}

}  // namespace
}  // namespace continuo::control
