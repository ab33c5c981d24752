#include "common/control/control_link.hpp"
#include "common/control/handshake_limiter.hpp"

#include <string>
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
    base::SeededRandom random(1);
    HandshakeLimiter limiter(random);
    for (size_t i = 0; i < kMaxUnfinishedPerPrefix; ++i) {
        EXPECT_TRUE(limiter.begin(host(1), kStart));
    }
    EXPECT_FALSE(limiter.begin(host(1), kStart));
    EXPECT_TRUE(limiter.begin(host(2), kStart));
    EXPECT_EQ(limiter.refused(), 1U);
}

TEST(HandshakeLimiter, CountsIpv6By64) {
    base::SeededRandom random(1);
    HandshakeLimiter limiter(random);
    for (size_t i = 0; i < kMaxUnfinishedPerPrefix; ++i) {
        const std::string text = "2001:db8:0:1::" + std::to_string(i + 1);
        EXPECT_TRUE(limiter.begin(address(text.c_str()), kStart));
    }
    EXPECT_FALSE(limiter.begin(address("2001:db8:0:1:ffff::1"), kStart));
    EXPECT_TRUE(limiter.begin(address("2001:db8:0:2::1"), kStart));
}

TEST(HandshakeLimiter, InAFullTableOneGivesWay) {
    base::SeededRandom random(1);
    HandshakeLimiter limiter(random);
    std::vector<HandshakeLimiter::Ticket> tickets;
    for (uint32_t i = 0; i < kMaxUnfinishedHandshakes; ++i) {
        const auto admitted = limiter.begin(host(i), kStart);
        ASSERT_TRUE(admitted);
        EXPECT_EQ(admitted->displaced, 0U);
        tickets.push_back(admitted->ticket);
    }
    limiter.end(tickets[0]);
    EXPECT_EQ(limiter.begin(address("203.0.113.1"), kStart)->displaced, 0U) << "one was free";
    const auto displaced = limiter.begin(address("203.0.113.2"), kStart)->displaced;
    EXPECT_NE(displaced, 0U);
    EXPECT_EQ(limiter.unfinished(), kMaxUnfinishedHandshakes);
    limiter.end(displaced);
    EXPECT_EQ(limiter.unfinished(), kMaxUnfinishedHandshakes) << "its place is another's";
}

// Strangers from 32 addresses of each network, which never finish.
bool survives(base::Random& random, uint32_t networks, unsigned newcomers, const char* friendly) {
    HandshakeLimiter limiter(random);
    const auto stranger = [&](uint32_t number) {
        constexpr uint32_t kNetworkBits = 8;
        return base::IpAddress::v4(0xC6120000U + (number % networks << kNetworkBits) +
                                   number / networks % 32);
    };
    uint32_t number = 0;
    for (; number < kMaxUnfinishedHandshakes; ++number) {
        limiter.begin(stranger(number), kStart);
    }
    const auto ticket = limiter.begin(address(friendly), kStart)->ticket;
    for (unsigned i = 0; i < newcomers; ++i) {
        const auto admitted = limiter.begin(stranger(number++), kStart);
        if (admitted && admitted->displaced == ticket) {
            return false;
        }
    }
    return true;
}

TEST(HandshakeLimiter, ACrowdFromFewNetworksDisplacesItselfOnly) {
    for (const uint32_t networks : {1U, 4U, 64U}) {
        base::SeededRandom random(networks);
        EXPECT_TRUE(survives(random, networks, 10'000, "203.0.113.1")) << networks;
        EXPECT_TRUE(survives(random, networks, 10'000, "2001:db8::1")) << networks;
    }
}

TEST(HandshakeLimiter, OfACrowdFromEverywhereSomeOthersGetThrough) {
    base::SeededRandom random(1);
    unsigned survived = 0;
    constexpr unsigned kTries = 400;
    for (unsigned i = 0; i < kTries; ++i) {
        // As many newcomers as places: with the oldest giving way nobody would be left.
        survived += survives(random, 10'000, kMaxUnfinishedHandshakes, "203.0.113.1") ? 1U : 0U;
    }
    // 1 / e of them.
    EXPECT_GT(survived, kTries * 28 / 100);
    EXPECT_LT(survived, kTries * 46 / 100);
}

TEST(HandshakeLimiter, TwoOfANetworkAreNoCrowd) {
    unsigned survived = 0;
    constexpr unsigned kTries = 400;
    for (unsigned i = 0; i < kTries; ++i) {
        base::SeededRandom random(i + 1);
        HandshakeLimiter limiter(random);
        const auto first = limiter.begin(address("203.0.113.1"), kStart)->ticket;
        limiter.begin(address("203.0.113.2"), kStart);
        bool is_there = true;
        for (uint32_t n = 0; n < 2 * kMaxUnfinishedHandshakes; ++n) {
            const auto admitted =
                limiter.begin(base::IpAddress::v4(0xC6120000U + (n << 8U)), kStart);
            is_there = is_there && admitted->displaced != first;
        }
        survived += is_there ? 1U : 0U;
    }
    // 1 / e of them: the table is full after 254.
    EXPECT_GT(survived, kTries * 28 / 100);
    EXPECT_LT(survived, kTries * 46 / 100);
}

TEST(HandshakeLimiter, CountsNetworksOfIpv6By48) {
    base::SeededRandom random(1);
    HandshakeLimiter limiter(random);
    const auto ticket = limiter.begin(address("2001:db8:1::1"), kStart)->ticket;
    for (unsigned i = 0; i < 2000; ++i) {
        const std::string text = "2001:db8:2:" + std::to_string(i) + "::1";
        EXPECT_NE(limiter.begin(address(text.c_str()), kStart)->displaced, ticket);
    }
}

TEST(HandshakeLimiter, EndFreesOnceAndOnlyItsOwnTicket) {
    base::SeededRandom random(1);
    HandshakeLimiter limiter(random);
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
    base::SeededRandom random(1);
    HandshakeLimiter limiter(random);
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
