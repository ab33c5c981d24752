#include "cnapt/capture/answers_table.hpp"
#include "cnapt/capture/capture_ruleset.hpp"
#include "tests/unit/cnapt/capture/capture_net_fixture.hpp"

namespace continuo::cnapt::capture {
namespace {

INSTANTIATE_TEST_SUITE_P(Versions, CaptureTest, testing::Values(true, false));

using AnswersTest = test::NetNamespaceTest;

TEST_F(AnswersTest, ATableThatCannotBeReplacedIsRemoved) {
    const std::string name = "inet continuo_test";
    const std::string chain = "table " + name + " { chain a { type filter hook input priority 0;";
    AnswersTable table;
    ASSERT_TRUE(table.set(name, chain + " counter; }; }\n"));
    EXPECT_TRUE(table.is_whole(name).value());
    EXPECT_FALSE(table.set(name, chain + " jump nowhere; }; }\n"));
    EXPECT_TRUE(table.is_whole(name).value());
    EXPECT_EQ(netfilter::NetfilterClient::open()->count_rules("continuo_test").value(), 0U);
}

TEST_P(CaptureTest, NewConnectionsOfApplicationsAreCaptured) {
    start();
    const Endpoint far{address(side().far), 80};
    const UniqueFd tcp = node_socket(SOCK_STREAM);
    EXPECT_EQ(connect_to(tcp, far), EINPROGRESS);
    auto packet = captured();
    ASSERT_TRUE(packet);
    EXPECT_EQ(packet->protocol, 6);
    EXPECT_EQ(packet->source, address(side().inner));
    EXPECT_EQ(packet->destination, far.address);
    const UniqueFd udp = node_socket(SOCK_DGRAM);
    EXPECT_EQ(send_to(udp, far), 0);
    packet = captured();
    ASSERT_TRUE(packet);
    EXPECT_EQ(packet->protocol, 17);
    EXPECT_EQ(packet->source, address(side().inner));
    EXPECT_TRUE(
        node_->shell(std::string("ping -q -c 1 -W 0.01 ") + side().far + " >/dev/null; true"));
    packet = captured();
    ASSERT_TRUE(packet);
    EXPECT_EQ(packet->protocol, GetParam() ? 1 : 58);
    EXPECT_EQ(packet->source, address(side().inner));
    EXPECT_EQ(counter(kLeakCounter), 0U);
}

TEST_P(CaptureTest, AnswersFromTheTunReachTheApplication) {
    start();
    const UniqueFd udp = node_socket(SOCK_DGRAM);
    EXPECT_EQ(send_to(udp, {address(side().far), 80}), 0);
    auto packet = captured();
    ASSERT_TRUE(packet);
    std::swap(packet->source, packet->destination);
    std::swap(packet->source_port, packet->destination_port);
    ASSERT_TRUE(tun_->write(test::build_frame(*packet)));
    const auto from = receive_from(udp);
    ASSERT_TRUE(from);
    EXPECT_EQ(from->address, address(side().far));
}

TEST_P(CaptureTest, InboundConnectionsAreAnsweredThroughTheUplink) {
    start();
    const UniqueFd listener = node_socket(GetParam() ? "0.0.0.0" : "::", 22, SOCK_STREAM);
    ASSERT_EQ(::listen(listener.value(), 5), 0);
    // From beyond the local network.
    const UniqueFd caller = router_->run([&] {
        return bound_socket({address(side().far), 0}, SOCK_STREAM);
    });
    router_->run([&] { connect_to(caller, {address(side().node), 22}); });
    ASSERT_TRUE(is_connected(caller));
    ASSERT_TRUE(is_ready(listener.value(), POLLIN));
    const UniqueFd session(::accept4(listener.value(), nullptr, nullptr, SOCK_CLOEXEC));
    ASSERT_EQ(::send(session.value(), "hello", 5, 0), 5);
    EXPECT_TRUE(is_ready(caller.value(), POLLIN));
    // A refused connection and an echo are answered, too.
    const UniqueFd refused = router_->run([&] {
        return bound_socket({address(side().far), 0}, SOCK_STREAM);
    });
    router_->run([&] { connect_to(refused, {address(side().node), 23}); });
    EXPECT_TRUE(is_ready(refused.value(), POLLIN));
    EXPECT_TRUE(router_->shell(std::string("ping -q -c 1 -W 2 -I ") + side().far + " " +
                               side().node + " >/dev/null"));
    EXPECT_FALSE(captured(kSilenceMs));
}

TEST_P(CaptureTest, WhatIsBoundToAnUplinkMarkedNearOrExcludedGoesPlain) {
    options_.near = {base::IpPrefix::parse("192.0.2.0/24").value(),
                     base::IpPrefix::parse("2001:db8:1::/64").value()};
    start();
    const UniqueFd far = router_socket(side().far, 80, SOCK_DGRAM);
    const UniqueFd near = router_socket(side().router, 80, SOCK_DGRAM);
    const UniqueFd excluded = router_socket(side().excluded, 80, SOCK_DGRAM);
    const IpAddress node = address(side().node);
    const UniqueFd bound = node_socket(side().node, 0, SOCK_DGRAM);
    EXPECT_EQ(send_to(bound, {address(side().far), 80}), 0);
    EXPECT_EQ(receive_from(far).value_or(Endpoint()).address, node);
    const UniqueFd marked = node_socket(SOCK_DGRAM);
    const uint32_t mark = options_.fwmark;
    ASSERT_EQ(::setsockopt(marked.value(), SOL_SOCKET, SO_MARK, &mark, sizeof mark), 0);
    EXPECT_EQ(send_to(marked, {address(side().far), 80}), 0);
    EXPECT_EQ(receive_from(far).value_or(Endpoint()).address, node);
    const UniqueFd on_device = node_socket(SOCK_DGRAM);
    ASSERT_EQ(::setsockopt(on_device.value(), SOL_SOCKET, SO_BINDTODEVICE, "up0", 3), 0);
    EXPECT_EQ(send_to(on_device, {address(side().far), 80}), 0);
    EXPECT_EQ(receive_from(far).value_or(Endpoint()).address, node);
    const UniqueFd plain = node_socket(SOCK_DGRAM);
    EXPECT_EQ(send_to(plain, {address(side().router), 80}), 0);
    EXPECT_EQ(receive_from(near).value_or(Endpoint()).address, node);
    EXPECT_EQ(send_to(plain, {address(side().excluded), 80}), 0);
    EXPECT_EQ(receive_from(excluded).value_or(Endpoint()).address, node);
    EXPECT_FALSE(captured(kSilenceMs));
    EXPECT_EQ(counter(kLeakCounter), 0U);
}

TEST_P(CaptureTest, RoutesOfAnUplinkLeadNothingPublicPastTheTunnel) {
    options_.has_near_links = true;
    start();
    const UniqueFd near = router_socket(side().router, 80, SOCK_DGRAM);
    const UniqueFd plain = node_socket(SOCK_DGRAM);
    const auto is_captured = [&](const char* to) {
        return send_to(plain, {address(to), 80}) == 0 && captured().has_value();
    };
    EXPECT_TRUE(is_captured(side().router)) << "on-link";
    ASSERT_TRUE(node_->shell("for p in 0.0.0.0/1 128.0.0.0/1 198.51.100.1/32; do ip route add $p "
                             "via 192.0.2.1 || exit 1; done; for p in ::/1 8000::/1 "
                             "2001:db8:2::1/128; do ip route add $p via 2001:db8:1::1 || exit 1; "
                             "done"));
    EXPECT_TRUE(is_captured(side().far));
    // No uplink: its own network stays beside the tunnel, its default route in parts does not.
    ASSERT_TRUE(node_->shell("ip link set up0 group 9347; ip route del 198.51.100.1/32; "
                             "ip route del 2001:db8:2::1/128"));
    EXPECT_TRUE(is_captured(side().far));
    EXPECT_EQ(send_to(plain, {address(side().router), 80}), 0);
    EXPECT_EQ(receive_from(near).value_or(Endpoint()).address, address(side().node));
    EXPECT_FALSE(captured(kSilenceMs));
}

TEST_P(CaptureTest, QuestionsOfResolvedDoNotLeaveByAnUplinkThatIsClosedToThem) {
    start();
    const UniqueFd names = router_socket(side().far, 53, SOCK_DGRAM);
    const UniqueFd other = router_socket(side().far, 5353, SOCK_DGRAM);
    const auto sends = [&](const char* user, const char* port) {
        const std::string open = GetParam() ? "" : "[";
        const std::string close = GetParam() ? "" : "]";
        static_cast<void>(node_->shell(std::string("setpriv --reuid ") + user +
                                       " --clear-groups sh -c 'echo hell | socat -u " + "- UDP" +
                                       (GetParam() ? "4:" : "6:") + open + side().far + close +
                                       ":" + port + ",bind=" + open + side().node + close +
                                       "' 2>/dev/null"));
    };
    netfilter::OwnedTable table;
    ASSERT_TRUE(node_->run([&] {
        return table.make(resolver_table_text(plan_.table, 4711, {"up0", "up9"})).has_value();
    }));
    sends("4711", "53");
    EXPECT_FALSE(receive_from(names, kSilenceMs));
    const auto refused = node_->run([&] {
        netfilter::Nft nft;
        return nft.counter(plan_.table + "_names", kResolverCounter);
    });
    EXPECT_EQ(refused.value().packets, 1U);
    sends("4711", "5353");
    EXPECT_TRUE(receive_from(other)) << "no question to a name server";
    sends("4712", "53");
    EXPECT_TRUE(receive_from(names)) << "another program";
    table.remove();
    sends("4711", "53");
    EXPECT_TRUE(receive_from(names)) << "it is over";
}

TEST_P(CaptureTest, BypassByPortAndUserGoesPlain) {
    options_.bypass.push_back({{}, 17, netlink::NumberRange{80, 80}, {}});
    options_.bypass.push_back({{}, {}, {}, netlink::NumberRange{4711, 4711}});
    start();
    const UniqueFd far = router_socket(side().far, 80, SOCK_DGRAM);
    const UniqueFd other = router_socket(side().far, 81, SOCK_DGRAM);
    const UniqueFd plain = node_socket(SOCK_DGRAM);
    EXPECT_EQ(send_to(plain, {address(side().far), 80}), 0);
    EXPECT_TRUE(receive_from(far));
    EXPECT_EQ(send_to(plain, {address(side().far), 81}), 0);
    EXPECT_TRUE(captured());
    const std::string user = std::string("setpriv --reuid 4711 --clear-groups sh -c 'echo hell | "
                                         "socat -u - UDP") +
                             (GetParam() ? "4:" : "6:[") + side().far +
                             (GetParam() ? ":81'" : "]:81'");
    EXPECT_TRUE(node_->shell(user));
    EXPECT_TRUE(receive_from(other));
    EXPECT_FALSE(captured(kSilenceMs));
}

TEST_P(CaptureTest, LoopbackAndOtherProtocolsAreNotTouched) {
    start();
    const UniqueFd local = node_socket(GetParam() ? "127.0.0.1" : "::1", 80, SOCK_DGRAM);
    const UniqueFd own = node_socket(side().inner, 81, SOCK_DGRAM);
    const UniqueFd sender = node_socket(SOCK_DGRAM);
    EXPECT_EQ(send_to(sender, {address(GetParam() ? "127.0.0.1" : "::1"), 80}), 0);
    EXPECT_TRUE(receive_from(local));
    EXPECT_EQ(send_to(sender, {address(side().inner), 81}), 0);
    EXPECT_TRUE(receive_from(own));
    constexpr int kExperiment = 253;
    const int family = GetParam() ? AF_INET : AF_INET6;
    const UniqueFd remote = router_->run(
        [&] { return UniqueFd(::socket(family, SOCK_RAW | SOCK_NONBLOCK, kExperiment)); });
    const UniqueFd raw =
        node_->run([&] { return UniqueFd(::socket(family, SOCK_RAW, kExperiment)); });
    EXPECT_EQ(send_to(raw, {address(side().far), 0}), 0);
    EXPECT_TRUE(is_ready(remote.value(), POLLIN));
    EXPECT_FALSE(captured(kSilenceMs));
    EXPECT_EQ(counter(kLeakCounter), 0U);
}

TEST_P(CaptureTest, ForcedIntoTheDeviceOtherProtocolsAndMulticastAreRefused) {
    start();
    const int family = GetParam() ? AF_INET : AF_INET6;
    const UniqueFd raw = node_->run([&] { return UniqueFd(::socket(family, SOCK_RAW, 253)); });
    const SocketAddress inner(Endpoint{address(side().inner), 0});
    ASSERT_EQ(::bind(raw.value(), inner.data(), inner.size()), 0);
    send_to(raw, {address(side().far), 0});
    const UniqueFd group = node_socket(SOCK_DGRAM);
    ASSERT_EQ(::setsockopt(group.value(), SOL_SOCKET, SO_BINDTODEVICE, "cnapt0", 6), 0);
    send_to(group, {address(GetParam() ? "239.1.2.3" : "ff0e::1"), 9});
    EXPECT_FALSE(captured(kSilenceMs));
    EXPECT_EQ(counter(kProtocolCounter), 1U);
    EXPECT_GE(counter(kGroupCounter), 1U);
}

TEST_P(CaptureTest, PacketWithTheInnerSourceThatWouldLeaveIsStoppedAndCounted) {
    start();
    const UniqueFd far = router_socket(side().far, 80, SOCK_DGRAM);
    const UniqueFd bound = node_socket(side().inner, 0, SOCK_DGRAM);
    ASSERT_TRUE(node_->run([&] {
        return netlink::RouteClient::open()->remove_own_routes(options_.routing_table).has_value();
    }));
    send_to(bound, {address(side().far), 80});
    EXPECT_FALSE(receive_from(far, kSilenceMs));
    EXPECT_EQ(counter(kLeakCounter), 1U);
}

TEST_P(CaptureTest, KillSwitchLeavesOuterDatagramsAnswersAndWhatIsExcluded) {
    options_.kill_switch = true;
    options_.exclude = {base::IpPrefix::parse("192.0.2.0/24").value(),
                        base::IpPrefix::parse("2001:db8:1::/64").value()};
    start();
    const UniqueFd far = router_socket(side().far, 80, SOCK_DGRAM);
    const UniqueFd near = router_socket(side().router, 80, SOCK_DGRAM);
    const UniqueFd bound = node_socket(side().node, 0, SOCK_DGRAM);
    send_to(bound, {address(side().far), 80});
    EXPECT_FALSE(receive_from(far, kSilenceMs));
    EXPECT_EQ(counter(kKillSwitchCounter), 1U);
    EXPECT_EQ(send_to(bound, {address(side().router), 80}), 0);
    EXPECT_TRUE(receive_from(near));
    const uint32_t mark = options_.fwmark;
    ASSERT_EQ(::setsockopt(bound.value(), SOL_SOCKET, SO_MARK, &mark, sizeof mark), 0);
    EXPECT_EQ(send_to(bound, {address(side().far), 80}), 0);
    EXPECT_TRUE(receive_from(far));
    const UniqueFd listener = node_socket(GetParam() ? "0.0.0.0" : "::", 22, SOCK_STREAM);
    ASSERT_EQ(::listen(listener.value(), 5), 0);
    const UniqueFd caller = router_->run([&] {
        return bound_socket({address(side().far), 0}, SOCK_STREAM);
    });
    router_->run([&] { connect_to(caller, {address(side().node), 22}); });
    EXPECT_TRUE(is_connected(caller));
}

TEST_P(CaptureTest, OfBypassRulesTheFirstThatMatchesDecides) {
    BypassMatch exception;
    exception.ip_protocol = 17;
    exception.destination_ports = netlink::NumberRange{53, 53};
    exception.is_bypassed = false;
    BypassMatch bypass;
    bypass.ip_protocol = 17;
    options_.bypass = {exception, bypass};
    start();
    const UniqueFd far = router_socket(side().far, 80, SOCK_DGRAM);
    const UniqueFd node = node_socket(SOCK_DGRAM);
    EXPECT_EQ(send_to(node, {address(side().far), 80}), 0);
    EXPECT_TRUE(receive_from(far));
    EXPECT_EQ(send_to(node, {address(side().far), 53}), 0);
    const auto packet = captured();
    ASSERT_TRUE(packet);
    EXPECT_EQ(packet->destination_port, 53);
}

TEST_P(CaptureTest, NewFlowsGoPlainWhileNoneIsLetInAndOldOnesStay) {
    start();
    const UniqueFd far = router_socket(side().far, 80, SOCK_DGRAM);
    const UniqueFd tunnelled = node_socket(SOCK_DGRAM);
    connect_to(tunnelled, {address(side().far), 80});
    ASSERT_EQ(::send(tunnelled.value(), "hello", 5, 0), 5);
    ASSERT_TRUE(captured());
    leave_new_flows_alone();
    const UniqueFd plain = node_socket(SOCK_DGRAM);
    EXPECT_EQ(send_to(plain, {address(side().far), 80}), 0);
    const auto from = receive_from(far);
    ASSERT_TRUE(from);
    EXPECT_EQ(from->address, address(side().node));
    ASSERT_EQ(::send(tunnelled.value(), "hello", 5, 0), 5);
    EXPECT_TRUE(captured());
    EXPECT_EQ(counter(kLeakCounter), 0U);
}

TEST_P(CaptureTest, EverythingIsAsBeforeWhenStopped) {
    const std::string before = state();
    start();
    EXPECT_NE(state(), before);
    stop();
    EXPECT_EQ(state(), before);
}

}  // namespace
}  // namespace continuo::cnapt::capture
