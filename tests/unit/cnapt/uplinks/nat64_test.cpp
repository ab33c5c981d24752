#include "cnapt/uplinks/nat64.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace continuo::cnapt::uplinks {
namespace {

using base::IpAddress;
using base::IpPrefix;

IpAddress parsed(std::string_view text) {
    return IpAddress::parse(text).value();
}

// RFC 6052, section 2.4.
struct Example {
    const char* prefix;
    const char* made;  // of 192.0.2.33
};
constexpr Example kExamples[] = {
    {"2001:db8::/32", "2001:db8:c000:221::"},
    {"2001:db8:100::/40", "2001:db8:1c0:2:21::"},
    {"2001:db8:122::/48", "2001:db8:122:c000:2:2100::"},
    {"2001:db8:122:300::/56", "2001:db8:122:3c0:0:221::"},
    {"2001:db8:122:344::/64", "2001:db8:122:344:c0:2:2100::"},
    {"2001:db8:122:344::/96", "2001:db8:122:344::192.0.2.33"},
    {"64:ff9b::/96", "64:ff9b::192.0.2.33"},
};

TEST(Nat64, AddressesAreMadeAsInTheExamplesOfRfc6052) {
    for (const Example& example : kExamples) {
        EXPECT_EQ(to_nat64(IpPrefix::parse(example.prefix).value(), parsed("192.0.2.33")),
                  parsed(example.made))
            << example.prefix;
    }
}

TEST(Nat64, ThePrefixIsFoundInWhatItMadeOfTheName) {
    for (const Example& example : kExamples) {
        const IpPrefix prefix = IpPrefix::parse(example.prefix).value();
        const IpAddress first = to_nat64(prefix, parsed("192.0.0.170"));
        const IpAddress second = to_nat64(prefix, parsed("192.0.0.171"));
        for (const std::vector<IpAddress>& answer :
             {std::vector{first, second}, std::vector{second}, std::vector{first}}) {
            EXPECT_EQ(nat64_prefix(answer), prefix) << example.prefix;
        }
    }
}

TEST(Nat64, WhatNoPrefixMadeHasNone) {
    EXPECT_EQ(nat64_prefix({}), std::nullopt);
    const std::vector<IpAddress> others = {parsed("192.0.0.170"), parsed("2001:db8::1"),
                                           parsed("64:ff9b::192.0.0.172")};
    EXPECT_EQ(nat64_prefix(others), std::nullopt);
    // The octet that is to be zero is not.
    const std::vector<IpAddress> reserved = {parsed("2001:db8:122:344:1c0:0:aa00::")};
    EXPECT_EQ(nat64_prefix(reserved), std::nullopt);
}

// A prefix that itself holds an address of the name.
TEST(Nat64, OfSeveralLengthsTheOneCountsThatFitsBothAddresses) {
    const IpPrefix odd = IpPrefix::parse("2001:db8:c000:aa::/64").value();
    const std::vector<IpAddress> answer = {to_nat64(odd, parsed("192.0.0.170")),
                                           to_nat64(odd, parsed("192.0.0.171"))};
    EXPECT_EQ(nat64_prefix(answer), odd) << "a prefix of 32 bits would fit, too";
}

TEST(Nat64, WhatARouterTellsComesFirstUntilItIsDoubted) {
    using netlink::KnownPref64;
    using netlink::Pref64Standing;
    const IpPrefix router = IpPrefix::parse("64:ff9b::/96").value();
    const IpPrefix server = IpPrefix::parse("2001:db8:64::/96").value();
    const KnownPref64 told{router, Pref64Standing::Told};
    const KnownPref64 again{router, Pref64Standing::ToldAgain};
    const KnownPref64 doubted{router, Pref64Standing::Doubted};
    EXPECT_EQ(choose_nat64({}, {}, {}), std::nullopt);
    EXPECT_EQ(choose_nat64({}, server, {}), server);
    for (const KnownPref64& one : {told, again, doubted}) {
        EXPECT_EQ(choose_nat64(one, {}, {}), router) << "better than none";
    }
    EXPECT_EQ(choose_nat64(told, server, server), router);
    EXPECT_EQ(choose_nat64(doubted, server, {}), server);
    EXPECT_EQ(choose_nat64(doubted, server, router), server);
    EXPECT_EQ(choose_nat64(again, server, server), server) << "what works is kept";
    EXPECT_EQ(choose_nat64(again, server, {}), router);
}

TEST(Nat64, AnAnswerWithoutAPrefixDisplacesNoneThatWorks) {
    using netlink::KnownPref64;
    using netlink::Pref64Standing;
    const IpPrefix router = IpPrefix::parse("64:ff9b::/96").value();
    const IpPrefix server = IpPrefix::parse("2001:db8:64::/96").value();
    const IpPrefix other = IpPrefix::parse("2001:db8:65::/96").value();
    EXPECT_EQ(choose_nat64({}, {}, server), server);
    EXPECT_EQ(choose_nat64(KnownPref64{router, Pref64Standing::Doubted}, {}, server), server);
    EXPECT_EQ(choose_nat64(KnownPref64{router, Pref64Standing::ToldAgain}, {}, server), server);
    EXPECT_EQ(choose_nat64(KnownPref64{router, Pref64Standing::Told}, {}, server), router);
    EXPECT_EQ(choose_nat64({}, other, server), other) << "an answer with another one does";
}

}  // namespace
}  // namespace continuo::cnapt::uplinks
