#include "common/host/tun_device.hpp"
#include "common/netfilter/nft.hpp"
#include "common/netlink/netlink_route.hpp"
#include "snapt/commands/doctor_context.hpp"
#include "snapt/nat/host_network.hpp"
#include "snapt/nat/nat_guard.hpp"
#include "tests/support/net_namespace.hpp"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <thread>

namespace continuo::snapt::nat {
namespace {

using base::IpPrefix;
using base::IpVersion;

// A host with a way out, wan0, whose rules and parameters somebody changes.
class HostWatchTest : public test::NetNamespaceTest {
  protected:
    void SetUp() override {
        test::NetNamespaceTest::SetUp();
        if (IsSkipped()) {
            return;
        }
        ASSERT_TRUE(shell("ip link add wan0 type veth peer name net0; ip link add wan1 type veth "
                          "peer name net1; for d in wan0 net0 wan1 net1; do ip link set $d up; "
                          "done; ip addr add 203.0.113.2/24 dev wan0; ip route add default via "
                          "203.0.113.1; sysctl -qw net.ipv4.ip_forward=0"));
        std::string folder = testing::TempDir() + "continuo-host-XXXXXX";
        ASSERT_NE(::mkdtemp(folder.data()), nullptr);
        state_ = folder;
        config_.inner.ipv4 = IpPrefix::parse("100.64.0.0/16");
        config_.inner.ipv6 = IpPrefix::parse("fd93:47::/64");
        tun_.emplace(host::TunDevice::open(config_.inner.device, {}).value());
    }
    void TearDown() override {
        if (network_) {
            network_->tear_down();
            network_.reset();
        }
        leases_.reset();
        tun_.reset();
        if (!state_.empty()) {
            std::filesystem::remove_all(state_);
        }
        test::NetNamespaceTest::TearDown();
    }
    void start() {
        store::LeasePool pool;
        pool.ipv4 = config_.inner.ipv4;
        pool.ipv6 = config_.inner.ipv6;
        leases_ = store::LeaseStore::open(state_, pool).value();
        network_ = std::make_unique<HostNetwork>(config_, state_);
        std::string failure;
        ASSERT_TRUE(network_->open(failure)) << failure;
        ASSERT_TRUE(network_->set_up(*leases_, failure)) << failure;
        ASSERT_EQ(watch(true), "");
    }
    // Troubles that block packets of both versions.
    std::string watch(bool is_thorough) const { return network_->watch(is_thorough).all; }
    // "IPv4: why; IPv6: why".
    std::string no_way_out() const {
        const ForwardingTroubles found = network_->watch(true);
        return "IPv4: " + found.no_way_out4 + "; IPv6: " + found.no_way_out6;
    }
    // Findings of `snapt doctor` about it.
    std::string doctor() const {
        commands::SnaptDoctor doctor({}, {}, "", "");
        doctor.config = config_;
        commands::check_ways_out(doctor);
        std::string text;
        for (const report::Finding& finding : doctor.findings.all()) {
            text += std::string(to_string(finding.verdict)) + " " + finding.found + "\n";
        }
        return text;
    }
    // Others' rules are looked at again when the look before is paid for.
    bool becomes(std::string_view trouble) const {
        for (unsigned looks = 0; looks < 500; ++looks) {
            if (watch(true) == trouble) {
                return true;
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
        }
        return false;
    }
    bool shell(const std::string& command) const { return net().shell("( " + command + " )"); }
    bool nft(const std::string& commands) const { return shell("nft '" + commands + "'"); }
    bool has_tables() const {
        return shell("nft list chain inet continuo_snapt_snapt0 from_node >/dev/null 2>&1 && nft "
                     "list set inet continuo_connections_snapt0 leases4 >/dev/null 2>&1");
    }
    static std::string value(const std::string& key) {
        return host::read_sysctl("net/ipv4/" + key).value();
    }

    std::string state_;
    settings::SnaptConfig config_;
    std::optional<host::TunDevice> tun_;
    std::unique_ptr<store::LeaseStore> leases_;
    std::unique_ptr<HostNetwork> network_;
};

TEST_F(HostWatchTest, AFlushBetweenWritingAndReadingIsNotTakenForItsOwn) {
    start();
    for (unsigned round = 0; round < 10; ++round) {
        std::atomic<bool> ends = false;
        std::thread somebody([&] {
            const test::NetNamespace::Visit visit(net());
            netfilter::Nft rules;
            while (!ends) {
                EXPECT_TRUE(rules.apply("flush ruleset\n"));
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
            }
        });
        for (unsigned looks = 0; looks < 10; ++looks) {
            (void)watch(false);
        }
        ends = true;
        somebody.join();
        EXPECT_EQ(watch(false), "");
        ASSERT_TRUE(has_tables()) << round;
    }
}

TEST_F(HostWatchTest, AnAddressThatIsDeniedStaysSo) {
    start();
    const std::string table = "inet continuo_snapt_snapt0";
    for (const std::string& change :
         {"flush set " + table + " denied4", "flush set " + table + " denied6"}) {
        (void)shell("nft " + change + " 2>/dev/null");
        EXPECT_EQ(watch(false), "");
        EXPECT_TRUE(shell("nft list set " + table +
                          " denied4 | grep -q 100.64.0.0/10 && nft list "
                          "set " +
                          table + " denied6 | grep -q 2002::/16"))
            << change;
    }
}

TEST_F(HostWatchTest, InterfacesThatAnAdministratorHasClosedStayClosed) {
    ASSERT_TRUE(shell("sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.wan1.forwarding=0 "
                      "net.ipv4.conf.wan0.forwarding=0"));
    start();
    EXPECT_EQ(value("conf/wan0/forwarding"), "1");
    EXPECT_EQ(value("conf/wan1/forwarding"), "0");
    ASSERT_TRUE(shell("sysctl -qw net.ipv4.ip_forward=0"));
    EXPECT_EQ(watch(true), "");
    EXPECT_EQ(value("conf/wan0/forwarding") + value("conf/snapt0/forwarding"), "11");
    EXPECT_EQ(value("conf/wan1/forwarding") + value("conf/net0/forwarding"), "00");
    network_->tear_down();
    EXPECT_EQ(value("conf/wan0/forwarding"), "0") << "as at the start";
}

TEST_F(HostWatchTest, AStrangersValueIsNotThatOfTheStart) {
    ASSERT_TRUE(shell("sysctl -qw net.ipv4.ip_forward=1"));
    start();
    ASSERT_TRUE(shell("sysctl -qw net.ipv4.conf.wan0.forwarding=0"));
    EXPECT_EQ(watch(true), "");
    network_->tear_down();
    EXPECT_EQ(value("conf/wan0/forwarding") + value("ip_forward"), "11");
}

TEST_F(HostWatchTest, WithOneWayOutTheSwitchForAllIsPutBackToo) {
    ASSERT_TRUE(
        shell("ip link delete wan1; ip link delete wan0; ip link add wan0 type bridge; "
              "ip link set wan0 up; ip addr add 203.0.113.2/24 dev wan0; ip route add default "
              "via 203.0.113.1"));
    start();
    ASSERT_TRUE(shell("sysctl -qw net.ipv4.ip_forward=0"));
    EXPECT_EQ(watch(true), "");
    EXPECT_EQ(value("ip_forward") + value("conf/wan0/forwarding"), "11");
    EXPECT_EQ(value("conf/default/forwarding"), "0") << "interfaces that come";
    network_->tear_down();
    EXPECT_EQ(value("ip_forward") + value("conf/wan0/forwarding"), "00");
}

TEST_F(HostWatchTest, ForwardingThatIsLeftAloneIsATroubleWhereItIsOff) {
    ASSERT_TRUE(shell("sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1"));
    config_.relay.set_forwarding = false;
    start();
    ASSERT_TRUE(shell("sysctl -qw net.ipv4.conf.wan1.forwarding=0"));
    EXPECT_EQ(watch(true), "");
    ASSERT_TRUE(shell("sysctl -qw net.ipv4.conf.wan0.forwarding=0"));
    EXPECT_EQ(watch(true), "net.ipv4.conf.wan0.forwarding = 0");
    EXPECT_EQ(value("conf/wan0/forwarding"), "0");
}

TEST_F(HostWatchTest, OnlyAChainThatCertainlyDropsAllIsATrouble) {
    start();
    ASSERT_TRUE(nft("add table ip filter; add chain ip filter FORWARD { type filter hook forward "
                    "priority 0; policy drop; }"));
    EXPECT_TRUE(becomes("chain ip filter FORWARD drops what is forwarded by snapt0"));
    ASSERT_TRUE(nft("add rule ip filter FORWARD iifname snapt0 oifname wan0 ct state new accept"));
    EXPECT_TRUE(becomes(""));
    ASSERT_TRUE(
        nft("flush chain ip filter FORWARD; add chain ip filter FORWARD { policy accept; }; "
            "add rule ip filter FORWARD iifname wan0 ct state new drop; add table ip6 "
            "filter; add chain ip6 filter FORWARD { type filter hook forward priority 0; "
            "policy drop; }"));
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    EXPECT_EQ(watch(true), "") << "IPv6 has no way out here";
}

TEST_F(HostWatchTest, OneOfSeveralWaysOutMayBeAway) {
    config_.relay.egress = {"wan0", "wan9"};
    start();
    config_.relay.egress = {"wan8", "wan9"};
    EXPECT_EQ(watch(true), "no interface of relay.egress is there");
}

TEST_F(HostWatchTest, AVersionWithoutARouteOrACarrierHasNoWayOut) {
    start();
    EXPECT_EQ(no_way_out(), "IPv4: ; IPv6: no default route");
    EXPECT_FALSE(network_->watch(true).had_ipv6);
    ASSERT_TRUE(shell("ip -6 addr add 2001:db8::2/64 dev wan0 nodad; ip -6 route add default via "
                      "2001:db8::1"));
    EXPECT_EQ(no_way_out(), "IPv4: ; IPv6: ");
    ASSERT_TRUE(shell("ip link set net0 down"));
    EXPECT_TRUE(network_->watch(true).had_ipv6);
    EXPECT_EQ(no_way_out(), "IPv4: wan0 has no carrier; IPv6: wan0 has no carrier");
    ASSERT_TRUE(shell("ip link set net0 up; ip route del default"));
    EXPECT_EQ(no_way_out(), "IPv4: no default route; IPv6: ");
    ASSERT_TRUE(shell("ip route add unreachable default"));
    EXPECT_EQ(no_way_out(), "IPv4: no default route; IPv6: ");
    ASSERT_TRUE(shell("ip route del unreachable default; ip route add 193.0.14.0/24 via "
                      "203.0.113.1"));
    EXPECT_EQ(no_way_out(), "IPv4: ; IPv6: ") << "a router with all networks needs no default";
}

TEST_F(HostWatchTest, TheWayOutIsByAnInterfaceOfEgress) {
    config_.relay.egress = {"wan0", "wan1"};
    config_.inner.ipv6.reset();
    start();
    EXPECT_EQ(no_way_out(), "IPv4: ; IPv6: ");
    config_.relay.egress = {"wan1"};
    EXPECT_EQ(no_way_out(), "IPv4: the default route leads by wan0, which is not in relay.egress; "
                            "IPv6: ");
}

TEST_F(HostWatchTest, TheDoctorFindsTheSameWayOut) {
    config_.inner.ipv6.reset();
    start();
    EXPECT_EQ(doctor(), "ok by wan0, MTU 1500\n");
    config_.relay.egress = {"wan1"};
    EXPECT_EQ(doctor(), "fail the default route leads by wan0, which is not in relay.egress\n");
    config_.relay.egress.clear();
    ASSERT_TRUE(shell("ip link set net0 down"));
    EXPECT_EQ(doctor(), "fail wan0 has no carrier\n");
    ASSERT_TRUE(shell("ip link set net0 up; ip route del default"));
    EXPECT_EQ(doctor(), "fail this host has no default route\n");
    ASSERT_TRUE(shell("ip route add 193.0.14.0/24 via 203.0.113.1"));
    EXPECT_EQ(doctor(), "ok routes of this host lead there\n");
    config_.relay.allow = {*IpPrefix::parse("10.0.0.0/8")};
    ASSERT_TRUE(shell("ip route del 193.0.14.0/24"));
    EXPECT_EQ(doctor(), "warn this host has no default route: nodes reach only private networks\n");
}

TEST_F(HostWatchTest, ForwardingThatIsOffIsNotToldAsALostRoute) {
    ASSERT_TRUE(shell("sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1"));
    config_.relay.set_forwarding = false;
    config_.inner.ipv6.reset();
    start();
    ASSERT_TRUE(shell("sysctl -qw net.ipv4.conf.snapt0.forwarding=0"));
    EXPECT_EQ(watch(true), "net.ipv4.conf.snapt0.forwarding = 0");
    EXPECT_EQ(no_way_out(), "IPv4: ; IPv6: ");
}

TEST_F(HostWatchTest, WhoServesPrivatePlacesAloneNeedsNoDefaultRouteUntilItHadOne) {
    ASSERT_TRUE(shell("ip route del default"));
    config_.relay.allow = {*IpPrefix::parse("10.0.0.0/8")};
    config_.inner.ipv6.reset();
    start();
    EXPECT_EQ(no_way_out(), "IPv4: ; IPv6: ");
    ASSERT_TRUE(shell("ip route add default via 203.0.113.1"));
    EXPECT_EQ(no_way_out(), "IPv4: ; IPv6: ");
    ASSERT_TRUE(shell("ip route del default"));
    EXPECT_EQ(no_way_out(), "IPv4: no default route; IPv6: ");
}

TEST_F(HostWatchTest, TheRoutingRulesArePutBackEachByItself) {
    start();
    ASSERT_TRUE(shell("ip rule delete priority 934; ip -6 rule delete priority 934; sysctl -qw "
                      "net.ipv4.conf.all.src_valid_mark=0"));
    testing::internal::CaptureStderr();
    EXPECT_EQ(watch(false), "");
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find("routing rule 934 of IPv4 was changed by another program"),
              std::string::npos);
    EXPECT_NE(said.find("routing rule 934 of IPv6 was changed by another program"),
              std::string::npos);
    auto routes = netlink::RouteClient::open().value();
    for (const netlink::RuleEntry& rule : guard_rules("snapt0")) {
        const auto rules = routes.rules(rule.version).value();
        EXPECT_EQ(std::count(rules.begin(), rules.end(), rule), 1);
    }
    EXPECT_EQ(value("conf/all/src_valid_mark"), "1");
}

}  // namespace
}  // namespace continuo::snapt::nat
