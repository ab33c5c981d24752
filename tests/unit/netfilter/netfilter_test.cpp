#include "common/io/socket_address.hpp"
#include "common/netfilter/netfilter.hpp"
#include "common/netfilter/nft.hpp"
#include "tests/support/net_namespace.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <thread>
#include <vector>

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace continuo::netfilter {
namespace {

using base::Endpoint;
using base::IpAddress;

constexpr const char* kTable =
    "table inet continuo_test {\n"
    "  chain output { type filter hook output priority 0;\n"
    "    ip daddr 127.0.0.9 counter\n    ip6 daddr ::9 counter\n  }\n}\n"
    "table inet other { chain a { type filter hook output priority 0; accept; }; }\n";

class NetfilterTest : public test::NetNamespaceTest {
  protected:
    void SetUp() override {
        NetNamespaceTest::SetUp();
        if (!IsSkipped()) {
            client_.emplace(NetfilterClient::open().value());
        }
    }
    uint32_t generation() { return client_->ruleset_generation().value(); }
    size_t rules() { return client_->count_rules("continuo_test").value(); }

    Nft nft_;
    std::optional<NetfilterClient> client_;
};

TEST_F(NetfilterTest, GenerationChangesWithTheRulesOnly) {
    const uint32_t before = generation();
    EXPECT_EQ(generation(), before);
    ASSERT_TRUE(nft_.apply(kTable)) << nft_.error_text();
    const uint32_t after = generation();
    EXPECT_NE(after, before);
    EXPECT_EQ(generation(), after);
    ASSERT_TRUE(net().shell("nft flush ruleset"));
    EXPECT_NE(generation(), after);
}

TEST_F(NetfilterTest, TheGenerationIsOneMoreAfterEachTransaction) {
    const uint32_t before = generation();
    ASSERT_TRUE(nft_.apply(kTable)) << nft_.error_text();
    EXPECT_EQ(generation() - before, 1U);
    ASSERT_TRUE(net().shell("nft flush ruleset"));
    EXPECT_EQ(generation() - before, 2U);
    EXPECT_FALSE(nft_.apply("add chain inet nosuch c\n"));
    EXPECT_EQ(generation() - before, 2U);
}

TEST_F(NetfilterTest, ATableHasAnotherFingerprintAfterEachChangeOfItsRules) {
    const auto print = [&] { return client_->fingerprint("continuo_test").value(); };
    EXPECT_EQ(print(), 0U) << "no table";
    ASSERT_TRUE(nft_.apply(kTable)) << nft_.error_text();
    std::set<uint64_t> prints = {0, print()};
    EXPECT_EQ(prints.size(), 2U);
    ASSERT_TRUE(net().shell("nft add table inet other"));
    EXPECT_TRUE(prints.contains(print())) << "what is done to another table is not seen";
    const auto is_another_after = [&](const std::string& command) {
        return net().shell("nft " + command) && prints.insert(print()).second;
    };
    EXPECT_TRUE(is_another_after("add rule inet continuo_test output ip daddr 192.0.2.1 accept"));
    const std::string handle =
        "$(nft -a list chain inet continuo_test output | sed -n 's/.*192.0.2.1.* # handle //p')";
    EXPECT_TRUE(is_another_after("replace rule inet continuo_test output handle " + handle +
                                 " ip daddr 192.0.2.2 accept"));
    EXPECT_TRUE(is_another_after("'add table inet continuo_test { flags dormant; }'"));
    ASSERT_TRUE(net().shell("nft flush ruleset"));
    EXPECT_EQ(print(), 0U);
    ASSERT_TRUE(nft_.apply(kTable)) << nft_.error_text();
    EXPECT_TRUE(prints.insert(print()).second) << "made anew";
}

TEST_F(NetfilterTest, RulesOfOneTableAreCounted) {
    EXPECT_EQ(rules(), 0U) << "no table";
    ASSERT_TRUE(nft_.apply(kTable)) << nft_.error_text();
    EXPECT_EQ(rules(), 2U);
    ASSERT_TRUE(net().shell("nft add rule inet continuo_test output drop"));
    EXPECT_EQ(rules(), 3U);
    ASSERT_TRUE(net().shell("nft flush table inet continuo_test"));
    EXPECT_EQ(rules(), 0U);
}

// One datagram from `port` to a port where nobody is.
void send_datagram(const char* to, uint16_t port) {
    const io::SocketAddress local(Endpoint{IpAddress::any(IpAddress::parse(to)->version), port});
    const io::SocketAddress remote(Endpoint{*IpAddress::parse(to), 9});
    const io::UniqueFd fd(::socket(local.data()->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::bind(fd.value(), local.data(), local.size()), 0);
    ASSERT_EQ(::sendto(fd.value(), "hello", 5, 0, remote.data(), remote.size()), 5);
}

TEST_F(NetfilterTest, ConnectionsTranslatedToAnAddressAreForgottenAndNoOthers) {
    ASSERT_TRUE(net().shell("ip link add dum0 type veth peer name dum1 && ip link set dum1 up && "
                            "ip addr add 192.0.2.1/24 dev dum0 && "
                            "ip addr add 2001:db8::1/64 dev dum0 nodad && ip link set dum0 up && "
                            "ip neigh add 192.0.2.9 lladdr 02:00:00:00:00:09 dev dum0 && "
                            "ip neigh add 2001:db8::9 lladdr 02:00:00:00:00:09 dev dum0"));
    ASSERT_TRUE(nft_.apply("table inet continuo_test {\n"
                           "  chain post { type nat hook postrouting priority srcnat;\n"
                           "    udp sport 1000 ip daddr 192.0.2.9 snat ip to 192.0.0.5\n"
                           "    udp sport 1000 ip6 daddr 2001:db8::9 snat ip6 to fd43::5\n"
                           "    udp sport 1001 ip daddr 192.0.2.9 snat ip to 192.0.0.6\n"
                           "  }\n}\n"))
        << nft_.error_text();
    for (const char* to : {"192.0.2.9", "2001:db8::9"}) {
        for (const uint16_t port : std::array<uint16_t, 3>{1000, 1001, 1002}) {
            send_datagram(to, port);
        }
    }
    const auto source_of = [&](const char* local, uint16_t port, const char* remote) {
        packet::FiveTuple tuple;
        tuple.local = *IpAddress::parse(local);
        tuple.remote = *IpAddress::parse(remote);
        tuple.local_port = port;
        tuple.remote_port = 9;
        tuple.protocol = packet::Protocol::Udp;
        const auto source = client_->source_of(tuple);
        return source ? source->to_string() : "none";
    };
    EXPECT_EQ(source_of("192.0.0.5", 1000, "192.0.2.9"), "192.0.2.1");
    EXPECT_EQ(source_of("fd43::5", 1000, "2001:db8::9"), "2001:db8::1");
    EXPECT_EQ(source_of("192.0.0.5", 1001, "192.0.2.9"), "none");
    const auto forget = [&](const char* address) {
        const auto count = client_->forget_translated(*IpAddress::parse(address));
        EXPECT_TRUE(count) << count.error().sys_errno;
        return count ? *count : 99;
    };
    EXPECT_EQ(forget("192.0.0.5"), 1U);
    EXPECT_EQ(forget("192.0.0.5"), 0U);
    EXPECT_EQ(forget("fd43::5"), 1U);
    EXPECT_EQ(forget("192.0.2.1"), 0U) << "not translated";
    EXPECT_EQ(forget("192.0.0.6"), 1U);
}

TEST_F(NetfilterTest, ConnectionsAreForgottenByTheirAddressesAndPorts) {
    ASSERT_TRUE(net().shell("ip link add dum0 type veth peer name dum1 && ip link set dum1 up && "
                            "ip addr add 192.0.2.1/24 dev dum0 && "
                            "ip addr add 2001:db8::1/64 dev dum0 nodad && ip link set dum0 up && "
                            "ip neigh add 192.0.2.9 lladdr 02:00:00:00:00:09 dev dum0 && "
                            "ip neigh add 2001:db8::9 lladdr 02:00:00:00:00:09 dev dum0"));
    ASSERT_TRUE(nft_.apply("table inet continuo_test {\n"
                           "  chain post { type nat hook postrouting priority srcnat;\n"
                           "    ip daddr 192.0.2.9 masquerade\n  }\n}\n"))
        << nft_.error_text();
    const auto made = [](const char* local, const char* remote, uint16_t port,
                         packet::Protocol protocol) {
        packet::FiveTuple tuple;
        tuple.local = *IpAddress::parse(local);
        tuple.remote = *IpAddress::parse(remote);
        tuple.local_port = port;
        tuple.remote_port = protocol == packet::Protocol::Udp ? 9 : 0;
        tuple.protocol = protocol;
        return tuple;
    };
    const std::array connections = {
        made("192.0.2.1", "192.0.2.9", 1000, packet::Protocol::Udp),
        made("2001:db8::1", "2001:db8::9", 1000, packet::Protocol::Udp),
        made("192.0.2.1", "192.0.2.9", 7, packet::Protocol::Icmp),
        made("2001:db8::1", "2001:db8::9", 7, packet::Protocol::IcmpV6),
    };
    for (const char* to : {"192.0.2.9", "2001:db8::9"}) {
        send_datagram(to, 1000);
        send_datagram(to, 1001);
        EXPECT_FALSE(net().shell("ping -e 7 -c 1 -W 0.01 " + std::string(to) + " >/dev/null"));
    }
    EXPECT_EQ(client_->forget(connections).value(), connections.size());
    EXPECT_EQ(client_->forget(connections).value(), 0U) << "no error";
    const std::array other = {made("192.0.2.1", "192.0.2.9", 1001, packet::Protocol::Udp)};
    EXPECT_EQ(client_->forget(other).value(), 1U) << "it was left";
}

// More than one system call's, and what is missing is anywhere, also at their ends.
TEST_F(NetfilterTest, OfManyConnectionsThoseThatExistAreForgottenAndCounted) {
    constexpr uint16_t kFirst = 2000;
    constexpr uint16_t kCount = 2 * NetfilterClient::kForgottenAtOnce + 3;
    ASSERT_TRUE(net().shell("ip link add dum0 type veth peer name dum1 && ip link set dum1 up && "
                            "ip addr add 192.0.2.1/24 dev dum0 && ip link set dum0 up && "
                            "ip neigh add 192.0.2.9 lladdr 02:00:00:00:00:09 dev dum0"));
    ASSERT_TRUE(nft_.apply("table inet continuo_test {\n"
                           "  chain post { type nat hook postrouting priority srcnat;\n"
                           "    ip daddr 192.0.2.9 masquerade\n  }\n}\n"))
        << nft_.error_text();
    std::vector<packet::FiveTuple> connections;
    size_t made = 0;
    for (uint16_t i = 0; i < kCount; ++i) {
        packet::FiveTuple& tuple = connections.emplace_back();
        tuple.local = *IpAddress::parse("192.0.2.1");
        tuple.remote = *IpAddress::parse("192.0.2.9");
        tuple.local_port = static_cast<uint16_t>(kFirst + i);
        tuple.remote_port = 9;
        tuple.protocol = packet::Protocol::Udp;
        const bool is_missing = i % 3 == 0 || i % NetfilterClient::kForgottenAtOnce == 0 ||
                                (i + 1) % NetfilterClient::kForgottenAtOnce == 0;
        if (!is_missing) {
            send_datagram("192.0.2.9", tuple.local_port);
            ++made;
        }
    }
    EXPECT_EQ(client_->forget(connections).value(), made);
    EXPECT_EQ(client_->forget(connections).value(), 0U) << "nothing is left, which is no error";
    EXPECT_TRUE(client_->ruleset_generation()) << "no answer of theirs is taken for another's";
}

// The kernel then answers the first of several changes alone.
TEST_F(NetfilterTest, WithoutThePrivilegeConnectionsAreRefusedAtOnce) {
    const std::vector<packet::FiveTuple> connections(3, {*IpAddress::parse("192.0.2.1"),
                                                         *IpAddress::parse("192.0.2.9"), 2000, 9,
                                                         packet::Protocol::Udp});
    int error = 0;
    std::thread([&] {
        constexpr long kNobody = 65534;
        // The system call itself is for this thread alone.
        ASSERT_EQ(::syscall(SYS_setresuid, kNobody, kNobody, kNobody), 0);
        const auto forgotten = client_->forget(connections);
        error = forgotten ? 0 : forgotten.error().sys_errno;
    }).join();
    EXPECT_EQ(error, EPERM);
    EXPECT_TRUE(client_->ruleset_generation());
}

TEST_F(NetfilterTest, StrictReversePathFiltersAreFoundWithTheVersionThatTheyLookAt) {
    EXPECT_TRUE(client_->reverse_path_rules().value().empty());
    ASSERT_TRUE(nft_.apply("table inet loose { chain a { type filter hook prerouting priority 0; "
                           "fib saddr . mark oif missing drop; fib daddr . iif type local accept; "
                           "}; }\n"))
        << nft_.error_text();
    EXPECT_TRUE(client_->reverse_path_rules().value().empty());
    ASSERT_TRUE(nft_.apply("table inet firewalld { chain a { type filter hook prerouting priority "
                           "0; meta nfproto ipv6 fib saddr . mark . iif oif missing drop; }; }\n"
                           "table inet both { chain a { type filter hook prerouting priority 0; "
                           "fib saddr . iif oif 0 drop; fib saddr . iif oif missing drop; }; }\n"
                           "table ip four { chain a { type filter hook prerouting priority 0; "
                           "fib saddr . iif oifname \"lo\" drop; }; }\n"))
        << nft_.error_text();
    const auto found = client_->reverse_path_rules().value();
    const auto has = [&](const char* table, std::optional<base::IpVersion> version) {
        return std::count(found.begin(), found.end(), ReversePathRule{table, version}) == 1;
    };
    EXPECT_EQ(found.size(), 3U);
    EXPECT_TRUE(has("inet firewalld", base::IpVersion::V6));
    EXPECT_TRUE(has("inet both", std::nullopt));
    EXPECT_TRUE(has("ip four", base::IpVersion::V4));
}

}  // namespace
}  // namespace continuo::netfilter
