// The capture plan on a real kernel: a node with an uplink, a router that also is the
// correspondent, and the node's TUN.
#include "cnapt/routes.hpp"
#include "common/io/netlink_route.hpp"
#include "common/io/nft.hpp"
#include "common/io/socket_address.hpp"
#include "common/io/tun_device.hpp"
#include "tests/support/net_namespace.hpp"
#include "tests/support/raw_packet.hpp"

#include <array>
#include <fstream>
#include <sstream>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

namespace continuo::cnapt {
namespace {

using base::Endpoint;
using base::IpAddress;
using io::SocketAddress;
using io::UniqueFd;
using test::NetNamespace;
using test::RawPacket;

constexpr int kWaitMs = 2000;
constexpr int kSilenceMs = 30;

IpAddress address(std::string_view text) {
    return IpAddress::parse(text).value();
}

// What differs between the versions.
struct Side {
    const char* node;      // uplink
    const char* router;    // on-link
    const char* far;       // beyond the router
    const char* excluded;  // beyond, too
    const char* inner;     // cnapt0
    const char* client;    // behind the gateway
};
constexpr Side kSide4{"192.0.2.2",   "192.0.2.1", "198.51.100.1",
                      "203.0.113.1", "192.0.0.5", "192.168.9.2"};
constexpr Side kSide6{"2001:db8:1::2", "2001:db8:1::1",     "2001:db8:2::1",
                      "2001:db8:3::1", "fd43:6f6e:7469::1", "fd99::2"};

UniqueFd open_socket(const IpAddress& version_of, int type) {
    const int family = version_of.is_v4() ? AF_INET : AF_INET6;
    UniqueFd fd(::socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    EXPECT_TRUE(fd.is_open());
    const int on = 1;
    ::setsockopt(fd.value(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    return fd;
}

UniqueFd bound_socket(const Endpoint& local, int type) {
    UniqueFd fd = open_socket(local.address, type);
    const SocketAddress name(local);
    EXPECT_EQ(::bind(fd.value(), name.data(), name.size()), 0) << local.to_string();
    return fd;
}

int connect_to(const UniqueFd& fd, const Endpoint& to) {
    const SocketAddress name(to);
    return ::connect(fd.value(), name.data(), name.size()) == 0 ? 0 : errno;
}

bool is_ready(int fd, short events, int wait_ms = kWaitMs) {
    pollfd wanted{fd, events, 0};
    return ::poll(&wanted, 1, wait_ms) == 1;
}

bool is_connected(const UniqueFd& fd, int wait_ms = kWaitMs) {
    if (!is_ready(fd.value(), POLLOUT, wait_ms)) {
        return false;
    }
    int error = 0;
    socklen_t length = sizeof error;
    ::getsockopt(fd.value(), SOL_SOCKET, SO_ERROR, &error, &length);
    return error == 0;
}

int send_to(const UniqueFd& fd, const Endpoint& to) {
    const SocketAddress name(to);
    return ::sendto(fd.value(), "hello", 5, 0, name.data(), name.size()) == 5 ? 0 : errno;
}

std::optional<Endpoint> receive_from(const UniqueFd& fd, int wait_ms = kWaitMs) {
    std::array<char, 100> bytes{};
    SocketAddress name;
    socklen_t length = SocketAddress::capacity();
    if (!is_ready(fd.value(), POLLIN, wait_ms) ||
        ::recvfrom(fd.value(), bytes.data(), bytes.size(), 0, name.data(), &length) != 5) {
        return std::nullopt;
    }
    return name.endpoint();
}

class CaptureTest : public testing::TestWithParam<bool> {
  protected:
    void SetUp() override {
        node_ = NetNamespace::create();
        router_ = NetNamespace::create();
        if (!node_ || !router_) {
            GTEST_SKIP() << "needs CAP_SYS_ADMIN and iproute2 for network namespaces";
        }
        // Duplicate address detection would delay each test by seconds; so would the carrier if
        // both interfaces of a pair had the same index (Linux then takes it for an event that is
        // not urgent).
        for (const auto* space : {&node_, &router_}) {
            ASSERT_TRUE((*space)->shell(
                "for d in all default; do echo 0 > /proc/sys/net/ipv6/conf/$d/accept_dad; done"));
        }
        ASSERT_TRUE(node_->shell(
            "ip link add up0 index 100 type veth peer name peer netns " + router_->path() +
            " && "
            "ip addr add 192.0.2.2/24 dev up0 && ip addr add 2001:db8:1::2/64 dev up0 nodad && "
            "ip link set up0 up && echo "
            "1 > /proc/sys/net/ipv4/conf/all/rp_filter"));
        ASSERT_TRUE(router_->shell(
            "ip addr add 192.0.2.1/24 dev peer && ip addr add 2001:db8:1::1/64 dev peer nodad && "
            "ip addr add 198.51.100.1/32 dev lo && ip addr add 2001:db8:2::1/128 dev lo && "
            "ip addr add 203.0.113.1/32 dev lo && ip addr add 2001:db8:3::1/128 dev lo && "
            "ip link set peer up"));
        ASSERT_TRUE(node_->shell("ip route add default via 192.0.2.1 && "
                                 "ip -6 route add default via 2001:db8:1::1"));
        // Until both ends see the carrier.
        ASSERT_TRUE(node_->shell(
            "for i in $(seq 100); do ping -q -c 1 -W 0.05 2001:db8:1::1 >/dev/null && exit 0; "
            "done; exit 1"));
        options_.ipv4 = default_node_ipv4();
        options_.ipv6 = default_node_ipv6();
        options_.exclude = {base::IpPrefix::parse("203.0.113.0/24").value(),
                            base::IpPrefix::parse("2001:db8:3::/64").value()};
    }

    void start() {
        plan_ = build_capture_plan(options_);
        const NetNamespace::Visit visit(*node_);
        auto device = io::TunDevice::open(options_.device, {});
        ASSERT_TRUE(device);
        tun_ = std::move(*device);
        for (const io::SysctlSetting& setting : plan_.device_settings) {
            ASSERT_TRUE(io::write_sysctl(setting.key, setting.value)) << setting.key;
        }
        io::RouteClient client = io::RouteClient::open().value();
        ASSERT_TRUE(client.add_address(tun_->interface_index(), *options_.ipv4, 32));
        ASSERT_TRUE(client.add_address(tun_->interface_index(), *options_.ipv6, 128));
        io::LinkSettings up;
        up.up = true;
        ASSERT_TRUE(client.set_link(tun_->interface_index(), up));
        for (const io::RouteEntry& route : plan_.routes) {
            ASSERT_TRUE(client.set_route(route)) << client.last_error_text();
        }
        for (const io::RuleEntry& rule : plan_.rules) {
            ASSERT_TRUE(client.add_rule(rule)) << client.last_error_text();
        }
        for (const io::RuleEntry& rule : plan_.capture_rules) {
            ASSERT_TRUE(client.add_rule(rule)) << client.last_error_text();
        }
        io::Nft nft;
        ASSERT_TRUE(nft.apply(plan_.ruleset)) << nft.error_text() << plan_.ruleset;
    }

    // As when no SNAPT answers.
    void leave_new_flows_alone() {
        const NetNamespace::Visit visit(*node_);
        io::RouteClient client = io::RouteClient::open().value();
        for (const io::RuleEntry& rule : plan_.capture_rules) {
            ASSERT_TRUE(client.remove_rule(rule)) << client.last_error_text();
        }
        io::Nft nft;
        ASSERT_TRUE(plan_.close_gateway.empty() || nft.apply(plan_.close_gateway))
            << nft.error_text();
    }

    void stop() {
        const NetNamespace::Visit visit(*node_);
        io::RouteClient client = io::RouteClient::open().value();
        EXPECT_TRUE(client.remove_own_rules(plan_.first_priority, plan_.last_priority));
        EXPECT_TRUE(client.remove_own_routes(options_.routing_table));
        io::Nft nft;
        EXPECT_TRUE(nft.remove_table(plan_.table));
        tun_.reset();
    }

    // The next packet that the kernel put into the TUN; listener reports of a device without a
    // link-local address (RFC 3590) aside.
    std::optional<RawPacket> captured(int wait_ms = kWaitMs) {
        std::vector<uint8_t> buffer(io::kTunFrameBytes);
        while (is_ready(tun_->fd(), POLLIN, wait_ms)) {
            const auto length = tun_->read(buffer);
            if (!length) {
                continue;
            }
            auto packet = test::parse_frame(base::ByteView(buffer).first(*length));
            if (packet && !packet->source.is_unspecified()) {
                return packet;
            }
        }
        return std::nullopt;
    }

    uint64_t counter(std::string_view name) {
        return node_->run([&] {
            io::Nft nft;
            const auto found = nft.counter(plan_.table, name);
            EXPECT_TRUE(found) << nft.error_text();
            return found ? found->packets : 0;
        });
    }
    std::string state() {
        const std::string path =
            testing::TempDir() + "continuo-state-" + std::to_string(::getpid());
        EXPECT_TRUE(node_->shell("(ip rule; ip -6 rule; ip route show table all; "
                                 "ip -6 route show table all; nft list ruleset) > " +
                                 path));
        std::ifstream file(path);
        std::stringstream text;
        text << file.rdbuf();
        ::unlink(path.c_str());
        return text.str();
    }
    const Side& side() const { return GetParam() ? kSide4 : kSide6; }
    UniqueFd router_socket(const char* local, uint16_t port, int type) {
        return router_->run([&] {
            UniqueFd fd = bound_socket({address(local), port}, type);
            if (type == SOCK_STREAM) {
                EXPECT_EQ(::listen(fd.value(), 5), 0);
            }
            return fd;
        });
    }
    UniqueFd node_socket(int type) {
        return node_->run([&] { return open_socket(address(side().node), type); });
    }
    UniqueFd node_socket(const char* local, uint16_t port, int type) {
        return node_->run([&] { return bound_socket({address(local), port}, type); });
    }

    std::optional<NetNamespace> node_;
    std::optional<NetNamespace> router_;
    CaptureOptions options_;
    CapturePlan plan_;
    std::optional<io::TunDevice> tun_;
};

INSTANTIATE_TEST_SUITE_P(Versions, CaptureTest, testing::Values(true, false));

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

TEST_P(CaptureTest, BypassByPortAndUserGoesPlain) {
    options_.bypass.push_back({{}, 17, io::NumberRange{80, 80}, {}});
    options_.bypass.push_back({{}, {}, {}, io::NumberRange{4711, 4711}});
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
        return io::RouteClient::open()->remove_own_routes(options_.routing_table).has_value();
    }));
    send_to(bound, {address(side().far), 80});
    EXPECT_FALSE(receive_from(far, kSilenceMs));
    EXPECT_EQ(counter(kLeakCounter), 1U);
}

// With a client behind the node, which masquerades what it routes plain.
class GatewayTest : public CaptureTest {
  protected:
    void SetUp() override {
        CaptureTest::SetUp();
        if (IsSkipped()) {
            return;
        }
        options_.gateway_interfaces = {"lan0"};
        lan_ = NetNamespace::create();
        ASSERT_TRUE(lan_);
        ASSERT_TRUE(node_->shell("ip link add lan0 index 101 type veth peer name peer netns " +
                                 lan_->path() +
                                 " && ip addr add 192.168.9.1/24 dev lan0 && "
                                 "ip addr add fd99::1/64 dev lan0 nodad && ip link set lan0 up && "
                                 "echo 1 > /proc/sys/net/ipv4/ip_forward && "
                                 "echo 1 > /proc/sys/net/ipv6/conf/all/forwarding && "
                                 "nft 'add table inet host; "
                                 "add chain inet host post { type nat hook postrouting priority "
                                 "srcnat + 1; }; "
                                 "add rule inet host post oifname up0 masquerade'"));
        ASSERT_TRUE(lan_->shell("ip addr add 192.168.9.2/24 dev peer && "
                                "ip addr add fd99::2/64 dev peer nodad && ip link set peer up && "
                                "ip route add default via 192.168.9.1 && "
                                "ip -6 route add default via fd99::1"));
        start();
    }
    UniqueFd client_socket() {
        return lan_->run([&] { return bound_socket({address(side().client), 0}, SOCK_DGRAM); });
    }
    void send_far(const UniqueFd& client) {
        ASSERT_EQ(lan_->run([&] { return send_to(client, {address(side().far), 80}); }), 0);
    }

