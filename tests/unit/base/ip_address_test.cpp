#include "common/base/ip_address.hpp"

#include <unordered_set>

#include <gtest/gtest.h>

namespace continuo::base {
namespace {

TEST(IpAddress, TextRoundTrips) {
    for (const char* text : {"0.0.0.0", "192.0.2.255", "255.255.255.255", "::", "::1",
                             "2001:db8::1", "fe80::1:2:3:4"}) {
        const std::optional<IpAddress> address = IpAddress::parse(text);
        ASSERT_TRUE(address.has_value()) << text;
        EXPECT_EQ(address->to_string(), text);
        EXPECT_EQ(address->bytes().size(), address->is_v4() ? 4U : 16U);
    }
}

TEST(IpAddress, RefusesOtherText) {
    for (const char* text : {"", "192.0.2", "192.0.2.256", "192.0.2.1 ", "192.0.2.1.1",
                             ":::", "2001:db8::1%eth0", "[::1]", "localhost", "192.0.2.1/24"}) {
        EXPECT_FALSE(IpAddress::parse(text).has_value()) << text;
    }
}

TEST(IpAddress, MakesV4FromBothForms) {
    const std::array<uint8_t, 4> octets = {192, 0, 2, 9};
    const IpAddress address = IpAddress::v4(octets);
    EXPECT_EQ(address, IpAddress::v4(0xC0000209));
    EXPECT_EQ(address, IpAddress::parse("192.0.2.9"));
    EXPECT_EQ(address.to_v4(), 0xC0000209);
}

TEST(IpAddress, KnowsSpecialAddresses) {
    const auto parse = [](const char* text) { return *IpAddress::parse(text); };
    EXPECT_TRUE(parse("0.0.0.0").is_unspecified());
    EXPECT_TRUE(parse("::").is_unspecified());
    EXPECT_FALSE(parse("::1").is_unspecified());
    EXPECT_EQ(IpAddress::any(IpVersion::V6), parse("::"));
    EXPECT_NE(IpAddress::any(IpVersion::V6), IpAddress::any(IpVersion::V4));
    EXPECT_TRUE(parse("127.3.2.1").is_loopback());
    EXPECT_TRUE(parse("::1").is_loopback());
    EXPECT_FALSE(parse("128.0.0.1").is_loopback());
    EXPECT_FALSE(parse("::2").is_loopback());
    EXPECT_TRUE(parse("169.254.0.1").is_link_local());
    EXPECT_TRUE(parse("febf::1").is_link_local());
    EXPECT_FALSE(parse("fec0::1").is_link_local());
    EXPECT_FALSE(parse("169.253.0.1").is_link_local());
}

TEST(IpAddress, HashSeparatesVersionsAndNeighbours) {
    std::unordered_set<IpAddress> addresses;
    std::unordered_set<size_t> hashes;
    for (uint32_t i = 0; i < 1000; ++i) {
        addresses.insert(IpAddress::v4(i));
        hashes.insert(hash_value(IpAddress::v4(i)));
    }
    hashes.insert(hash_value(IpAddress::any(IpVersion::V6)));
    EXPECT_EQ(addresses.size(), 1000U);
    EXPECT_EQ(hashes.size(), 1001U);
}

TEST(Endpoint, TextRoundTrips) {
    for (const char* text : {"192.0.2.1:9347", "[2001:db8::1]:9347", "[::]:0", "0.0.0.0:65535"}) {
        const std::optional<Endpoint> endpoint = Endpoint::parse(text);
        ASSERT_TRUE(endpoint.has_value()) << text;
        EXPECT_EQ(endpoint->to_string(), text);
    }
}

TEST(Endpoint, RefusesOtherText) {
    for (const char* text :
         {"", "192.0.2.1", "192.0.2.1:", "192.0.2.1:65536", "192.0.2.1:-1", "192.0.2.1:1x",
          "[192.0.2.1]:1", "2001:db8::1:9347", "[2001:db8::1]", "[2001:db8::1:9347", ":1"}) {
        EXPECT_FALSE(Endpoint::parse(text).has_value()) << text;
    }
}

TEST(IpPrefix, TextRoundTrips) {
    for (const char* text : {"198.51.100.0/24", "0.0.0.0/0", "192.0.2.1/32", "2001:db8::/32",
                             "::/0", "2001:db8::1/128", "192.0.2.128/25"}) {
        const std::optional<IpPrefix> prefix = IpPrefix::parse(text);
        ASSERT_TRUE(prefix.has_value()) << text;
        EXPECT_EQ(prefix->to_string(), text);
    }
    EXPECT_EQ(IpPrefix::parse("192.0.2.1")->length, 32);
}

TEST(IpPrefix, RefusesOtherText) {
    for (const char* text : {"192.0.2.1/24", "192.0.2.0/33", "192.0.2.0/", "192.0.2.0/x",
                             "2001:db8::1/64", "::/129", "/24", "192.0.2.0/24/24"}) {
        EXPECT_FALSE(IpPrefix::parse(text).has_value()) << text;
    }
}

TEST(IpPrefix, ContainsExactlyItsAddresses) {
    const auto contains = [](const char* prefix, const char* address) {
        return IpPrefix::parse(prefix)->contains(*IpAddress::parse(address));
    };
    EXPECT_TRUE(contains("192.0.2.128/25", "192.0.2.128"));
    EXPECT_TRUE(contains("192.0.2.128/25", "192.0.2.255"));
    EXPECT_FALSE(contains("192.0.2.128/25", "192.0.2.127"));
    EXPECT_FALSE(contains("192.0.2.128/25", "192.0.3.128"));
    EXPECT_TRUE(contains("0.0.0.0/0", "255.255.255.255"));
    EXPECT_FALSE(contains("0.0.0.0/0", "::"));
    EXPECT_TRUE(contains("2001:db8::/33", "2001:db8:7fff::1"));
    EXPECT_FALSE(contains("2001:db8::/33", "2001:db8:8000::1"));
    EXPECT_TRUE(contains("2001:db8::1/128", "2001:db8::1"));
    EXPECT_FALSE(contains("2001:db8::1/128", "2001:db8::2"));
}

}  // namespace
}  // namespace continuo::base
