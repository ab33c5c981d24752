#include "common/process/ping_sockets.hpp"
#include "common/process/process_lookup.hpp"
#include "tests/support/net_namespace.hpp"

#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace continuo::process {
namespace {

using packet::Protocol;

packet::FiveTuple echo(Protocol protocol, const char* local, const char* remote, uint16_t id) {
    return {base::IpAddress::parse(local).value(), base::IpAddress::parse(remote).value(), id, 0,
            protocol};
}

// As the kernel of a little-endian machine writes it.
constexpr std::string_view kList =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout "
    "inode ref pointer drops\n"
    "    1: 00000000:0005 00000000:0000 07 00000000:00000000 00:00000000 00000000  1000        0 "
    "4711 2 0000000000000000 0\n"
    "    2: 050000C0:1A2B 0271 07\n"
    "    3: 050000C0:1A2B 0A7100CB:0000 01 00000000:00000000 00:00000000 00000000     0        0 "
    "815 2 0000000000000000 0";
constexpr std::string_view kList6 =
    "    9: 00000000000000000000000000000000:0007 00000000000000000000000000000000:0000 07 "
    "00000000:00000000 00:00000000 00000000  1000        0 99 2 0000000000000000 0\n";

TEST(PingSockets, AreFoundByTheirEchoIdentifier) {
    const auto found =
        find_ping_socket(kList, echo(Protocol::Icmp, "192.0.0.5", "198.51.100.2", 5));
    ASSERT_TRUE(found);
    EXPECT_EQ(found->inode, 4711U);
    EXPECT_EQ(found->user_id, 1000U);
    const auto found6 =
        find_ping_socket(kList6, echo(Protocol::IcmpV6, "fd43::1", "2001:db8::2", 7));
    ASSERT_TRUE(found6);
    EXPECT_EQ(found6->inode, 99U);
}

TEST(PingSockets, FitTheAddressesThatTheyAreBoundTo) {
    EXPECT_EQ(
        find_ping_socket(kList, echo(Protocol::Icmp, "192.0.0.5", "203.0.113.10", 0x1A2B))->inode,
        815U);
    EXPECT_FALSE(find_ping_socket(kList, echo(Protocol::Icmp, "192.0.0.5", "203.0.113.9", 0x1A2B)));
    EXPECT_FALSE(
        find_ping_socket(kList, echo(Protocol::Icmp, "192.0.0.6", "203.0.113.10", 0x1A2B)));
    EXPECT_FALSE(find_ping_socket(kList, echo(Protocol::Icmp, "192.0.0.5", "203.0.113.10", 6)));
}

TEST(PingSockets, OfWhatIsNoListAreNone) {
    for (const std::string_view text : {"", "\n\n", "x", "0: 1:2 3:4 5 6 7 8 9 10 11"}) {
        const auto found = find_ping_socket(text, echo(Protocol::Icmp, "192.0.0.5", "0.0.0.0", 2));
        ASSERT_FALSE(found) << text;
        EXPECT_EQ(found.error().code, base::Errc::NotFound);
    }
}

// The kernel's own list: a socket of this process, where such sockets are allowed.
TEST(PingSockets, TellTheProcessThatPings) {
    const auto space = test::NetNamespace::create();
    if (!space) {
        GTEST_SKIP() << "needs root";
    }
    const test::NetNamespace::Visit visit(*space);
    std::ofstream("/proc/sys/net/ipv4/ping_group_range") << "0 2147483647" << std::flush;
    const io::UniqueFd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_ICMP));
    if (!fd.is_open()) {
        GTEST_SKIP() << "no ping sockets here";
    }
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_port = htons(4711);
    ASSERT_EQ(::bind(fd.value(), reinterpret_cast<const sockaddr*>(&name), sizeof name), 0);
    auto lookup = ProcessLookup::open();
    ASSERT_TRUE(lookup);
    const auto owner = lookup->find(echo(Protocol::Icmp, "192.0.0.5", "198.51.100.2", 4711));
    ASSERT_TRUE(owner) << base::to_string(owner.error().code);
    EXPECT_EQ(owner->process_id, ::getpid());
    EXPECT_EQ(owner->user_id, ::geteuid());
}

}  // namespace
}  // namespace continuo::process
