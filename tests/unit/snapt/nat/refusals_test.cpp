#include "snapt/nat/refusals.hpp"

#include <gtest/gtest.h>

namespace continuo::snapt::nat {
namespace {

using base::IpAddress;
using base::IpPrefix;
using packet::Protocol;

class RefusalsTest : public ::testing::Test {
  protected:
    RefusalsTest() {
        options_.lease_ipv4 = IpPrefix::parse("100.64.0.0/16");
        options_.lease_ipv6 = IpPrefix::parse("fd93:47::/64");
    }
    Refusals made() const {
        Refusals refusals(options_);
        refusals.set_local({ip("198.51.100.2"), ip("2001:db8:1::2"), ip("100.64.0.1"),
                            ip("198.51.100.3"), ip("127.0.0.1")});
        return refusals;
    }
    static IpAddress ip(const char* text) { return *IpAddress::parse(text); }
    static packet::FiveTuple
    to(const char* remote, Protocol protocol = Protocol::Udp, uint16_t port = 80) {
        packet::FiveTuple tuple;
        tuple.remote = ip(remote);
        tuple.remote_port = port;
        tuple.protocol = protocol;
        return tuple;
    }

    RelayOptions options_;
};

TEST_F(RefusalsTest, RefusesWhatTheRulesRefuse) {
    const Refusals refusals = made();
    for (const char* remote : {"0.0.0.1",      "10.1.1.1",          "10.255.255.255",
                               "127.0.0.1",    "169.254.169.254",   "172.31.255.255",
                               "192.168.0.1",  "224.0.0.1",         "255.255.255.255",
                               "::1",          "fd00::1",           "fe80::1",
                               "ff02::1",      "64:ff9b::10.1.1.1", "2002:a00:1::1",
                               "100.64.0.77",  "100.64.255.255",    "fd93:47::77",
                               "198.51.100.2", "198.51.100.3",      "2001:db8:1::2",
                               "100.64.0.1"}) {
        EXPECT_TRUE(refusals.refuses(to(remote))) << remote;
    }
    for (const char* remote : {"9.255.255.255", "11.0.0.0", "198.51.100.1", "198.51.100.4",
                               "203.0.113.10", "223.255.255.255", "100.128.0.0", "2001:db8:1::1",
                               "2001:db8:3::10", "64:ff9b::203.0.113.10", "2003::1", "fb00::1"}) {
        EXPECT_FALSE(refusals.refuses(to(remote))) << remote;
    }
}

TEST_F(RefusalsTest, WhatIsAllowedIsNotRefused) {
    options_.allow = {*IpPrefix::parse("10.1.0.0/16"), *IpPrefix::parse("fd00:1::/32")};
    options_.deny = {*IpPrefix::parse("203.0.113.0/28"), *IpPrefix::parse("2001:db8:3::/64")};
    const Refusals refusals = made();
    EXPECT_FALSE(refusals.refuses(to("10.1.1.1")));
    EXPECT_TRUE(refusals.refuses(to("10.0.255.255")));
    EXPECT_TRUE(refusals.refuses(to("10.2.0.0")));
    EXPECT_FALSE(refusals.refuses(to("fd00:1::1")));
    EXPECT_TRUE(refusals.refuses(to("fd00:2::1")));
    EXPECT_TRUE(refusals.refuses(to("203.0.113.10")));
    EXPECT_FALSE(refusals.refuses(to("203.0.113.16")));
    EXPECT_TRUE(refusals.refuses(to("2001:db8:3::10")));
}

TEST_F(RefusalsTest, AServiceOfThisHostIsNotRefusedWhereItIsAllowed) {
    for (const char* service : {"tcp/22", "udp/5000-5010", "ping"}) {
        options_.allow_self.push_back(*settings::SelfService::parse(service));
    }
    const Refusals refusals = made();
    for (const char* self : {"198.51.100.2", "100.64.0.1"}) {  // the latter is in a denied prefix
        EXPECT_FALSE(refusals.refuses(to(self, Protocol::Tcp, 22)));
        EXPECT_TRUE(refusals.refuses(to(self, Protocol::Udp, 22)));
        EXPECT_FALSE(refusals.refuses(to(self, Protocol::Udp, 5000)));
        EXPECT_FALSE(refusals.refuses(to(self, Protocol::Udp, 5010)));
        EXPECT_TRUE(refusals.refuses(to(self, Protocol::Udp, 5011)));
        EXPECT_TRUE(refusals.refuses(to(self, Protocol::Udp, 4999)));
        EXPECT_FALSE(refusals.refuses(to(self, Protocol::Icmp, 0)));
    }
    EXPECT_FALSE(refusals.refuses(to("2001:db8:1::2", Protocol::IcmpV6, 0)));
    EXPECT_TRUE(refusals.refuses(to("100.64.0.9", Protocol::Tcp, 22))) << "another node's";
    EXPECT_TRUE(refusals.refuses(to("10.1.1.1", Protocol::Icmp, 0)));
}

TEST_F(RefusalsTest, WithoutAPrefixOfAVersionNothingElseChanges) {
    options_.lease_ipv6.reset();
    EXPECT_FALSE(made().refuses(to("2001:db8:3::10")));
    EXPECT_TRUE(made().refuses(to("fd93:47::77"))) << "ULA";
    EXPECT_FALSE(Refusals().refuses(to("10.1.1.1"))) << "nothing is set";
}

TEST(LocalAddresses, HaveThoseOfLoopback) {
    const auto addresses = local_addresses();
    ASSERT_TRUE(addresses);
    for (const char* text : {"127.0.0.1", "127.255.255.255"}) {
        EXPECT_NE(std::find(addresses->begin(), addresses->end(), *IpAddress::parse(text)),
                  addresses->end())
            << text;
    }
}

}  // namespace
}  // namespace continuo::snapt::nat
