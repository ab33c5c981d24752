#include "common/netlink/netlink_route.hpp"
#include "tests/support/net_namespace.hpp"

#include <algorithm>
#include <cerrno>

#include <linux/if_addr.h>

namespace continuo::netlink {
namespace {

using base::Errc;
using base::IpAddress;
using base::IpPrefix;
using base::IpVersion;

IpAddress address(std::string_view text) {
    return IpAddress::parse(text).value();
}
IpPrefix prefix(std::string_view text) {
    return IpPrefix::parse(text).value();
}

class RouteClientTest : public test::NetNamespaceTest {
  protected:
    void SetUp() override {
        test::NetNamespaceTest::SetUp();
        if (IsSkipped()) {
            return;
        }
        ASSERT_TRUE(net().shell("ip link add d0 type veth peer name p0 && ip link set p0 up"));
        auto opened = RouteClient::open();
        ASSERT_TRUE(opened);
        client_ = std::move(*opened);
        index_ = *client_->interface_index("d0");
    }
    void TearDown() override {
        client_.reset();
        test::NetNamespaceTest::TearDown();
    }
    void set_up() {
        LinkSettings settings;
        settings.up = true;
        ASSERT_TRUE(client_->set_link(index_, settings));
    }
    std::optional<RouteClient> client_;
    uint32_t index_ = 0;
};

TEST_F(RouteClientTest, LinkSettingsTakeEffectAndTheRestStays) {
    LinkSettings settings;
    settings.up = true;
    settings.mtu = 1400;
    settings.transmit_queue_length = 77;
    settings.group = 9347;
    settings.alias = "left here";
    ASSERT_TRUE(client_->set_link(index_, settings));
    ASSERT_TRUE(client_->set_link(index_, {}));
    auto links = client_->links();
    ASSERT_TRUE(links);
    auto link = std::find_if(links->begin(), links->end(),
                             [&](const LinkEntry& entry) { return entry.index == index_; });
    ASSERT_NE(link, links->end());
    EXPECT_EQ(link->alias, "left here");
    EXPECT_EQ(link->name, "d0");
    EXPECT_TRUE(link->is_up);
    EXPECT_FALSE(link->is_loopback);
    EXPECT_EQ(link->mtu, 1400U);
    EXPECT_EQ(link->group, 9347U);
    EXPECT_TRUE(net().shell("ip link show d0 | grep -q 'qlen 77'"));
    LinkSettings without_alias;
    without_alias.alias = "";
    ASSERT_TRUE(client_->set_link(index_, without_alias));
    EXPECT_TRUE(net().shell("! ip link show d0 | grep alias"));
}

TEST_F(RouteClientTest, AddressesAreUsableAtOnceAndAddingTwiceIsNoError) {
    set_up();
    for (int i = 0; i < 2; ++i) {
        ASSERT_TRUE(client_->add_address(index_, address("192.0.2.5"), 32));
        ASSERT_TRUE(client_->add_address(index_, address("2001:db8::5"), 64));
    }
    EXPECT_TRUE(net().shell("ip -6 addr show d0 | grep '2001:db8::5/64' | grep -v -q tentative"));
    const auto has = [&](std::string_view text) {
        const auto list = client_->addresses();
        return list && std::any_of(list->begin(), list->end(), [&](const AddressEntry& entry) {
                   return entry.address == address(text) && entry.interface_index == index_;
               });
    };
    EXPECT_TRUE(has("192.0.2.5"));
    EXPECT_TRUE(has("2001:db8::5"));
    ASSERT_TRUE(client_->remove_address(index_, address("192.0.2.5"), 32));
    EXPECT_FALSE(has("192.0.2.5"));
    const auto again = client_->remove_address(index_, address("192.0.2.5"), 32);
    ASSERT_FALSE(again);
    EXPECT_EQ(again.error().code, Errc::NotFound);
    EXPECT_EQ(again.error().sys_errno, EADDRNOTAVAIL);
}

TEST_F(RouteClientTest, AnAddressBecomesDeprecatedAndUsualAgain) {
    set_up();
    for (const bool is_deprecated : {true, false, true}) {
        ASSERT_TRUE(client_->add_address(index_, address("2001:db8::5"), 128, is_deprecated));
        const auto entries = client_->addresses();
        ASSERT_TRUE(entries);
        const auto found = std::find_if(entries->begin(), entries->end(), [](const auto& entry) {
            return entry.address == address("2001:db8::5");
        });
        ASSERT_NE(found, entries->end());
        EXPECT_EQ((found->flags & IFA_F_DEPRECATED) != 0, is_deprecated);
    }
}

TEST_F(RouteClientTest, OwnRoutesOfATableGoAndOthersStay) {
    set_up();
    ASSERT_TRUE(client_->add_address(index_, address("192.0.2.5"), 32));
    ASSERT_TRUE(client_->add_address(index_, address("2001:db8::5"), 128));
    for (const auto& [to, source] :
         {std::pair("0.0.0.0/0", "192.0.2.5"), std::pair("::/0", "2001:db8::5")}) {
        RouteEntry route;
        route.destination = prefix(to);
        route.interface = "d0";
        route.preferred_source = address(source);
        route.table = 9347;
        ASSERT_TRUE(client_->set_route(route)) << client_->last_error_text();
        ASSERT_TRUE(client_->set_route(route)) << client_->last_error_text();
        const auto listed = client_->routes(route.destination.address.version, 9347);
        ASSERT_TRUE(listed);
        ASSERT_EQ(listed->size(), 1U);
        EXPECT_EQ(listed->front().destination, route.destination);
        EXPECT_EQ(listed->front().preferred_source, route.preferred_source);
        EXPECT_EQ(listed->front().interface_index, index_);
        EXPECT_EQ(listed->front().protocol, kRouteProtocol);
    }
    ASSERT_TRUE(net().shell("ip route add 198.51.100.0/24 dev d0 table 9347"));
    const auto removed = client_->remove_own_routes(9347);
    ASSERT_TRUE(removed);
    EXPECT_EQ(*removed, 2U);
    EXPECT_EQ(client_->routes(IpVersion::V4, 9347)->size(), 1U);
    EXPECT_TRUE(client_->routes(IpVersion::V6, 9347)->empty());
    EXPECT_TRUE(client_->routes(IpVersion::V4, 12345)->empty());
}

TEST_F(RouteClientTest, UnreachableAndGatewayRoutesAreListedAsSet) {
    set_up();
    ASSERT_TRUE(client_->add_address(index_, address("192.0.2.5"), 24));
    RouteEntry gateway;
    gateway.destination = prefix("198.51.100.0/24");
    gateway.interface_index = index_;
    gateway.gateway = address("192.0.2.1");
    gateway.metric = 50;
    gateway.table = 100;
    ASSERT_TRUE(client_->set_route(gateway)) << client_->last_error_text();
    RouteEntry unreachable;
    unreachable.destination = prefix("203.0.113.0/24");
    unreachable.type = RouteType::Unreachable;
    unreachable.table = 100;
    ASSERT_TRUE(client_->set_route(unreachable)) << client_->last_error_text();
    const auto listed = client_->routes(IpVersion::V4, 100);
    ASSERT_TRUE(listed);
    ASSERT_EQ(listed->size(), 2U);
    EXPECT_EQ(listed->at(0), gateway);
    EXPECT_EQ(listed->at(1), unreachable);
}

RuleEntry full_rule(IpVersion version) {
    RuleEntry rule;
    rule.version = version;
    rule.priority = 9350;
    rule.table = 9347;
    rule.fwmark = 0x9347;
    rule.from = prefix(version == IpVersion::V4 ? "192.0.2.0/24" : "2001:db8::/64");
    rule.to = prefix(version == IpVersion::V4 ? "198.51.100.0/24" : "2001:db8:1::/64");
    rule.input_interface = "d0";
    rule.ip_protocol = 17;
    rule.source_ports = NumberRange{1000, 1010};
    rule.destination_ports = NumberRange{53, 53};
    rule.users = NumberRange{1000, 1001};
    rule.suppress_prefix_length = 0;
    rule.suppress_group = 0;
    rule.find_source = version == IpVersion::V6;
    return rule;
}

TEST_F(RouteClientTest, RulesAreListedAsAddedAndAddingTwiceKeepsOne) {
    for (const IpVersion version : {IpVersion::V4, IpVersion::V6}) {
        const RuleEntry rule = full_rule(version);
        ASSERT_TRUE(client_->add_rule(rule)) << client_->last_error_text();
        ASSERT_TRUE(client_->add_rule(rule)) << client_->last_error_text();
        const auto listed = client_->rules(version);
        ASSERT_TRUE(listed);
        EXPECT_EQ(std::count(listed->begin(), listed->end(), rule), 1);
        ASSERT_TRUE(client_->remove_rule(rule)) << client_->last_error_text();
        const auto again = client_->remove_rule(rule);
        ASSERT_FALSE(again);
        EXPECT_EQ(again.error().code, Errc::NotFound);
    }
}

TEST_F(RouteClientTest, UnspecifiedSourceIsARuleOfItsOwn) {
    RuleEntry rule;
    rule.priority = 9351;
    rule.table = 9347;
    rule.from = prefix("0.0.0.0/32");
    ASSERT_TRUE(client_->add_rule(rule)) << client_->last_error_text();
    const auto listed = client_->rules(IpVersion::V4);
    ASSERT_TRUE(listed);
    EXPECT_EQ(std::count(listed->begin(), listed->end(), rule), 1);
    EXPECT_TRUE(net().shell("ip rule | grep -q 'from 0.0.0.0 lookup 9347'"));
}

TEST_F(RouteClientTest, OwnRulesInTheRangeGoAndOthersStay) {
    const auto count = [&](IpVersion version) { return client_->rules(version)->size(); };
    const size_t before4 = count(IpVersion::V4);
    const size_t before6 = count(IpVersion::V6);
    ASSERT_TRUE(net().shell("ip rule add fwmark 7 lookup main priority 9350"));
    for (const IpVersion version : {IpVersion::V4, IpVersion::V6}) {
        RuleEntry end;
        end.version = version;
        end.priority = 9362;
        end.action = RuleAction::Nothing;
        RuleEntry jump = full_rule(version);
        jump.action = RuleAction::Goto;
        jump.table = kMainTable;
        jump.target = 9362;
        jump.suppress_prefix_length.reset();
        jump.suppress_group.reset();
        ASSERT_TRUE(client_->add_rule(end)) << client_->last_error_text();
        ASSERT_TRUE(client_->add_rule(jump)) << client_->last_error_text();
        const auto listed = client_->rules(version).value();
        for (const RuleEntry& rule : {end, jump}) {
            EXPECT_EQ(std::count(listed.begin(), listed.end(), rule), 1);
        }
        RuleEntry outside = full_rule(version);
        outside.priority = 9400;
        ASSERT_TRUE(client_->add_rule(outside));
    }
    const auto removed = client_->remove_own_rules(9347, 9362);
    ASSERT_TRUE(removed) << client_->last_error_text();
    EXPECT_EQ(*removed, 4U);
    EXPECT_EQ(count(IpVersion::V4), before4 + 2);
    EXPECT_EQ(count(IpVersion::V6), before6 + 1);
}

TEST_F(RouteClientTest, ARuleMayDropWhatLacksABitOfTheMark) {
    for (const IpVersion version : {IpVersion::V4, IpVersion::V6}) {
        RuleEntry rule;
        rule.version = version;
        rule.priority = 934;
        rule.action = RuleAction::Blackhole;
        rule.fwmark = 0;
        rule.fwmark_mask = 0x0800'0000;
        rule.input_interface = "lo";
        ASSERT_TRUE(client_->add_rule(rule)) << client_->last_error_text();
        ASSERT_TRUE(client_->add_rule(rule)) << "idempotent";
        EXPECT_FALSE(client_->restore_rule(rule).value());
        const auto listed = client_->rules(version).value();
        EXPECT_EQ(std::count(listed.begin(), listed.end(), rule), 1);
        ASSERT_TRUE(client_->remove_rule(rule)) << client_->last_error_text();
        EXPECT_TRUE(client_->restore_rule(rule).value()) << "it was not there";
        ASSERT_TRUE(client_->remove_rule(rule)) << client_->last_error_text();
        const auto left = client_->rules(version).value();
        EXPECT_EQ(std::count(left.begin(), left.end(), rule), 0);
    }
}

TEST_F(RouteClientTest, TheInterfaceOfAWayIsTheOneThatTheKernelWouldTake) {
    EXPECT_FALSE(client_->interface_to(address("203.0.113.1")));
    set_up();
    ASSERT_TRUE(client_->add_address(index_, address("192.0.2.5"), 24));
    const auto way = client_->interface_to(address("192.0.2.1"));
    ASSERT_TRUE(way) << client_->last_error_text();
    EXPECT_EQ(client_->interface_index(*way).value(), index_);
    EXPECT_EQ(client_->interface_to(address("127.0.0.1")).value(), "lo");
}

TEST_F(RouteClientTest, TheSourceByAnInterfaceIsTheOneThatTheKernelWouldTake) {
    set_up();
    const auto source = [&](const char* to) {
        const auto found = client_->way_to(address(to), 8, index_);
        return found ? found->source.to_string() : std::string();
    };
    EXPECT_EQ(source("203.0.113.1"), "") << "no way";
    ASSERT_TRUE(net().shell(
        "ip link add lan0 type bridge && ip link set lan0 up && ip address add 192.0.2.5/24 dev "
        "lan0 && ip address add 2001:db8:9::5/64 dev lan0 nodad && ip route add default dev d0 && "
        "ip route add 198.51.100.0/24 dev lan0 && ip -6 route add default dev d0"));
    EXPECT_EQ(source("203.0.113.1"), "192.0.2.5") << "d0 has no address";
    EXPECT_EQ(source("2001:db8:1::1"), "2001:db8:9::5");
    ASSERT_TRUE(net().shell("ip address add 192.0.2.129/32 dev lo && ip route add 203.0.113.0/24 "
                            "dev d0 src 192.0.2.129"));
    EXPECT_EQ(source("203.0.113.1"), "192.0.2.129");
    ASSERT_TRUE(net().shell("ip rule add fwmark 8 lookup 77 && ip route add default dev d0 table "
                            "77 src 192.0.2.5"));
    EXPECT_EQ(source("203.0.113.1"), "192.0.2.5") << "by the rule for that mark";
    const auto way = client_->way_to(address("198.51.100.9"), 0);
    ASSERT_TRUE(way);
    EXPECT_EQ(way->interface_index, client_->interface_index("lan0").value());
}

TEST_F(RouteClientTest, TheWayOfAPacketGoesByTheRulesOfItsSource) {
    ASSERT_TRUE(net().shell("ip link add other0 type veth peer name o0 && ip link set o0 up && "
                            "ip link set other0 up && ip address add 192.0.2.9/32 dev other0 && "
                            "ip rule add from 192.0.2.9 lookup 77 && "
                            "ip route add default dev other0 table 77"));
    set_up();
    ASSERT_TRUE(client_->add_address(index_, address("192.0.2.5"), 24));
    ASSERT_TRUE(net().shell("ip route add default via 192.0.2.1"));
    const IpAddress far = address("203.0.113.1");
    EXPECT_EQ(client_->interface_to(far).value(), "d0");
    EXPECT_EQ(client_->interface_to(far, address("192.0.2.5")).value(), "d0");
    EXPECT_EQ(client_->interface_to(far, address("192.0.2.9")).value(), "other0");
}

TEST_F(RouteClientTest, AGatewayThatIsOnLinkByDecreeStaysSo) {
    set_up();
    for (const char* text : {"0.0.0.0/0", "::/0"}) {
        RouteEntry route;
        route.destination = prefix(text);
        route.gateway = address(route.destination.address.is_v4() ? "10.255.255.1" : "fe80::1");
        route.interface_index = index_;
        route.table = 77;
        route.is_on_link = true;
        ASSERT_TRUE(client_->set_route(route)) << client_->last_error_text();
        const auto listed = client_->routes(route.destination.address.version, 77).value();
        ASSERT_EQ(listed.size(), 1U);
        EXPECT_TRUE(listed[0].is_on_link);
        EXPECT_EQ(listed[0].gateway, route.gateway);
    }
}

TEST_F(RouteClientTest, TheWayOfAForwardedPacketGoesByTheRulesOfItsInterfaceAndItsMark) {
    ASSERT_TRUE(
        net().shell("ip link add from0 type veth peer name a0; ip link add out0 type veth "
                    "peer name b0; ip link add main0 type veth peer name c0; for d in from0 "
                    "a0 out0 b0 main0 c0; do ip link set $d up; done; ip route add default "
                    "dev main0; ip address add 100.64.0.1/16 dev from0; sysctl -qw "
                    "net.ipv4.ip_forward=1; ip rule add iif from0 fwmark 8 lookup 77; ip "
                    "route add default dev out0 table 77"));
    RouteClient::ForwardedPacket packet;
    packet.source = address("100.64.0.2");
    packet.destination = address("203.0.113.1");
    packet.input_interface = client_->interface_index("from0").value();
    EXPECT_EQ(client_->interface_to(packet).value(), "main0");
    packet.mark = 8;
    EXPECT_EQ(client_->interface_to(packet).value(), "out0");
    EXPECT_EQ(client_->interface_to(packet.destination).value(), "main0") << "of the host's own";
    ASSERT_TRUE(net().shell("sysctl -qw net.ipv4.conf.from0.forwarding=0"));
    EXPECT_FALSE(client_->interface_to(packet)) << "not forwarded";
}

TEST_F(RouteClientTest, RefusalComesWithErrnoAndText) {
    RouteEntry route;
    route.destination = prefix("198.51.100.0/24");
    route.gateway = address("203.0.113.1");
    const auto refused = client_->set_route(route);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().sys_errno, ENETUNREACH);
    EXPECT_FALSE(client_->last_error_text().empty());
    const auto missing = client_->interface_index("nosuch0");
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().code, Errc::NotFound);
    EXPECT_FALSE(client_->set_link(4711, {}));
}

TEST_F(RouteClientTest, ListsLongerThanOneBufferAreWhole) {
    set_up();
    ASSERT_TRUE(client_->add_address(index_, address("192.0.2.5"), 24));
    std::string batch;
    for (int i = 0; i < 2000; ++i) {
        batch += "route add 10." + std::to_string(i / 200) + "." + std::to_string(i % 200) +
                 ".0/24 via 192.0.2.1 table 100\\n";
    }
    ASSERT_TRUE(net().shell("printf '" + batch + "' | ip -batch -"));
    const auto listed = client_->routes(IpVersion::V4, 100);
    ASSERT_TRUE(listed);
    EXPECT_EQ(listed->size(), 2000U);
}

}  // namespace
}  // namespace continuo::netlink
