#include "cnapt/uplinks/plain_places.hpp"

#include <gtest/gtest.h>

namespace continuo::cnapt::uplinks {
namespace {

using base::IpAddress;
using base::IpPrefix;
using Prefixes = std::vector<IpPrefix>;

Prefixes prefixes(std::initializer_list<std::string_view> texts) {
    Prefixes list;
    for (const std::string_view text : texts) {
        list.push_back(IpPrefix::parse(text).value());
    }
    return list;
}

Prefixes denied(const std::vector<Prefixes>& told) {
    std::vector<const Prefixes*> lists;
    for (const Prefixes& list : told) {
        lists.push_back(&list);
    }
    return denied_by_all(lists);
}

TEST(PlainPlaces, AreWhatEverySnaptDenies) {
    EXPECT_EQ(denied({}), Prefixes{});
    const Prefixes usual = prefixes({"10.0.0.0/8", "192.168.0.0/16", "fc00::/7"});
    EXPECT_EQ(denied({usual}), usual);
    EXPECT_EQ(denied({usual, {}}), Prefixes{}) << "an older one tells nothing";
    EXPECT_EQ(denied({usual, prefixes({"10.64.0.0/10", "fd00::/8", "172.16.0.0/12"})}),
              prefixes({"10.64.0.0/10", "fd00::/8"}));
    EXPECT_EQ(denied({prefixes({"10.64.0.0/10"}), usual}), prefixes({"10.64.0.0/10"}));
}

TEST(PlainPlaces, ArePrivateWhateverIsTold) {
    EXPECT_EQ(denied({prefixes({"0.0.0.0/0", "8.0.0.0/7", "203.0.113.0/24", "10.9.0.0/16", "::/0",
                                "2001:db8::/32"})}),
              prefixes({"10.9.0.0/16"}));
}

TEST(PlainPlaces, AreNamedByTheirRanges) {
    using Ranges = std::vector<std::string>;
    EXPECT_EQ(private_ranges({}), Ranges{});
    EXPECT_EQ(
        private_ranges(prefixes({"100.65.0.0/16", "10.0.0.0/8", "100.66.0.0/15", "fd00::/8"})),
        (Ranges{"10.0.0.0/8", "parts of 100.64.0.0/10", "parts of fc00::/7"}));
    EXPECT_EQ(private_ranges(prefixes({"0.0.0.0/1"})), (Ranges{"10.0.0.0/8", "100.64.0.0/10"}));
}

TEST(PlainPlaces, AreCoveredByWhatIsNotSmaller) {
    const Prefixes outer = prefixes({"10.53.0.0/16", "fd00::/8"});
    EXPECT_TRUE(is_covered(outer, prefixes({"10.53.0.0/16"})[0]));
    EXPECT_TRUE(is_covered(outer, prefixes({"fd00:9::/32"})[0]));
    EXPECT_FALSE(is_covered(outer, prefixes({"10.0.0.0/8"})[0]));
    EXPECT_FALSE(is_covered(outer, prefixes({"10.54.0.0/16"})[0]));
}

TEST(PlainPlaces, NearAreThePrivateDestinationsOfRoutes) {
    netlink::NetSnapshot network;
    for (const char* text : {"0.0.0.0/0", "192.168.1.0/24", "203.0.113.0/24", "fd00:9::/48"}) {
        netlink::RouteEntry route;
        route.destination = IpPrefix::parse(text).value();
        network.routes.push_back(route);
    }
    Prefixes near;
    add_near_prefixes(network, near);
    EXPECT_EQ(near, prefixes({"192.168.1.0/24", "fd00:9::/48"}));
    EXPECT_TRUE(is_in(near, IpAddress::parse("192.168.1.1").value()));
    EXPECT_FALSE(is_in(near, IpAddress::parse("192.168.2.1").value()));
}

TEST(PlainPlaces, ANetworkIsKnownByItsGatewaysAndAddresses) {
    netlink::NetSnapshot network;
    const auto add_route = [&](uint32_t index, std::string_view to, std::string_view gateway) {
        netlink::RouteEntry route;
        route.interface_index = index;
        route.destination = IpPrefix::parse(to).value();
        route.gateway = IpAddress::parse(gateway);
        network.routes.push_back(route);
    };
    add_route(2, "0.0.0.0/0", "192.168.1.1");
    network.addresses.push_back({2, IpAddress::parse("192.168.1.9").value(), 24});
    const NetworkMarks home = network_marks(network);
    add_route(3, "172.17.0.0/16", "");
    network.addresses.push_back({3, IpAddress::parse("172.17.0.1").value(), 16});
    EXPECT_EQ(network_marks(network), home) << "a bridge came";
    network.addresses[0].address = IpAddress::parse("192.168.1.10").value();
    EXPECT_NE(network_marks(network), home);
    network.addresses[0].address = IpAddress::parse("192.168.1.9").value();
    EXPECT_EQ(network_marks(network), home);
    network.routes[0].gateway = IpAddress::parse("192.168.2.1");
    EXPECT_NE(network_marks(network), home);
}

}  // namespace
}  // namespace continuo::cnapt::uplinks
