#include "cnapt/node/tunnel_uplinks.hpp"
#include "cnapt/uplinks/uplinks.hpp"
#include "tests/support/net_namespace.hpp"

#include <array>

#include <gtest/gtest.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace continuo::cnapt::uplinks {
namespace {

using base::IpAddress;
using Slots = std::vector<uint8_t>;

const SnaptAddresses kSnapt(*base::Endpoint::parse("198.51.100.2:9347"));

// The data of the link goes by that uplink.
void use(node::SnaptLink& link, uint8_t slot) {
    policy::UplinkFacts only;
    only.slot = slot;
    const std::array<uint16_t, 1> ports = {9347};
    link.choice = {};
    static_cast<void>(link.choice.decide({{&only, 1}, {}, ports, 0, {}, false}, {}));
}

// Two interfaces with the same address, and a default route each.
class UplinksTest : public test::NetNamespaceTest {
  protected:
    void SetUp() override {
        NetNamespaceTest::SetUp();
        if (IsSkipped()) {
            return;
        }
        for (const char* name : {"wifi", "cable"}) {
            const std::string add = std::string("ip link add ") + name + " type veth peer name x" +
                                    name + " && ip addr add 192.168.1.2/24 dev " + name +
                                    " && ip link set " + name + " up";
            ASSERT_EQ(std::system(add.c_str()), 0);
            add_to_snapshot(name);
        }
        uplinks_.emplace(
            loop_, UplinkRules{}, [](Uplink&, io::UdpSocket&) {}, [] {});
    }

    void add_to_snapshot(const char* name) {
        const uint32_t index = ::if_nametoindex(name);
        const IpAddress address = *IpAddress::parse("192.168.1.2");
        snapshot_.links.push_back({index, name, true, true, false, 1500});
        snapshot_.addresses.push_back({index, address, 24});
        io::RouteEntry route;
        route.destination = *base::IpPrefix::parse("0.0.0.0/0");
        route.interface_index = index;
        route.metric = static_cast<uint32_t>(snapshot_.links.size() + 1) * 100;
        snapshot_.routes.push_back(route);
    }
    uint32_t wifi() const { return snapshot_.links[0].index; }
    Uplinks::Change update() { return uplinks_->update(snapshot_); }
    std::string best(Uplinks::SlotSet excluded = {}) {
        const Uplink* best = uplinks_->best_for(kSnapt, snapshot_, excluded);
        return best == nullptr ? "none" : best->interface;
    }
    Uplink& uplink(uint8_t slot) { return *uplinks_->at(slot); }

