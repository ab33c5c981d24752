// The relay's rules on a real kernel: the test plays snapt's TUN with packets from leases; a
// correspondent answers.
#include "common/io/netfilter.hpp"
#include "common/io/netlink_route.hpp"
#include "common/io/nft.hpp"
#include "common/io/socket_address.hpp"
#include "common/io/tun_device.hpp"
#include "snapt/host_network.hpp"
#include "snapt/nat.hpp"
#include "snapt/nat_limit.hpp"
#include "tests/support/net_namespace.hpp"
#include "tests/support/raw_packet.hpp"

#include <array>

#include <poll.h>
#include <sys/socket.h>

namespace continuo::snapt {
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
        auto device = io::TunDevice::open(options_.device, {});
        ASSERT_TRUE(device);
        tun_ = std::move(*device);
        for (const io::SysctlSetting& setting : relay_device_sysctls(options_.device)) {
            ASSERT_TRUE(io::write_sysctl(setting.key, setting.value)) << setting.key;
        }
        io::RouteClient client = io::RouteClient::open().value();
        ASSERT_TRUE(client.add_address(tun_->interface_index(), address("100.64.0.1"), 16));
        ASSERT_TRUE(client.add_address(tun_->interface_index(), address("fd93:47::1"), 64));
        io::LinkSettings up;
        up.up = true;
        ASSERT_TRUE(client.set_link(tun_->interface_index(), up));
        apply();
        for (const io::SysctlSetting& setting : relay_sysctls(options_, true, {})) {
            ASSERT_TRUE(io::write_sysctl(setting.key, setting.value)) << setting.key;
        }
    }
    void apply() {
        const NetNamespace::Visit visit(*relay_);
        io::Nft nft;
        const std::string text = build_relay_ruleset(options_);
        ASSERT_TRUE(nft.apply(text)) << nft.error_text() << text;
    }
    void limit(const ConnectionCounts& counts) {
        const NetNamespace::Visit visit(*relay_);
        io::Nft nft;
        const std::string text = build_limit_ruleset(options_.device, counts);
        const std::string table = limit_table(options_.device);
        EXPECT_FALSE(nft.has_chain(table, limit_chain(counts)).value());
        ASSERT_TRUE(nft.apply(text)) << nft.error_text() << text;
        EXPECT_TRUE(nft.has_chain(table, limit_chain(counts)).value());
    }
    uint64_t refused() {
        const NetNamespace::Visit visit(*relay_);
        auto client = io::NetfilterClient::open();
        const auto packets =
            client->counted_packets("continuo_connections_snapt0", kConnectionLimitCounter);
        EXPECT_TRUE(packets);
        return packets ? *packets : 0;
    }
    uint64_t counter(std::string_view name) {
        const NetNamespace::Visit visit(*relay_);
        io::Nft nft;
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
        std::vector<uint8_t> buffer(io::kTunFrameBytes);
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
    std::optional<io::TunDevice> tun_;
};

INSTANTIATE_TEST_SUITE_P(Versions, RelayTest, testing::Values(true, false));

TEST_P(RelayTest, DatagramsLeaveWithTheRelaysAddressAndAnswersComeBackToTheLease) {
    start();
    const UniqueFd far = correspondent(side().far, 53);
    put(datagram(side().lease, side().far));
    const auto request = receive(far);
    ASSERT_TRUE(request);
    EXPECT_EQ(request->text, "hi");
    // Masquerading may choose either address of the interface.
    EXPECT_TRUE(request->from.address == address(side().wan) ||
                request->from.address == address(side().pool));
    EXPECT_GE(request->from.port, options_.source_ports.front().first);
    send(far, request->from, "answer");
    const auto answer = take();
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->destination, address(side().lease));
    EXPECT_EQ(answer->destination_port, 5000);
    EXPECT_EQ(std::string(answer->payload.begin(), answer->payload.end()), "answer");
    EXPECT_EQ(counter(kLeakCounter), 0U);
}

TEST_P(RelayTest, EchoesAndConnectionsPassToo) {
    start();
    RawPacket echo = datagram(side().lease, side().far);
    echo.protocol = side().icmp;
    put(echo);
    auto answer = take();
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->protocol, side().icmp);
    EXPECT_EQ(answer->source, address(side().far));
    EXPECT_EQ(answer->destination, address(side().lease));
    EXPECT_EQ(answer->source_port, 5000);
    RawPacket syn = datagram(side().lease, side().far, 9);
    syn.protocol = 6;
    syn.payload.clear();
    put(syn);
    // Nobody listens: the correspondent's RST comes back.
    answer = take();
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->protocol, 6);
    EXPECT_EQ(answer->destination, address(side().lease));
    EXPECT_EQ(answer->destination_port, 5000);
}

