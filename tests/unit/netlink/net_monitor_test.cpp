#include "common/netlink/net_monitor.hpp"
#include "tests/support/net_namespace.hpp"

#include <algorithm>
#include <random>

namespace continuo::netlink {
namespace {

using base::IpAddress;
using base::IpPrefix;
using base::seconds;
using Kind = NetEvent::Kind;

IpAddress address(std::string_view text) {
    return IpAddress::parse(text).value();
}

std::string describe(const NetEvent& event) {
    switch (event.kind) {
    case Kind::LinkAdded:
        return "+link " + event.link->name;
    case Kind::LinkChanged:
        return "*link " + event.link->name;
    case Kind::LinkRemoved:
        return "-link " + event.link->name;
    case Kind::AddressAdded:
        return "+address " + event.address->address.to_string();
    case Kind::AddressChanged:
        return "*address " + event.address->address.to_string();
    case Kind::AddressRemoved:
        return "-address " + event.address->address.to_string();
    case Kind::RouteAdded:
        return "+route " + event.route->destination.to_string();
    case Kind::RouteRemoved:
        return "-route " + event.route->destination.to_string();
    }
    return "";
}

TEST(NetSnapshot, ComparisonNamesEachDifferenceOnce) {
    NetSnapshot before;
    before.links = {{1, "lo", true, true, true, 65536, 0, {}},
                    {2, "wlan0", true, true, false, 1500, 0, {}}};
    before.addresses = {{2, address("192.0.2.5"), 24, false, false},
                        {2, address("2001:db8::5"), 64, false, true}};
    RouteEntry route;
    route.destination = IpPrefix::parse("0.0.0.0/0").value();
    route.interface_index = 2;
    before.routes = {route};
    NetSnapshot after = before;
    after.links[1].has_carrier = false;
    after.links.push_back({3, "usb0", true, true, false, 1500, 0, {}});
    after.addresses = {{2, address("2001:db8::5"), 64, true, true},
                       {3, address("198.51.100.5"), 24, false, false}};
    after.routes.front().interface_index = 3;
    std::vector<std::string> events;
    compare(before, after, [&](const NetEvent& event) { events.push_back(describe(event)); });
    const std::vector<std::string> expected = {
        "-route 0.0.0.0/0",     "-address 192.0.2.5",    "*link wlan0",     "+link usb0",
        "*address 2001:db8::5", "+address 198.51.100.5", "+route 0.0.0.0/0"};
    EXPECT_EQ(events, expected);
    events.clear();
    compare(after, after, [&](const NetEvent& event) { events.push_back(describe(event)); });
    EXPECT_TRUE(events.empty());
    EXPECT_TRUE(after.has_route(3, address("203.0.113.1")));
    EXPECT_FALSE(after.has_route(2, address("203.0.113.1")));
    EXPECT_FALSE(after.has_route(3, address("2001:db8::1")));
}

class NetMonitorTest : public test::NetNamespaceTest {
  protected:
    void SetUp() override {
        test::NetNamespaceTest::SetUp();
        if (IsSkipped()) {
            return;
        }
        ASSERT_TRUE(net().shell(
            "ip link add d0 type veth peer name p0 && ip link set p0 up && ip link set d0 up && "
            "ip addr add 192.0.2.5/24 dev d0"));
        loop_ = std::make_unique<io::EventLoop>();
        auto started = NetMonitor::start(
            *loop_, [this](const NetEvent& event) { events_.push_back(describe(event)); });
        ASSERT_TRUE(started);
        monitor_ = std::move(*started);
    }
    void TearDown() override {
        monitor_.reset();
        loop_.reset();
        test::NetNamespaceTest::TearDown();
    }
    bool wait_for(const std::string& event) {
        return loop_->run_until(
            [&] { return std::find(events_.begin(), events_.end(), event) != events_.end(); },
            seconds(3));
    }
    std::unique_ptr<io::EventLoop> loop_;
    std::unique_ptr<NetMonitor> monitor_;
    std::vector<std::string> events_;
};

TEST_F(NetMonitorTest, SnapshotIsThereAtTheStartWithoutEvents) {
    EXPECT_TRUE(events_.empty());
    ASSERT_NE(monitor_->snapshot().link("d0"), nullptr);
    EXPECT_TRUE(monitor_->snapshot().link("d0")->is_up);
    EXPECT_EQ(monitor_->snapshot().link("d0")->kind, "veth");
    EXPECT_EQ(monitor_->snapshot().link("lo")->kind, "");
    const auto& addresses = monitor_->snapshot().addresses;
    ASSERT_EQ(addresses.size(), 1U);
    EXPECT_EQ(addresses.front().address, address("192.0.2.5"));
}

TEST_F(NetMonitorTest, TellsOfAddressesRoutesAndLinks) {
    ASSERT_TRUE(net().shell("ip addr add 198.51.100.5/24 dev d0"));
    EXPECT_TRUE(wait_for("+address 198.51.100.5"));
    ASSERT_TRUE(net().shell("ip route add default via 192.0.2.1 src 192.0.2.5"));
    EXPECT_TRUE(wait_for("+route 0.0.0.0/0"));
    // The kernel does not tell of the route that goes with its address.
    ASSERT_TRUE(net().shell("ip addr del 192.0.2.5/24 dev d0"));
    EXPECT_TRUE(wait_for("-route 0.0.0.0/0"));
    EXPECT_TRUE(wait_for("-address 192.0.2.5"));
    ASSERT_TRUE(net().shell("ip link del d0"));
    EXPECT_TRUE(wait_for("-link d0"));
    EXPECT_TRUE(wait_for("-address 198.51.100.5"));
    EXPECT_TRUE(monitor_->snapshot().addresses.empty());
}

TEST_F(NetMonitorTest, TentativeAddressAppearsOnlyWhenUsableAndLinkLocalNever) {
    ASSERT_TRUE(net().shell("ip link add v0 type veth peer name v1 && ip link set v1 up && "
                            "ip link set v0 up && ip addr add 2001:db8::5/64 dev v0"));
    EXPECT_TRUE(wait_for("+link v0"));
    // Listed while duplicate address detection runs: not usable yet.
    EXPECT_EQ(std::count(events_.begin(), events_.end(), "+address 2001:db8::5"), 0);
    EXPECT_TRUE(wait_for("+address 2001:db8::5"));
    for (const UsableAddress& usable : monitor_->snapshot().addresses) {
        EXPECT_FALSE(usable.address.is_link_local());
    }
    ASSERT_TRUE(net().shell("ip addr change 2001:db8::5/64 dev v0 preferred_lft 0"));
    EXPECT_TRUE(wait_for("*address 2001:db8::5"));
}

TEST_F(NetMonitorTest, ARouteThatFollowsItsAddressDoesNotWait) {
    auto client = RouteClient::open();
    ASSERT_TRUE(client);
    const uint32_t device = monitor_->snapshot().link("d0")->index;
    base::Duration fastest = seconds(1);
    for (const char* text : {"198.51.100.5", "203.0.113.5"}) {
        const base::IpAddress own = address(text);
        ASSERT_TRUE(client->add_address(device, own, 24));
        ASSERT_TRUE(wait_for(std::string("+address ") + text));
        const base::TimePoint told_at = loop_->refresh_now();
        RouteEntry route;
        route.destination = base::IpPrefix{address("0.0.0.0"), 0};
        route.interface_index = device;
        route.preferred_source = own;
        events_.clear();
        ASSERT_TRUE(client->set_route(route));
        ASSERT_TRUE(wait_for("+route 0.0.0.0/0"));
        fastest = std::min<base::Duration>(fastest, loop_->refresh_now() - told_at);
        ASSERT_TRUE(client->remove_route(route));
        ASSERT_TRUE(wait_for("-route 0.0.0.0/0"));
    }
    EXPECT_LT(fastest, kRouteReportInterval);
}

// Changes of links are reported with the routes at once, whatever was reported before.
TEST_F(NetMonitorTest, ARouteThatFollowsManyChangesOfLinksWaitsForOneInterval) {
    auto client = RouteClient::open();
    ASSERT_TRUE(client);
    const uint32_t device = monitor_->snapshot().link("d0")->index;
    for (uint32_t i = 0; i < 100; ++i) {
        LinkSettings settings;
        settings.mtu = 1400 + i;
        events_.clear();
        ASSERT_TRUE(client->set_link(device, settings));
        ASSERT_TRUE(wait_for("*link d0"));
    }
    const base::TimePoint told_at = loop_->refresh_now();
    RouteEntry route;
    route.destination = base::IpPrefix{address("0.0.0.0"), 0};
    route.interface_index = device;
    ASSERT_TRUE(client->set_route(route));
    ASSERT_TRUE(wait_for("+route 0.0.0.0/0"));
    EXPECT_LT(loop_->refresh_now() - told_at, kRouteReportInterval * 10);
}

TEST_F(NetMonitorTest, ARouteThatDecidesIsSeenAmongManyWithoutAList) {
    monitor_->watch(this, {address("20.0.200.1")});
    ASSERT_TRUE(net().shell("awk 'BEGIN { for (i = 0; i < 1000; ++i) print \"route add 30.0.\" "
                            "int(i / 256) \".\" i % 256 \"/32 dev d0\" }' | ip -batch -"));
    ASSERT_TRUE(net().shell("ip route add 20.0.200.1/32 dev d0"));
    EXPECT_TRUE(wait_for("+route 20.0.200.1/32"));
    EXPECT_LE(monitor_->snapshot().routes.size(), kRoutesOfKind + 8);
    ASSERT_TRUE(net().shell("ip route del 20.0.200.1/32 dev d0"));
    EXPECT_TRUE(wait_for("-route 20.0.200.1/32"));
    EXPECT_EQ(monitor_->counters().overruns, 0U);
    EXPECT_EQ(monitor_->counters().route_lists, 0U);
    EXPECT_GE(monitor_->routes_left_out(), 1000 - kRoutesOfKind);
}

TEST_F(NetMonitorTest, ARouteToAnAddressThatIsWatchedLaterIsFoundByAList) {
    ASSERT_TRUE(net().shell("awk 'BEGIN { for (i = 0; i < 6000; ++i) print \"route add 30.0.\" "
                            "int(i / 256) \".\" i % 256 \"/32 dev d0\" }' | ip -batch -"));
    ASSERT_TRUE(loop_->run_until([&] { return monitor_->routes_left_out() > 5000; }, seconds(3)));
    monitor_->watch(this, {address("30.0.20.1")});
    EXPECT_TRUE(wait_for("+route 30.0.20.1/32"));
    EXPECT_GT(monitor_->counters().route_lists, 0U);
}

// Changes of all kinds, of routes, addresses and links, in any order.
TEST_F(NetMonitorTest, ItsRoutesAreThoseOfTheKernel) {
    ASSERT_TRUE(net().shell("for i in 1 2; do ip link add e$i type veth peer name q$i; "
                            "ip link set q$i up; ip link set e$i up; "
                            "ip addr add 192.0.2$i.5/24 dev e$i; "
                            "ip addr add 2001:db8:$i::5/64 dev e$i nodad; done"));
    auto client = RouteClient::open();
    ASSERT_TRUE(client);
    const auto kernels = [&] {
        std::vector<RouteEntry> list;
        for (const base::IpVersion version : {base::IpVersion::V4, base::IpVersion::V6}) {
            const auto routes = client->routes(version, kMainTable);
            for (const RouteEntry& route : routes ? *routes : std::vector<RouteEntry>()) {
                if (route.type == RouteType::Unicast) {
                    list.push_back(route);
                }
            }
        }
        std::sort(list.begin(), list.end(), is_route_before);
        list.erase(std::unique(list.begin(), list.end()), list.end());
        return list;
    };
    std::minstd_rand random(7);
    const auto any_of = [&](uint32_t count) { return std::to_string(1 + random() % count); };
    const auto verb = [&] {
        const char* const verbs[] = {"add", "append", "replace", "replace", "del", "del"};
        return std::string(verbs[random() % std::size(verbs)]);
    };
    for (int round = 0; round < 40; ++round) {
        std::string batch;
        for (int i = 0; i < 12; ++i) {
            const std::string n = any_of(2);
            const std::string metric = " metric " + any_of(2) + "0\n";
            const std::string lines[] = {
                "route " + verb() + " 198.51." + any_of(3) + ".0/24 via 192.0.2" + n + ".1" +
                    metric,
                "route " + verb() + " default via 192.0.2" + n + ".1 src 192.0.2" + n + ".5" +
                    metric,
                "-6 route " + verb() + " 2001:db8:a" + any_of(2) + "::/48 via 2001:db8:" + n +
                    "::" + any_of(3) + metric,
                "-6 route " + verb() + " default dev e" + n + metric,
                "route " + verb() + " 203.0.113.0/24 nexthop via 192.0.21.1 nexthop via 192.0.22." +
                    any_of(2) + "\n",
                "route " + verb() + " unreachable 198.51." + any_of(3) + ".0/24" + metric,
                "addr add 192.0.2" + n + ".5/24 dev e" + n + "\n",
                "addr del 192.0.2" + n + ".5/24 dev e" + n + "\n",
                "link set e" + n + (random() % 2 == 0 ? " up\n" : " down\n"),
            };
            batch += lines[random() % std::size(lines)];
        }
        net().shell("printf %s '" + batch + "' | ip -force -batch - 2>/dev/null");
        EXPECT_TRUE(
            loop_->run_until([&] { return monitor_->snapshot().routes == kernels(); }, seconds(3)))
            << round << "\n"
            << batch;
    }
    EXPECT_EQ(monitor_->counters().overruns, 0U);
}

TEST_F(NetMonitorTest, OverrunOfNotificationsLosesNothing) {
    ASSERT_TRUE(net().shell("awk 'BEGIN { for (i = 0; i < 12000; ++i) print "
                            "(i % 2 ? \"addr del\" : \"addr add\"), \"198.51.100.\" "
                            "1 + int(i / 2) % 100 \"/32 dev d0\"; "
                            "print \"addr add 203.0.113.5/24 dev d0\" }' | ip -batch -"));
    EXPECT_TRUE(wait_for("+address 203.0.113.5"));
    EXPECT_GT(monitor_->counters().overruns, 0U);
    EXPECT_EQ(monitor_->snapshot().addresses.size(), 2U);
    events_.clear();
    ASSERT_TRUE(net().shell("ip addr del 203.0.113.5/24 dev d0"));
    EXPECT_TRUE(wait_for("-address 203.0.113.5"));
}

}  // namespace
}  // namespace continuo::netlink