    io::EventLoop loop_;
    io::NetSnapshot snapshot_;
    std::optional<Uplinks> uplinks_;
};

TEST_F(UplinksTest, InterfacesWithTheSameAddressAreUplinksEach) {
    EXPECT_EQ(update().added, (Slots{0, 1}));
    EXPECT_EQ(uplink(0).interface, "wifi");
    EXPECT_EQ(uplink(1).interface, "cable");
    EXPECT_EQ(best(), "wifi");
    snapshot_.routes[0].metric = 1000;
    EXPECT_EQ(best(), "cable");
    snapshot_.addresses.erase(snapshot_.addresses.begin());
    EXPECT_EQ(update().removed, Slots{0}) << "the other one has that address still";
    EXPECT_EQ(best(), "cable");
}

std::string bound_to(const Uplink& uplink) {
    std::array<char, IFNAMSIZ> name{};
    socklen_t length = name.size();
    EXPECT_EQ(::getsockopt(uplink.ports[0]->socket.fd(), SOL_SOCKET, SO_BINDTODEVICE, name.data(),
                           &length),
              0);
    return name.data();
}

uint32_t leaves_by(const Uplink& uplink) {
    uint32_t index = 0;
    socklen_t length = sizeof index;
    EXPECT_EQ(
        ::getsockopt(uplink.ports[0]->socket.fd(), IPPROTO_IP, IP_UNICAST_IF, &index, &length), 0);
    return ntohl(index);
}

TEST_F(UplinksTest, AreBoundToTheirDeviceOnlyWhereAnotherHasTheirAddress) {
    update();
    EXPECT_EQ(bound_to(uplink(0)), "wifi");
    EXPECT_EQ(bound_to(uplink(1)), "cable");
    EXPECT_FALSE(uplinks_->shares_network(uplink(0), snapshot_)) << "a network that looks alike";

    ASSERT_EQ(std::system("ip addr add 192.168.1.3/24 dev cable"), 0);
    snapshot_.addresses[1].address = *IpAddress::parse("192.168.1.3");
    uplinks_.emplace(
        loop_, UplinkRules{}, [](Uplink&, io::UdpSocket&) {}, [] {});
    EXPECT_EQ(update().added, (Slots{0, 1}));
    EXPECT_EQ(bound_to(uplink(0)) + bound_to(uplink(1)), "");
    EXPECT_EQ(leaves_by(uplink(0)), snapshot_.links[0].index);
    EXPECT_EQ(leaves_by(uplink(1)), snapshot_.links[1].index);
    EXPECT_TRUE(uplinks_->shares_network(uplink(0), snapshot_));
    EXPECT_TRUE(uplinks_->shares_network(uplink(1), snapshot_));
    snapshot_.links[1].has_carrier = false;
    update();
    EXPECT_FALSE(uplinks_->shares_network(uplink(0), snapshot_)) << "all comes by itself";
    EXPECT_TRUE(uplinks_->shares_network(uplink(1), snapshot_));
    snapshot_.links[1].has_carrier = true;
    snapshot_.addresses[0].prefix_length = 31;
    update();
    EXPECT_TRUE(uplinks_->shares_network(uplink(0), snapshot_)) << "192.168.1.2 and 3 are it";
    snapshot_.addresses[0].prefix_length = 32;
    EXPECT_FALSE(uplinks_->shares_network(uplink(0), snapshot_));
    snapshot_.addresses[0].prefix_length = 24;

    snapshot_.addresses.push_back({snapshot_.links[1].index, snapshot_.addresses[0].address, 24});
    const Uplinks::Change twin = update();
    EXPECT_EQ(twin.removed, Slots{0});
    ASSERT_EQ(twin.added, (Slots{2, 3}));
    EXPECT_EQ(bound_to(uplink(2)), "wifi");
    EXPECT_EQ(bound_to(uplink(3)), "cable");
    EXPECT_EQ(bound_to(uplink(1)), "") << "no other has that address";
    EXPECT_TRUE(update().removed.empty());
}

// wifi has IPv4 (metric 200), cable IPv4 (300) and IPv6 (50).
TEST_F(UplinksTest, ASnaptOfBothVersionsIsReachedByTheVersionThatAnUplinkHas) {
    ASSERT_EQ(std::system("ip addr add 2001:db8:7::2/64 dev cable nodad"), 0);
    const uint32_t cable = snapshot_.links[1].index;
    snapshot_.addresses.push_back({cable, *IpAddress::parse("2001:db8:7::2"), 64});
    io::RouteEntry route;
    route.destination = *base::IpPrefix::parse("::/0");
    route.interface_index = cable;
    route.metric = 50;
    snapshot_.routes.push_back(route);
    ASSERT_EQ(update().added, (Slots{0, 1, 2}));
    SnaptAddresses both = kSnapt;
    const auto best_slot = [&](Uplinks::SlotSet excluded = {}) -> int {
        const Uplink* best = uplinks_->best_for(both, snapshot_, excluded);
        return best == nullptr ? -1 : best->slot;
    };
    EXPECT_FALSE(Uplinks::has_route(uplink(2), both, snapshot_)) << "no address of that version";
    EXPECT_EQ(best_slot(Uplinks::SlotSet().set(0).set(1)), -1);

    both.v6 = *base::Endpoint::parse("[2001:db8:1::2]:9347");
    EXPECT_TRUE(Uplinks::has_route(uplink(2), both, snapshot_));
    EXPECT_EQ(best_slot(), 1) << "cable by the better metric, and there the version in use";
    EXPECT_EQ(best_slot(Uplinks::SlotSet().set(1)), 2) << "unless it is none to choose from";
    EXPECT_EQ(best_slot(Uplinks::SlotSet().set(1).set(2)), 0);
    uplink(1).is_captive = true;
    EXPECT_EQ(best_slot(), 2) << "a portal stands for nothing";
    uplink(1).is_captive = false;
    both.in_use = base::IpVersion::V6;
    EXPECT_EQ(best_slot(), 2);
    EXPECT_EQ(best_slot(Uplinks::SlotSet().set(2)), 1);
    snapshot_.routes.back().metric = 200;
    EXPECT_EQ(best_slot(), 2) << "of equals the version in use";
    snapshot_.routes.back().metric = 1024;
    snapshot_.routes[0].metric = 600;
    EXPECT_EQ(best_slot(Uplinks::SlotSet().set(1)), 2)
        << "IPv4 of cable failed: still the better cable, though its IPv6 has the larger metric";
    snapshot_.routes[0].metric = 200;
    both.in_use = base::IpVersion::V4;
    snapshot_.routes[2].metric = 50;
    snapshot_.routes[1].destination = *base::IpPrefix::parse("198.51.100.0/24");
    EXPECT_EQ(best_slot(), 1);
    EXPECT_EQ(best_slot(Uplinks::SlotSet().set(1)), 2);
    snapshot_.routes[2].metric = 1024;
    EXPECT_EQ(best_slot(Uplinks::SlotSet().set(1)), 0) << "a longer prefix is that version's own";
    snapshot_.routes[1].interface_index = 99;
    EXPECT_EQ(best_slot(Uplinks::SlotSet().set(0)), 2) << "cable has no route of IPv4";
    EXPECT_EQ(best_slot(Uplinks::SlotSet().set(0).set(2)), 1);
    snapshot_.routes[1].interface_index = cable;
    snapshot_.routes[1].destination = *base::IpPrefix::parse("0.0.0.0/0");
    EXPECT_EQ(best_slot(Uplinks::SlotSet().set(1)), 0);
}

TEST_F(UplinksTest, TheLanOfAGatewayIsNoUplinkUnlessADefaultRouteLeadsThere) {
    UplinkRules rules;
    rules.lan = {"cable"};
    uplinks_.emplace(
        loop_, rules, [](Uplink&, io::UdpSocket&) {}, [] {});
    const io::RouteEntry route = snapshot_.routes.back();
    snapshot_.routes.pop_back();
    EXPECT_EQ(update().added, Slots{0});
    EXPECT_EQ(best(), "wifi");
    snapshot_.routes.push_back(route);
    const Uplinks::Change change = update();
    EXPECT_EQ(change.removed, Slots{0}) << "cable has the address of wifi: bound anew";
    EXPECT_EQ(change.added, (Slots{1, 2}));
    snapshot_.routes.pop_back();
    EXPECT_EQ(update().removed, Slots{2});
    rules.allow = {"*", "cab*"};
    uplinks_.emplace(
        loop_, rules, [](Uplink&, io::UdpSocket&) {}, [] {});
    EXPECT_EQ(update().added, (Slots{0, 1}));
}

TEST_F(UplinksTest, WhatLeadsNowhereIsNoUplink) {
    const io::RouteEntry route = snapshot_.routes.back();  // of cable
    const auto is_uplink_by = [&](const char* prefix) {
        snapshot_.routes.back().destination = *base::IpPrefix::parse(prefix);
        return update().added == Slots{1};
    };
    EXPECT_FALSE(is_uplink_by("192.168.1.0/24")) << "its own network";
    EXPECT_FALSE(is_uplink_by("10.0.0.0/7"));
    EXPECT_FALSE(is_uplink_by("::/0")) << "another version";
    EXPECT_FALSE(is_uplink_by("198.51.100.0/24"));
    EXPECT_TRUE(uplinks_->set_snapts({*IpAddress::parse("198.51.100.2")}));
    EXPECT_FALSE(uplinks_->set_snapts({*IpAddress::parse("198.51.100.2")}));
    EXPECT_TRUE(is_uplink_by("198.51.100.0/24")) << "of the SNAPT";
    snapshot_.routes.pop_back();
    EXPECT_TRUE(update().removed.empty()) << "a route may be replaced in two steps";
    for (const char* part : {"128.0.0.0/1", "0.0.0.0/0"}) {
        uplinks_.emplace(
            loop_, UplinkRules{}, [](Uplink&, io::UdpSocket&) {}, [] {});
        EXPECT_EQ(update().added, Slots{0});
        snapshot_.routes.push_back(route);
        EXPECT_TRUE(is_uplink_by(part));
        snapshot_.routes.pop_back();
    }
    UplinkRules rules;
    rules.allow = {"*", "cab*"};
    uplinks_.emplace(
        loop_, rules, [](Uplink&, io::UdpSocket&) {}, [] {});
    EXPECT_EQ(update().added, (Slots{0, 1})) << "named by its operator";
}

// The address is on a bridge, as that of a delegated prefix.
TEST_F(UplinksTest, WhatHasNoAddressSendsWithTheOneThatTheKernelWouldUse) {
    ASSERT_EQ(std::system("ip link add lan0 type bridge && ip link set lan0 up && ip addr add "
                          "192.0.2.9/24 dev lan0 && ip addr add 192.0.2.10/24 dev lan0 && ip addr "
                          "flush dev cable && ip route add default dev cable src 192.0.2.10"),
              0);
    const auto monitor = io::NetMonitor::start(loop_, [](const io::NetEvent&) {});
    ASSERT_TRUE(monitor);
    snapshot_ = (*monitor)->snapshot();
    EXPECT_TRUE(update().added.empty()) << "it leads to no SNAPT that is known";
    EXPECT_TRUE(uplinks_->set_snapts({kSnapt.current().address}));
    ASSERT_EQ(update().added, Slots{0});
    EXPECT_EQ(uplink(0).interface, "cable");
    EXPECT_EQ(uplink(0).address.to_string(), "192.0.2.10");
    EXPECT_TRUE(uplink(0).is_borrowed);
    EXPECT_NE(uplink(0).ports[0], nullptr) << "its sockets are bound to both";
    EXPECT_EQ(best(), "cable");
    ASSERT_EQ(std::system("ip addr add 192.168.1.2/24 dev cable"), 0);
    snapshot_.addresses.push_back(
        {uplink(0).interface_index, *IpAddress::parse("192.168.1.2"), 24});
    const Uplinks::Change change = update();
    EXPECT_EQ(change.removed, Slots{0}) << "it has one of its own now";
    ASSERT_EQ(change.added, Slots{1});
    EXPECT_FALSE(uplink(1).is_borrowed);
}

// A VPN has taken the default route, in halves.
TEST_F(UplinksTest, ATunnelIsTheLastResortUnlessItIsNamedOrLeadsToTheSnaptItself) {
    snapshot_.links[1].kind = "wireguard";
    io::RouteEntry& route = snapshot_.routes[1];
    route.destination = *base::IpPrefix::parse("128.0.0.0/1");
    ASSERT_EQ(update().added, (Slots{0, 1}));
    const auto is_last_resort = [&] {
        return Uplinks::is_last_resort(uplink(1), kSnapt, snapshot_);
    };
    node::SnaptLink link;
    link.addresses = kSnapt;
    const auto rests = [&](uint8_t slot) {
        return node::is_resting(link, uplink(slot), {}, *uplinks_, snapshot_);
    };
    EXPECT_TRUE(is_last_resort());
    EXPECT_FALSE(Uplinks::is_last_resort(uplink(0), kSnapt, snapshot_));
    EXPECT_EQ(best(), "wifi") << "in spite of the longer prefix";
    EXPECT_TRUE(rests(1));
    EXPECT_FALSE(rests(0));
    EXPECT_EQ(best(Uplinks::SlotSet().set(0)), "cable");
    uplink(0).is_captive = true;
    EXPECT_EQ(best(), "wifi") << "what carries the tunnel is behind the portal, too";
    EXPECT_FALSE(rests(1));
    uplink(0).is_captive = false;
    snapshot_.links[0].has_carrier = false;
    update();
    EXPECT_EQ(best(), "cable");
    EXPECT_FALSE(rests(1));
    snapshot_.links[0].has_carrier = true;
    update();
    use(link, 1);
    EXPECT_FALSE(rests(1)) << "it carries until the other one takes over";
    use(link, 0);
    EXPECT_TRUE(rests(1));
    const io::RouteEntry of_wifi = snapshot_.routes[0];
    snapshot_.routes.erase(snapshot_.routes.begin());
    EXPECT_EQ(best(), "cable") << "the VPN has replaced the default route";
    EXPECT_FALSE(rests(1));
    snapshot_.routes.insert(snapshot_.routes.begin(), of_wifi);

    // All but private places.
    const io::RouteEntry half = snapshot_.routes[1];
    snapshot_.routes[1].destination = *base::IpPrefix::parse("8.0.0.0/7");
    snapshot_.routes.push_back(half);
    snapshot_.routes[2].destination = *base::IpPrefix::parse("198.48.0.0/12");
    EXPECT_TRUE(is_last_resort());
    EXPECT_EQ(best(), "wifi");
    EXPECT_TRUE(rests(1));
    snapshot_.routes[2].destination = *base::IpPrefix::parse("198.51.100.2/32");
    EXPECT_FALSE(is_last_resort()) << "somebody wants it so";
    EXPECT_EQ(best(), "cable");
    EXPECT_FALSE(rests(1));
    snapshot_.routes.pop_back();
    snapshot_.routes[1].destination = *base::IpPrefix::parse("198.51.100.0/24");
    EXPECT_FALSE(is_last_resort()) << "it has no default route";
    EXPECT_EQ(best(), "cable");
    EXPECT_FALSE(rests(1));
    snapshot_.routes[1] = half;
    UplinkRules rules;
    rules.allow = {"*", "cab*"};
    uplinks_.emplace(
        loop_, rules, [](Uplink&, io::UdpSocket&) {}, [] {});
    update();
    EXPECT_FALSE(is_last_resort());
    EXPECT_EQ(best(), "cable");
    EXPECT_FALSE(rests(1));
}

TEST_F(UplinksTest, ALineOfAProviderIsNoLastResort) {
    snapshot_.links[0].kind = "ppp";
    update();
    EXPECT_FALSE(Uplinks::is_last_resort(uplink(0), kSnapt, snapshot_));
    EXPECT_EQ(best(), "wifi");
}

TEST_F(UplinksTest, WhatHasNoCarrierIsTheLastToBeChosen) {
    update();
    snapshot_.links[0].has_carrier = false;
    const Uplinks::Change cut = update();
    EXPECT_TRUE(cut.is_any_cut);
    EXPECT_TRUE(cut.joined.empty() && cut.removed.empty());
    EXPECT_FALSE(uplink(0).can_carry());
    EXPECT_EQ(best(), "cable");
    uplink(1).is_captive = true;
    EXPECT_EQ(best(), "cable") << "a portal can be logged in to";
    EXPECT_EQ(best(Uplinks::SlotSet().set(1)), "wifi");
    EXPECT_FALSE(update().is_any_cut) << "told once";
    snapshot_.links[0].has_carrier = true;
    EXPECT_EQ(update().joined, Slots{0});
    EXPECT_EQ(best(), "wifi");
}

TEST_F(UplinksTest, ThatAnAccessPointIsLeftIsBelievedBeforeTheCarrierGoes) {
    update();
    const Uplinks::Change left = uplinks_->note_joined(wifi(), false);
    EXPECT_TRUE(left.is_any_cut);
    EXPECT_TRUE(left.joined.empty());
    EXPECT_FALSE(uplink(0).can_carry());
    EXPECT_TRUE(uplink(1).can_carry());
    EXPECT_TRUE(update().joined.empty()) << "the carrier has been there all the time";
    EXPECT_EQ(uplinks_->note_joined(wifi(), true).joined, Slots{0});
    EXPECT_TRUE(uplink(0).can_carry());
}

TEST_F(UplinksTest, AnAccessPointIsJoinedWhenItsCarrierComes) {
    update();
    uplinks_->note_joined(wifi(), false);
    snapshot_.links[0].has_carrier = false;
    update();
    // Joined, but its keys are still being agreed on.
    EXPECT_TRUE(uplinks_->note_joined(wifi(), true).joined.empty());
    snapshot_.links[0].has_carrier = true;
    EXPECT_EQ(update().joined, Slots{0});
    // Nobody has reported the access point.
    uplinks_->note_joined(wifi(), false);
    snapshot_.links[0].has_carrier = false;
    update();
    snapshot_.links[0].has_carrier = true;
    EXPECT_EQ(update().joined, Slots{0});
    EXPECT_TRUE(uplink(0).can_carry());
}

TEST_F(UplinksTest, WhenNotificationsWereLostWhatWasLeftMayBeJoined) {
    update();
    EXPECT_TRUE(uplinks_->note_joined(0, true).joined.empty());
    uplinks_->note_joined(wifi(), false);
    EXPECT_EQ(uplinks_->note_joined(0, true).joined, Slots{0});
}

TEST_F(UplinksTest, ASignalIsWeakUntilItIsClearlyStronger) {
    update();
    const auto is_weak_at = [&](std::optional<int> dbm) {
        uplinks_->note_signal(wifi(), dbm);
        EXPECT_EQ(uplink(0).signal_dbm, dbm);
        return uplink(0).is_weak;
    };
    EXPECT_FALSE(is_weak_at(-78));
    EXPECT_TRUE(is_weak_at(-79));
    EXPECT_TRUE(is_weak_at(-73));
    EXPECT_FALSE(is_weak_at(-72));
    EXPECT_FALSE(is_weak_at(-78));
    EXPECT_TRUE(is_weak_at(-90));
    EXPECT_FALSE(is_weak_at(std::nullopt));
    EXPECT_TRUE(uplink(0).is_wireless);
    EXPECT_FALSE(uplink(1).is_wireless || uplink(1).is_weak);
}

TEST_F(UplinksTest, AnotherAccessPointHasAnotherSignal) {
    update();
    uplinks_->note_signal(wifi(), -90);
    uplinks_->note_joined(wifi(), true);
    EXPECT_FALSE(uplink(0).is_weak);
    EXPECT_EQ(uplink(0).signal_dbm, std::nullopt);
    uplinks_->note_weak(wifi());
    EXPECT_TRUE(uplink(0).is_weak);
    uplinks_->note_signal(wifi(), -50);
    EXPECT_FALSE(uplink(0).is_weak);
}

}  // namespace
}  // namespace continuo::cnapt::uplinks