TEST_P(RelayTest, ErrorMessagesOfTheWayReachTheLease) {
    start();
    put(datagram(side().lease, side().far, 9));
    // Nobody listens on port 9.
    const auto answer = take();
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->protocol, side().icmp);
    EXPECT_EQ(answer->destination, address(side().lease));
}

TEST_P(RelayTest, BindingsOutliveANewRuleset) {
    start();
    const UniqueFd far = correspondent(side().far, 53);
    put(datagram(side().lease, side().far));
    const auto first = receive(far);
    ASSERT_TRUE(first);
    apply();
    put(datagram(side().lease, side().far));
    const auto second = receive(far);
    ASSERT_TRUE(second);
    EXPECT_EQ(second->from, first->from);
    send(far, second->from, "answer");
    EXPECT_TRUE(take());
}

TEST_P(RelayTest, PortsThatAreLeftOutAreNotHandedOutAndOthersStay) {
    options_.source_ports = {{9348, 65535}, {1024, 9346}};
    // Of the host, and looked at later than the relay's.
    ASSERT_TRUE(relay_->shell("nft 'add table inet host; add chain inet host post { type nat hook "
                              "postrouting priority srcnat; }; add rule inet host post oifname "
                              "wan0 masquerade'"));
    start();
    const UniqueFd far = correspondent(side().far, 53);
    const auto mapped = [&](uint16_t port) {
        RawPacket packet = datagram(side().lease, side().far);
        packet.source_port = port;
        put(packet);
        const auto request = receive(far);
        return request ? request->from.port : uint16_t{0};
    };
    EXPECT_EQ(mapped(5000), 5000);
    EXPECT_EQ(mapped(40000), 40000);
    EXPECT_GE(mapped(9347), 9348);
    EXPECT_GE(mapped(80), 9348);
}

TEST_P(RelayTest, OtherPortsLeaveCountersAndBindingsAsTheyAre) {
    start();
    const UniqueFd far = correspondent(side().far, 53);
    put(datagram(side().lease, side().near));
    EXPECT_TRUE(take());  // the refusal
    put(datagram(side().lease, side().far));
    ASSERT_TRUE(receive(far));
    options_.source_ports = {{6000, 65535}};
    {
        const NetNamespace::Visit visit(*relay_);
        io::Nft nft;
        ASSERT_TRUE(nft.apply(build_nat_ruleset(options_))) << nft.error_text();
    }
    EXPECT_EQ(counter(kDeniedCounter), 1U);
    put(datagram(side().lease, side().far));
    const auto bound = receive(far);
    ASSERT_TRUE(bound);
    EXPECT_EQ(bound->from.port, 5000);
    put(datagram(side().other_lease, side().far));
    const auto fresh = receive(far);
    ASSERT_TRUE(fresh);
    EXPECT_GE(fresh->from.port, 6000);
}

TEST_P(RelayTest, AForgottenConnectionGetsNoAnswer) {
    start();
    const UniqueFd far = correspondent(side().far, 53);
    put(datagram(side().lease, side().far));
    const auto first = receive(far);
    ASSERT_TRUE(first);
    put(datagram(side().other_lease, side().far));
    const auto second = receive(far);
    ASSERT_TRUE(second);
    {
        const NetNamespace::Visit visit(*relay_);
        const auto forgotten = io::NetfilterClient::open().value().forget_if(
            address(side().lease).version, [&](const io::TrackedConnection& connection) {
                return connection.source == address(side().lease) &&
                       connection.source_port == 5000 &&
                       connection.translated == first->from.address &&
                       connection.translated_port == first->from.port;
            });
        ASSERT_TRUE(forgotten);
        EXPECT_EQ(*forgotten, 1U);
    }
    send(far, first->from, "lost");
    send(far, second->from, "answer");
    const auto answer = take();
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->destination, address(side().other_lease));
    EXPECT_FALSE(take(kSilenceMs));
}