    std::optional<NetNamespace> lan_;
};

INSTANTIATE_TEST_SUITE_P(Versions, GatewayTest, testing::Values(true, false));

TEST_P(GatewayTest, AFlowOfTheLanStaysWhereItBegan) {
    const UniqueFd far = router_socket(side().far, 80, SOCK_DGRAM);
    const UniqueFd tunnelled = client_socket();
    send_far(tunnelled);
    ASSERT_TRUE(captured());
    leave_new_flows_alone();
    const UniqueFd plain = client_socket();
    send_far(plain);
    const auto from = receive_from(far);
    ASSERT_TRUE(from);
    EXPECT_EQ(from->address, address(side().node));
    send_far(tunnelled);
    EXPECT_TRUE(captured()) << "began in the tunnel";
    node_->run([&] {
        io::Nft nft;
        EXPECT_TRUE(nft.apply(plan_.open_gateway)) << nft.error_text();
    });
    send_far(plain);
    EXPECT_TRUE(receive_from(far)) << "began outside";
    send_far(client_socket());
    EXPECT_TRUE(captured()) << "new ones are let in again";
    EXPECT_EQ(counter(kLeakCounter), 0U);
}

TEST_P(GatewayTest, ClientsAreMasqueradedBothWays) {
    const UniqueFd client = client_socket();
    send_far(client);
    auto packet = captured();
    ASSERT_TRUE(packet);
    EXPECT_EQ(packet->source, address(side().inner));
    std::swap(packet->source, packet->destination);
    std::swap(packet->source_port, packet->destination_port);
    ASSERT_TRUE(tun_->write(test::build_frame(*packet)));
    const auto from = receive_from(client);
    ASSERT_TRUE(from);
    EXPECT_EQ(from->address, address(side().far));
    // The gateway itself is reached directly.
    const UniqueFd own = node_socket(GetParam() ? "0.0.0.0" : "::", 53, SOCK_DGRAM);
    EXPECT_EQ(lan_->run([&] {
        return send_to(client, {address(GetParam() ? "192.168.9.1" : "fd99::1"), 53});
    }),
              0);
    EXPECT_TRUE(receive_from(own));
    EXPECT_EQ(counter(kLeakCounter), 0U);
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
    exception.destination_ports = io::NumberRange{53, 53};
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
}  // namespace continuo::cnapt
