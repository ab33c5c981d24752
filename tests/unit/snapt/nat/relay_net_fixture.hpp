// RelayTest: the relay's rules on a real kernel. The test plays snapt's TUN with packets from
// leases; a correspondent answers.
#pragma once

#include "common/host/tun_device.hpp"
#include "common/io/socket_address.hpp"
#include "common/netfilter/netfilter.hpp"
#include "common/netfilter/nft.hpp"
#include "common/netlink/netlink_route.hpp"
#include "snapt/nat/host_network.hpp"
#include "snapt/nat/nat.hpp"
#include "snapt/nat/nat_limit.hpp"
#include "tests/support/net_namespace.hpp"
#include "tests/support/raw_packet.hpp"

#include <array>

#include <poll.h>
#include <sys/socket.h>

namespace continuo::snapt::nat {
namespace {

using base::Endpoint;
using base::IpAddress;
using base::IpPrefix;
using io::SocketAddress;
using io::UniqueFd;
using test::NetNamespace;
using test::RawPacket;

constexpr int kWaitMs = 2000;
constexpr int kSilenceMs = 30;

IpAddress address(std::string_view text) {
    return IpAddress::parse(text).value();
}

struct Side {
    const char* lease;
    const char* other_lease;
    const char* inner;  // of the SNAPT
    const char* wan;    // egress
    const char* pool;   // second address of the egress
    const char* far;    // correspondent
    const char* near;   // private, behind the same egress
    uint8_t icmp;
};
constexpr Side kSide4{"100.64.0.2",  "100.64.0.3",   "100.64.0.1", "203.0.113.2",
                      "203.0.113.9", "198.51.100.1", "10.1.2.3",   1};
constexpr Side kSide6{"fd93:47::2",    "fd93:47::3",    "fd93:47::1", "2001:db8:1::2",
                      "2001:db8:1::9", "2001:db8:2::1", "fd00:5::1",  58};

bool is_ready(int fd, int wait_ms) {
    pollfd wanted{fd, POLLIN, 0};
    return ::poll(&wanted, 1, wait_ms) == 1;
}

struct Datagram {
    Endpoint from;
    std::string text;
};

class RelayTest : public testing::TestWithParam<bool> {
  protected:
    void SetUp() override {
        relay_ = NetNamespace::create();
        internet_ = NetNamespace::create();
        if (!relay_ || !internet_) {
            GTEST_SKIP() << "needs CAP_SYS_ADMIN and iproute2 for network namespaces";
        }
        // Duplicate address detection would delay each test by seconds; so would the carrier if
        // both interfaces of a pair had the same index (Linux then takes it for an event that is
        // not urgent).
        for (const auto* space : {&relay_, &internet_}) {
            ASSERT_TRUE((*space)->shell(
                "for d in all default; do echo 0 > /proc/sys/net/ipv6/conf/$d/accept_dad; done"));
        }
        ASSERT_TRUE(relay_->shell(
            "ip link add wan0 index 100 type veth peer name peer netns " + internet_->path() +
            " && "
            "ip addr add 203.0.113.2/24 dev wan0 && ip addr add 203.0.113.9/24 dev wan0 && "
            "ip addr add 2001:db8:1::2/64 dev wan0 nodad && "
            "ip addr add 2001:db8:1::9/64 dev wan0 nodad && echo 10 > "
            "/proc/sys/net/ipv6/neigh/wan0/retrans_time_ms && ip link set wan0 up"));
        ASSERT_TRUE(internet_->shell(
            "ip addr add 203.0.113.1/24 dev peer && ip addr add 2001:db8:1::1/64 dev peer nodad && "
            "ip addr add 198.51.100.1/32 dev lo && ip addr add 2001:db8:2::1/128 dev lo && "
            "ip addr add 10.1.2.3/32 dev lo && ip addr add fd00:5::1/128 dev lo && "
            "ip link set peer up"));
        ASSERT_TRUE(relay_->shell("ip route add default via 203.0.113.1 && "
                                  "ip -6 route add default via 2001:db8:1::1"));
        ASSERT_TRUE(relay_->shell(
            "for i in $(seq 100); do ping -q -c 1 -W 0.05 2001:db8:1::1 >/dev/null && exit 0; "
            "done; exit 1"));
        options_.lease_ipv4 = IpPrefix::parse("100.64.0.0/16");
        options_.lease_ipv6 = IpPrefix::parse("fd93:47::/64");
    }