TEST_P(RelayTest, ConnectionsOfALeaseAreLimitedAndWhatIsRefusedIsCounted) {
    start();
    limit({2, 16});
    const UniqueFd far = correspondent(side().far, 53);
    RawPacket packet = datagram(side().lease, side().far);
    uint64_t passed = 0;
    for (unsigned i = 0; i < 200; ++i) {
        ++packet.source_port;
        put(packet);
        // A refusal is counted before the packet is written.
        passed += receive(far, refused() + passed == i + 1 ? 0 : kWaitMs) ? 1U : 0U;
        ASSERT_EQ(passed + refused(), i + 1);
    }
    EXPECT_EQ(passed, 32U);
    const auto word = take();
    ASSERT_TRUE(word);
    EXPECT_EQ(word->protocol, side().icmp);
    packet.source_port = 5001;
    put(packet);
    EXPECT_TRUE(receive(far)) << "a connection that is there goes on";
    put(datagram(side().other_lease, side().far));
    EXPECT_TRUE(receive(far)) << "so does another lease";
}

TEST_P(RelayTest, OnlyTheEndOfConnectionsMakesRoomForOthers) {
    start();
    limit({1, 2});
    const UniqueFd far = correspondent(side().far, 53);
    RawPacket packet = datagram(side().lease, side().far);
    for (unsigned i = 0; i < 2; ++i) {
        ++packet.source_port;
        put(packet);
        EXPECT_TRUE(receive(far));
    }
    apply();  // the relay's rules
    RawPacket syn = datagram(side().lease, side().far, 9);
    syn.protocol = 6;
    syn.payload.clear();
    put(syn);
    const auto reset = take();
    ASSERT_TRUE(reset);
    EXPECT_EQ(reset->protocol, 6);
    EXPECT_EQ(refused(), 1U);
    const NetNamespace::Visit visit(*relay_);
    Lease lease;
    (GetParam() ? lease.ipv4 : lease.ipv6) = address(side().lease);
    ASSERT_TRUE(forget_connections_of(lease));
    ++packet.source_port;
    put(packet);
    EXPECT_TRUE(receive(far));
}

TEST_P(RelayTest, PoolAddressesAndPortsAreUsedAndALeaseKeepsItsAddress) {
    options_.source_pool = {address("203.0.113.9"), address("203.0.113.2"),
                            address("2001:db8:1::9"), address("2001:db8:1::2")};
    options_.source_ports = {{40000, 40999}};
    start();
    const UniqueFd far = correspondent(side().far, 53);
    std::array<unsigned, 2> seen{};
    for (unsigned i = 2; i < 34; ++i) {
        IpAddress lease = address(side().lease);
        lease.octets[GetParam() ? 3 : 15] = static_cast<uint8_t>(i);
        std::optional<IpAddress> mapped;
        for (const uint16_t port : {uint16_t{5000}, uint16_t{5001}}) {
            RawPacket packet = datagram(side().lease, side().far);
            packet.source = lease;
            packet.source_port = port;
            put(packet);
            const auto request = receive(far);
            ASSERT_TRUE(request);
            EXPECT_GE(request->from.port, 40000);
            EXPECT_LE(request->from.port, 40999);
            EXPECT_EQ(mapped.value_or(request->from.address), request->from.address);
            mapped = request->from.address;
        }
        ++seen[*mapped == address(side().pool) ? 0 : 1];
    }
    EXPECT_GT(seen[0], 0U);
    EXPECT_GT(seen[1], 0U);
    EXPECT_EQ(counter(kLeakCounter), 0U);
}

TEST_P(RelayTest, DeniedDestinationsAreRefusedWithAWordAndAllowedOnesPass) {
    start();
    const UniqueFd near = correspondent(side().near, 53);
    put(datagram(side().lease, side().near));
    EXPECT_FALSE(receive(near, kSilenceMs));
    EXPECT_EQ(counter(kDeniedCounter), 1U);
    const auto word = take();
    ASSERT_TRUE(word);
    EXPECT_EQ(word->protocol, side().icmp);
    EXPECT_EQ(word->source, address(side().inner));
    options_.allow = {IpPrefix::parse("10.1.0.0/16").value(),
                      IpPrefix::parse("fd00:5::/32").value()};
    apply();
    put(datagram(side().lease, side().near));
    EXPECT_TRUE(receive(near));
}

TEST_P(RelayTest, ClientsReachNeitherEachOtherNorTheRelayAndHearSo) {
    start();
    for (const char* to : {side().other_lease, side().inner, side().wan}) {
        put(datagram(side().lease, to));
        const auto word = take();
        ASSERT_TRUE(word) << to;
        EXPECT_EQ(word->protocol, side().icmp) << to;
        EXPECT_EQ(word->destination, address(side().lease)) << to;
    }
    EXPECT_EQ(counter(kClientToClientCounter), 1U);
    EXPECT_EQ(counter(kToSelfCounter), 2U);
}

