// A node and a router in network namespaces, with what captures the node's traffic in force.
#pragma once

// The capture plan on a real kernel: a node with an uplink, a router that also is the
// correspondent, and the node's TUN.
#include "cnapt/capture/routes.hpp"
#include "cnapt/uplinks/node_addresses.hpp"
#include "common/host/tun_device.hpp"
#include "common/io/socket_address.hpp"
#include "common/netfilter/nft.hpp"
#include "common/netlink/netlink_route.hpp"
#include "tests/support/net_namespace.hpp"
#include "tests/support/raw_packet.hpp"

#include <array>
#include <fstream>
#include <sstream>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

namespace continuo::cnapt::capture {
namespace {

using base::Endpoint;
using base::IpAddress;
using io::SocketAddress;
using io::UniqueFd;
using test::NetNamespace;
using test::RawPacket;

constexpr int kWaitMs = 2000;
constexpr int kSilenceMs = 30;

inline IpAddress address(std::string_view text) {
    return IpAddress::parse(text).value();
}

// The differences between the versions.
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
                      "2001:db8:3::1", "64:ff9b:1::c000:5", "fd99::2"};

inline UniqueFd open_socket(const IpAddress& version_of, int type) {
    const int family = version_of.is_v4() ? AF_INET : AF_INET6;
    UniqueFd fd(::socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    EXPECT_TRUE(fd.is_open());
    const int on = 1;
    ::setsockopt(fd.value(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    return fd;
}

inline UniqueFd bound_socket(const Endpoint& local, int type) {
    UniqueFd fd = open_socket(local.address, type);
    const SocketAddress name(local);
    EXPECT_EQ(::bind(fd.value(), name.data(), name.size()), 0) << local.to_string();
    return fd;
}

inline int connect_to(const UniqueFd& fd, const Endpoint& to) {
    const SocketAddress name(to);
    return ::connect(fd.value(), name.data(), name.size()) == 0 ? 0 : errno;
}

inline bool is_ready(int fd, short events, int wait_ms = kWaitMs) {
    pollfd wanted{fd, events, 0};
    return ::poll(&wanted, 1, wait_ms) == 1;
}

inline bool is_connected(const UniqueFd& fd, int wait_ms = kWaitMs) {
    if (!is_ready(fd.value(), POLLOUT, wait_ms)) {
        return false;
    }
    int error = 0;
    socklen_t length = sizeof error;
    ::getsockopt(fd.value(), SOL_SOCKET, SO_ERROR, &error, &length);
    return error == 0;
}

inline int send_to(const UniqueFd& fd, const Endpoint& to) {
    const SocketAddress name(to);
    return ::sendto(fd.value(), "hello", 5, 0, name.data(), name.size()) == 5 ? 0 : errno;
}

inline std::optional<Endpoint> receive_from(const UniqueFd& fd, int wait_ms = kWaitMs) {
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
        options_.ipv4 = uplinks::default_node_ipv4();
        options_.ipv6 = uplinks::default_node_ipv6();
        options_.exclude = {base::IpPrefix::parse("203.0.113.0/24").value(),
                            base::IpPrefix::parse("2001:db8:3::/64").value()};
    }

    void start() {
        plan_ = build_capture_plan(options_);
        const NetNamespace::Visit visit(*node_);
        auto device = host::TunDevice::open(options_.device, {});
        ASSERT_TRUE(device);
        tun_ = std::move(*device);
        for (const host::SysctlSetting& setting : plan_.device_settings) {
            ASSERT_TRUE(host::write_sysctl(setting.key, setting.value)) << setting.key;
        }
        netlink::RouteClient client = netlink::RouteClient::open().value();
        ASSERT_TRUE(client.add_address(tun_->interface_index(), *options_.ipv4, 32));
        ASSERT_TRUE(client.add_address(tun_->interface_index(), *options_.ipv6, 128));
        netlink::LinkSettings up;
        up.up = true;
        ASSERT_TRUE(client.set_link(tun_->interface_index(), up));
        for (const netlink::RouteEntry& route : plan_.routes) {
            ASSERT_TRUE(client.set_route(route)) << client.last_error_text();
        }
        for (const netlink::RuleEntry& rule : plan_.rules) {
            ASSERT_TRUE(client.add_rule(rule)) << client.last_error_text();
        }
        for (const netlink::RuleEntry& rule : plan_.capture_rules) {
            ASSERT_TRUE(client.add_rule(rule)) << client.last_error_text();
        }
        netfilter::Nft nft;
        ASSERT_TRUE(nft.apply(plan_.ruleset)) << nft.error_text() << plan_.ruleset;
    }

    // As when no SNAPT answers.
    void leave_new_flows_alone() {
        const NetNamespace::Visit visit(*node_);
        netlink::RouteClient client = netlink::RouteClient::open().value();
        for (const netlink::RuleEntry& rule : plan_.capture_rules) {
            ASSERT_TRUE(client.remove_rule(rule)) << client.last_error_text();
        }
        netfilter::Nft nft;
        ASSERT_TRUE(plan_.close_gateway.empty() || nft.apply(plan_.close_gateway))
            << nft.error_text();
    }

    void stop() {
        const NetNamespace::Visit visit(*node_);
        netlink::RouteClient client = netlink::RouteClient::open().value();
        EXPECT_TRUE(client.remove_own_rules(plan_.first_priority, plan_.last_priority));
        EXPECT_TRUE(client.remove_own_routes(options_.routing_table));
        netfilter::Nft nft;
        EXPECT_TRUE(nft.remove_table(plan_.table));
        tun_.reset();
    }

    // The next packet that the kernel put into the TUN; listener reports of a device without a
    // link-local address (RFC 3590) aside.
    std::optional<RawPacket> captured(int wait_ms = kWaitMs) {
        std::vector<uint8_t> buffer(host::kTunFrameBytes);
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
            netfilter::Nft nft;
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
    std::optional<host::TunDevice> tun_;
};

}  // namespace
}  // namespace continuo::cnapt::capture