    void start() {
        const NetNamespace::Visit visit(*relay_);
        auto device = host::TunDevice::open(options_.device, {});
        ASSERT_TRUE(device);
        tun_ = std::move(*device);
        for (const host::SysctlSetting& setting : relay_device_sysctls(options_.device)) {
            ASSERT_TRUE(host::write_sysctl(setting.key, setting.value)) << setting.key;
        }
        netlink::RouteClient client = netlink::RouteClient::open().value();
        ASSERT_TRUE(client.add_address(tun_->interface_index(), address("100.64.0.1"), 16));
        ASSERT_TRUE(client.add_address(tun_->interface_index(), address("fd93:47::1"), 64));
        netlink::LinkSettings up;
        up.up = true;
        ASSERT_TRUE(client.set_link(tun_->interface_index(), up));
        apply();
        for (const host::SysctlSetting& setting : relay_sysctls(options_, true, {})) {
            ASSERT_TRUE(host::write_sysctl(setting.key, setting.value)) << setting.key;
        }
    }
    void apply() {
        const NetNamespace::Visit visit(*relay_);
        netfilter::Nft nft;
        const std::string text = build_relay_ruleset(options_);
        ASSERT_TRUE(nft.apply(text)) << nft.error_text() << text;
    }
    void limit(const ConnectionCounts& counts) {
        const NetNamespace::Visit visit(*relay_);
        netfilter::Nft nft;
        const std::string text = build_limit_ruleset(options_.device, counts);
        const std::string table = limit_table(options_.device);
        EXPECT_FALSE(nft.has_chain(table, limit_chain(counts)).value());
        ASSERT_TRUE(nft.apply(text)) << nft.error_text() << text;
        EXPECT_TRUE(nft.has_chain(table, limit_chain(counts)).value());
    }
    uint64_t refused() {
        const NetNamespace::Visit visit(*relay_);
        auto client = netfilter::NetfilterClient::open();
        const auto packets =
            client->counted_packets("continuo_connections_snapt0", kConnectionLimitCounter);
        EXPECT_TRUE(packets);
        return packets ? *packets : 0;
    }
    uint64_t counter(std::string_view name) {
        const NetNamespace::Visit visit(*relay_);
        netfilter::Nft nft;
        const auto found = nft.counter(relay_table(options_.device), name);
        EXPECT_TRUE(found) << nft.error_text();
        return found ? found->packets : 0;
    }
    const Side& side() const { return GetParam() ? kSide4 : kSide6; }

    UniqueFd correspondent(const char* local, uint16_t port) {
        const NetNamespace::Visit visit(*internet_);
        const int family = GetParam() ? AF_INET : AF_INET6;
        UniqueFd fd(::socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
        const SocketAddress name(Endpoint{address(local), port});
        EXPECT_EQ(::bind(fd.value(), name.data(), name.size()), 0);
        return fd;
    }
    static std::optional<Datagram> receive(const UniqueFd& fd, int wait_ms = kWaitMs) {
        std::array<char, 2000> bytes{};
        SocketAddress name;
        socklen_t length = SocketAddress::capacity();
        if (!is_ready(fd.value(), wait_ms)) {
            return std::nullopt;
        }
        const ssize_t got =
            ::recvfrom(fd.value(), bytes.data(), bytes.size(), 0, name.data(), &length);
        return Datagram{name.endpoint().value(),
                        std::string(bytes.data(), got > 0 ? static_cast<size_t>(got) : 0)};
    }
    static void send(const UniqueFd& fd, const Endpoint& to, std::string_view text) {
        const SocketAddress name(to);
        EXPECT_EQ(::sendto(fd.value(), text.data(), text.size(), 0, name.data(), name.size()),
                  static_cast<ssize_t>(text.size()));
    }
    // A datagram of a client.
    RawPacket datagram(const char* from, const char* to, uint16_t port = 53) const {
        RawPacket packet;
        packet.source = address(from);
        packet.destination = address(to);
        packet.source_port = 5000;
        packet.destination_port = port;
        packet.payload = {'h', 'i'};
        return packet;
    }
    void put(const RawPacket& packet) { ASSERT_TRUE(tun_->write(test::build_frame(packet))); }
    std::optional<RawPacket> take(int wait_ms = kWaitMs) {
        std::vector<uint8_t> buffer(host::kTunFrameBytes);
        while (is_ready(tun_->fd(), wait_ms)) {
            const auto length = tun_->read(buffer);
            if (length) {
                return test::parse_frame(base::ByteView(buffer).first(*length));
            }
        }
        return std::nullopt;
    }

    std::optional<NetNamespace> relay_;
    std::optional<NetNamespace> internet_;
    RelayOptions options_;
    std::optional<host::TunDevice> tun_;
};

}  // namespace
}  // namespace continuo::snapt::nat
