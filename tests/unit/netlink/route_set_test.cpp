#include "common/netlink/route_set.hpp"

#include <algorithm>

#include <gtest/gtest.h>

namespace continuo::netlink {
namespace {

using base::IpAddress;
using base::IpPrefix;

constexpr uint32_t kUplink = 2;
constexpr uint32_t kOther = 3;

uint8_t is_ten(const RouteEntry& route) {
    const IpAddress& to = route.destination.address;
    return to.is_v4() && to.octets[0] == 10 ? 1 : 0;
}

RouteEntry route(const std::string& to, uint32_t interface, uint32_t metric = 0) {
    RouteEntry entry;
    entry.destination = IpPrefix::parse(to).value();
    entry.interface_index = interface;
    entry.metric = metric;
    return entry;
}

RouteChange added(RouteEntry entry) {
    RouteChange change;
    change.hops = {std::move(entry)};
    return change;
}

RouteChange removed(RouteEntry entry) {
    RouteChange change = added(std::move(entry));
    change.is_removal = true;
    return change;
}

RouteEntry host_route(size_t number, uint32_t interface) {
    return route("20.0." + std::to_string(number / 256) + "." + std::to_string(number % 256),
                 interface);
}

class RouteSetTest : public ::testing::Test {
  protected:
    void add_many(size_t count, uint32_t interface = kOther) {
        for (size_t i = 0; i < count; ++i) {
            set_.apply(added(host_route(i, interface)));
        }
    }
    bool has(const RouteEntry& entry) const {
        const auto list = set_.list();
        return std::find(list.begin(), list.end(), entry) != list.end();
    }
    RouteSet set_{RouteInterest{{IpAddress::parse("198.51.100.2").value()}, is_ten}};
};

TEST_F(RouteSetTest, WhatDecidesIsKeptHoweverManyThereAre) {
    add_many(10000);
    EXPECT_EQ(set_.list().size(), kRoutesOfKind);
    EXPECT_EQ(set_.left_out(), 10000 - kRoutesOfKind);
    for (const char* to : {"198.51.100.2", "198.51.100.0/24", "0.0.0.0/0", "128.0.0.0/1"}) {
        set_.apply(added(route(to, kOther)));
        EXPECT_TRUE(has(route(to, kOther))) << to;
        set_.apply(removed(route(to, kOther)));
        EXPECT_FALSE(has(route(to, kOther))) << to;
    }
    EXPECT_FALSE(set_.needs_list());
}

TEST_F(RouteSetTest, OfEachKindSomeAreKept) {
    add_many(1000);
    for (const RouteEntry& entry : {route("10.1.0.0/16", kOther), route("20.1.0.0/16", kUplink),
                                    route("2001:db8::/32", kOther)}) {
        set_.apply(added(entry));
        EXPECT_TRUE(has(entry)) << entry.destination.to_string();
    }
    EXPECT_LE(set_.list().size(), kRoutesOfKind + 3);
}

TEST_F(RouteSetTest, AKindOfWhichMoreWereLeftOutIsListedWhenFewAreLeft) {
    add_many(kRoutesOfKind + 1);
    for (size_t i = 0; i <= kRoutesOfKind - kFewestOfKind; ++i) {
        EXPECT_FALSE(set_.needs_list());
        EXPECT_GE(set_.list().size(), kFewestOfKind);
        set_.apply(removed(host_route(i, kOther)));
    }
    EXPECT_TRUE(set_.needs_list());
}

TEST_F(RouteSetTest, AKindThatWasWholeGoesWithoutAList) {
    add_many(kRoutesOfKind);
    for (size_t i = 0; i < kRoutesOfKind; ++i) {
        set_.apply(removed(host_route(i, kOther)));
    }
    EXPECT_FALSE(set_.needs_list());
    EXPECT_TRUE(set_.list().empty());
}

TEST_F(RouteSetTest, AReplacedRouteIsGone) {
    set_.apply(added(route("0.0.0.0/0", kUplink, 100)));
    set_.apply(added(route("0.0.0.0/0", kUplink, 200)));
    RouteChange change = added(route("0.0.0.0/0", kOther, 100));
    change.replaces = true;
    set_.apply(change);
    EXPECT_FALSE(has(route("0.0.0.0/0", kUplink, 100)));
    EXPECT_TRUE(has(route("0.0.0.0/0", kOther, 100)));
    EXPECT_TRUE(has(route("0.0.0.0/0", kUplink, 200)));
    change.hops.front().type = RouteType::Blackhole;
    set_.apply(change);
    EXPECT_FALSE(has(route("0.0.0.0/0", kOther, 100)));
    EXPECT_FALSE(set_.needs_list());
}

TEST_F(RouteSetTest, WhichOfSeveralWasReplacedOnlyAListTells) {
    set_.apply(added(route("2001:db8::/32", kUplink, 1024)));
    set_.apply(added(route("2001:db8::/32", kOther, 1024)));
    RouteChange change = added(route("2001:db8::/32", 7, 1024));
    change.replaces = true;
    set_.apply(change);
    EXPECT_TRUE(set_.needs_list());
}

TEST_F(RouteSetTest, TypesOfServiceAreApart) {
    RouteChange special = added(route("0.0.0.0/0", kUplink));
    special.type_of_service = 4;
    set_.apply(added(route("0.0.0.0/0", kUplink)));
    set_.apply(special);
    EXPECT_EQ(set_.list().size(), 1U);
    special.is_removal = true;
    set_.apply(special);
    EXPECT_TRUE(has(route("0.0.0.0/0", kUplink)));
}

TEST_F(RouteSetTest, RoutesGoWithTheirLink) {
    set_.apply(added(route("0.0.0.0/0", kUplink)));
    set_.apply(added(route("::/0", kUplink)));
    set_.apply(added(route("0.0.0.0/0", kOther)));
    set_.remove_of_link(kUplink);
    EXPECT_EQ(set_.list(), std::vector{route("0.0.0.0/0", kOther)});
    EXPECT_FALSE(set_.needs_list());
}

TEST_F(RouteSetTest, ARouteWithSeveralNextHopsMayStayWithoutOneOfTheirLinks) {
    RouteChange change;
    change.hops = {route("0.0.0.0/0", kUplink), route("0.0.0.0/0", kOther)};
    set_.apply(change);
    EXPECT_EQ(set_.list().size(), 2U);
    set_.remove_of_link(kUplink);
    EXPECT_TRUE(set_.needs_list());
    EXPECT_TRUE(has(route("0.0.0.0/0", kOther)));
}

TEST_F(RouteSetTest, AnAddressThatGoesMakesItsRoutesDoubtful) {
    const IpAddress own = IpAddress::parse("192.0.2.5").value();
    RouteEntry of_kernel = route("192.0.2.0/24", kUplink);
    of_kernel.protocol = 2;
    set_.apply(added(of_kernel));
    set_.doubt_routes_of(kUplink, own);
    EXPECT_FALSE(set_.needs_list());  // the kernel tells of its own
    RouteEntry preferring = route("0.0.0.0/0", kOther);
    preferring.preferred_source = own;
    set_.apply(added(preferring));
    set_.doubt_routes_of(kUplink, own);
    EXPECT_TRUE(set_.needs_list());
}

TEST_F(RouteSetTest, ANewDestinationNeedsAListOnlyWhereRoutesWereLeftOut) {
    set_.apply(added(route("203.0.113.0/24", kOther)));
    set_.set_destinations({IpAddress::parse("203.0.113.9").value()});
    EXPECT_FALSE(set_.needs_list());
    EXPECT_TRUE(has(route("203.0.113.0/24", kOther)));
    add_many(1000);
    set_.set_destinations({IpAddress::parse("203.0.113.9").value()});
    EXPECT_FALSE(set_.needs_list());
    set_.set_destinations({IpAddress::parse("20.0.3.1").value()});
    EXPECT_TRUE(set_.needs_list());
    EXPECT_TRUE(has(route("203.0.113.0/24", kOther)));  // of another kind no more than of that
}

TEST_F(RouteSetTest, SaysWhatOfItWasTouched) {
    set_.apply(added(route("0.0.0.0/0", kUplink)));
    EXPECT_TRUE(set_.take_touched().is_deciding);
    EXPECT_FALSE(set_.take_touched().is_deciding);
    add_many(kRoutesOfKind);
    const RouteSet::Touched touched = set_.take_touched();
    EXPECT_TRUE(touched.is_other);
    EXPECT_FALSE(touched.is_deciding);
    add_many(1000);  // those beyond
    EXPECT_FALSE(set_.take_touched().is_other);
}

TEST_F(RouteSetTest, ItsSizeIsLimitedAndWhatIsBeyondCounted) {
    for (uint32_t metric = 0; metric < kMaxDecidingRoutes + 3; ++metric) {
        set_.apply(added(route("0.0.0.0/0", kUplink, metric)));
    }
    EXPECT_EQ(set_.list().size(), kMaxDecidingRoutes);
    EXPECT_EQ(set_.unseen_deciding(), 3U);
    for (uint32_t interface = 10; interface < 10 + kMaxOtherRoutes + 3; ++interface) {
        set_.apply(added(route("20.0.0.0/8", interface)));
    }
    EXPECT_EQ(set_.list().size(), kMaxDecidingRoutes + kMaxOtherRoutes);
    EXPECT_EQ(set_.left_out(), 3U);
    EXPECT_FALSE(set_.needs_list());
    set_.apply(removed(route("20.0.0.0/8", 10)));
    EXPECT_TRUE(set_.needs_list());  // there is room for those that were left out
}

}  // namespace
}  // namespace continuo::netlink