TEST_P(RelayTest, OfTheRelaysHostOnlyAllowedServicesAreReached) {
    options_.allow_self = {SelfService::parse("udp/52-53").value(),
                           SelfService::parse("ping").value()};
    start();
    const NetNamespace::Visit visit(*relay_);
    const UniqueFd service(::socket(GetParam() ? AF_INET : AF_INET6, SOCK_DGRAM, 0));
    const SocketAddress name(Endpoint{address(side().wan), 53});
    ASSERT_EQ(::bind(service.value(), name.data(), name.size()), 0);
    put(datagram(side().lease, side().wan));
    const auto asked = receive(service);
    ASSERT_TRUE(asked);
    EXPECT_EQ(asked->from, (Endpoint{address(side().lease), 5000})) << "no translation";
    send(service, asked->from, "answer");
    const auto answer = take();
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->source, address(side().wan));
    EXPECT_EQ(std::string(answer->payload.begin(), answer->payload.end()), "answer");
    RawPacket echo = datagram(side().lease, side().inner);
    echo.protocol = side().icmp;
    put(echo);
    const auto reply = take();
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->source, address(side().inner));
    EXPECT_EQ(counter(kToSelfCounter), 0U);
    put(datagram(side().lease, side().wan, 54));
    EXPECT_TRUE(take());
    RawPacket syn = datagram(side().lease, side().wan);
    syn.protocol = 6;
    syn.payload.clear();
    put(syn);
    const auto word = take();
    ASSERT_TRUE(word);
    EXPECT_EQ(word->protocol, side().icmp);
    EXPECT_EQ(counter(kToSelfCounter), 2U);
}

TEST_P(RelayTest, AForeignSourceReachesNoServiceAndHearsNothing) {
    options_.allow_self = {SelfService::parse("ping").value()};
    start();
    RawPacket echo = datagram(GetParam() ? "100.127.0.9" : "fd93:48::9", side().inner);
    echo.protocol = side().icmp;
    put(echo);
    put(datagram(GetParam() ? "100.127.0.9" : "fd93:48::9", side().other_lease));
    EXPECT_FALSE(take(kSilenceMs));
    EXPECT_EQ(counter(kSpoofedCounter), 2U);
}

TEST_P(RelayTest, ForeignSourcesAreDropped) {
    start();
    const UniqueFd far = correspondent(side().far, 53);
    put(datagram(GetParam() ? "198.18.0.1" : "2001:db8:77::1", side().far));
    EXPECT_FALSE(receive(far, kSilenceMs));
    EXPECT_EQ(counter(kSpoofedCounter), 1U);
}

TEST_P(RelayTest, NothingUnaskedReachesALease) {
    start();
    // The Internet side knows a way to the leases, and tries.
    ASSERT_TRUE(internet_->shell("ip route add 100.64.0.0/16 via 203.0.113.2 && "
                                 "ip -6 route add fd93:47::/64 via 2001:db8:1::2"));
    const UniqueFd far = correspondent(side().far, 53);
    send(far, {address(side().lease), 5000}, "surprise");
    while (counter(kUnsolicitedCounter) == 0) {
        ASSERT_FALSE(take(1));
    }
    EXPECT_FALSE(take(kSilenceMs));
    EXPECT_EQ(counter(kUnsolicitedCounter), 1U);
}

TEST_P(RelayTest, OnlyEgressInterfacesAreUsed) {
    options_.egress = {"other0"};
    start();
    const UniqueFd far = correspondent(side().far, 53);
    put(datagram(side().lease, side().far));
    EXPECT_FALSE(receive(far, kSilenceMs));
    EXPECT_EQ(counter(kNoEgressCounter), 1U);
}

TEST_P(RelayTest, LeaseAddressThatEscapesTranslationIsStoppedAndCounted) {
    start();
    // Without the translation: the chain is emptied behind the relay's back.
    ASSERT_TRUE(relay_->shell("nft flush chain " + relay_table(options_.device) + " nat"));
    const UniqueFd far = correspondent(side().far, 53);
    put(datagram(side().lease, side().far));
    EXPECT_FALSE(receive(far, kSilenceMs));
    EXPECT_EQ(counter(kLeakCounter), 1U);
}

}  // namespace
}  // namespace continuo::snapt
