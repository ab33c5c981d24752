#include "cnapt/names/resolv_conf.hpp"
#include "cnapt/settings/node_config.hpp"

#include <gtest/gtest.h>

namespace continuo::cnapt::names {
namespace {

std::vector<base::IpAddress> addresses(std::initializer_list<const char*> texts) {
    std::vector<base::IpAddress> list;
    for (const char* text : texts) {
        list.push_back(*base::IpAddress::parse(text));
    }
    return list;
}

TEST(ResolvConf, NamesItsServers) {
    EXPECT_EQ(name_servers("# c\nnameserver 192.0.2.1\r\n\tnameserver 192.0.2.9\n"
                           "nameserver\t2001:db8::1  # router\nsearch a.b\nnameserver x\n"
                           "nameserver fe80::1%eth0\n;nameserver 192.0.2.3\nnameservers 192.0.2.4"),
              addresses({"192.0.2.1", "2001:db8::1"}));
    EXPECT_EQ(name_servers("nameserver 192.0.2.1"), addresses({"192.0.2.1"}));
    EXPECT_TRUE(name_servers("").empty());
    EXPECT_TRUE(name_servers("nameserver").empty());
}

TEST(ResolvConf, NamesNoMoreServersThanAreAsked) {
    EXPECT_EQ(name_servers("nameserver 192.0.2.1\nnameserver 192.0.2.2\nnameserver 192.0.2.3\n"
                           "nameserver 192.0.2.4\n")
                  .size(),
              settings::kMaxNameServers);
}

TEST(ResolvConf, ThroughTheTunnelKeepsSearchListAndOptionsOnly) {
    const auto servers = addresses({"198.51.100.53", "2001:db8::53"});
    const std::string text = resolv_conf_through(
        servers,
        "nameserver 192.168.1.1\nsearch home.example lan\noptions edns0 rotate\nsortlist x\n",
        "/var/lib/cnapt/dns");
    EXPECT_EQ(text.substr(text.find("nameserver")),
              "nameserver 198.51.100.53\nnameserver 2001:db8::53\nsearch home.example lan\n"
              "options edns0 rotate\n");
    EXPECT_NE(text.find("/var/lib/cnapt/dns"), std::string::npos);
    EXPECT_EQ(name_servers(text), servers);
    EXPECT_TRUE(is_resolv_conf_of_tunnel(text));
    EXPECT_FALSE(is_resolv_conf_of_tunnel("nameserver 192.168.1.1\n"));
}

TEST(ResolvConf, TrustInOtherServersIsNotKept) {
    const auto servers = addresses({"198.51.100.53"});
    const std::string some = resolv_conf_through(
        servers, "nameserver 127.0.0.53\noptions edns0 trust-ad ndots:2\n", "k");
    EXPECT_NE(some.find("\noptions edns0 ndots:2\n"), std::string::npos);
    const std::string none = resolv_conf_through(servers, "options trust-ad\n", "k");
    EXPECT_EQ(none.find("options"), std::string::npos);
}

TEST(ResolvConf, SaysWhereTheOriginalIs) {
    const std::string text = resolv_conf_through(addresses({"198.51.100.53"}), "", "/var/lib/a b");
    EXPECT_EQ(kept_place(text), "/var/lib/a b");
    EXPECT_EQ(kept_place(text + "options rotate\n"), "/var/lib/a b");
    EXPECT_EQ(kept_place("# " + text), "");
    for (size_t length = 0; length < text.find("nameserver"); ++length) {
        EXPECT_EQ(kept_place(text.substr(0, length)), "") << length;
    }
}

TEST(ResolvConf, WhatIsNoTextIsNotKept) {
    const std::string text =
        resolv_conf_through(addresses({"198.51.100.53"}),
                            std::string("search a\0b\noptions \x1b[31m\nsearch c\n", 28), "k");
    EXPECT_EQ(text.find('\0'), std::string::npos);
    EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

TEST(ResolvConf, KnowsTheStubOfResolved) {
    EXPECT_TRUE(is_stub_of_resolved("nameserver 127.0.0.53\noptions edns0 trust-ad\nsearch .\n"));
    EXPECT_FALSE(is_stub_of_resolved("nameserver 127.0.0.1\n"));
    EXPECT_FALSE(is_stub_of_resolved("nameserver 127.0.0.53\nnameserver 192.0.2.1\n"));
}

}  // namespace
}  // namespace continuo::cnapt::names
