#include "common/io/socket_address.hpp"
#include "common/process/socket_destroy.hpp"
#include "tests/support/net_namespace.hpp"

#include <cerrno>

#include <sys/socket.h>
#include <unistd.h>

namespace continuo::process {
namespace {

using base::Endpoint;
using base::IpAddress;

// A connected socket, and who is at its other end.
struct Pair {
    io::UniqueFd listener;
    io::UniqueFd connected;
};

io::UniqueFd bound(const IpAddress& address, int type, uint16_t port) {
    const io::SocketAddress local(Endpoint{address, port});
    io::UniqueFd fd(::socket(local.data()->sa_family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    EXPECT_EQ(::bind(fd.value(), local.data(), local.size()), 0);
    return fd;
}

// The kernel finishes IPv6 addresses in its own time, until which there is no source or route.
int connect_when_ready(const io::UniqueFd& fd, const io::SocketAddress& to) {
    constexpr int kMostTries = 500;
    int result = -1;
    for (int i = 0; i < kMostTries; ++i) {
        result = ::connect(fd.value(), to.data(), to.size());
        if (result == 0 || errno != ENETUNREACH) {
            break;
        }
        ::usleep(10000);
    }
    return result;
}

Pair connected(const char* address, int type, uint16_t port) {
    const IpAddress own = *IpAddress::parse(address);
    Pair pair{bound(own, type, port), {}};
    if (type == SOCK_STREAM) {
        EXPECT_EQ(::listen(pair.listener.value(), 1), 0);
    }
    const io::SocketAddress to(Endpoint{own, port});
    pair.connected.reset(::socket(to.data()->sa_family, type | SOCK_CLOEXEC, 0));
    EXPECT_EQ(connect_when_ready(pair.connected, to), 0) << errno;
    return pair;
}

int error_of(const io::UniqueFd& fd) {
    int error = 0;
    socklen_t length = sizeof error;
    ::getsockopt(fd.value(), SOL_SOCKET, SO_ERROR, &error, &length);
    return error;
}

using SocketDestroyTest = test::NetNamespaceTest;

TEST_F(SocketDestroyTest, ConnectionsWithThatAddressEndAndNoOthers) {
    ASSERT_TRUE(net().shell("ip addr add 192.0.2.1/32 dev lo && ip addr add 2001:db8::1/128 dev lo "
                            "nodad && ip addr add 2001:db8::2/128 dev lo nodad"));
    for (const char* address : {"2001:db8::1", "192.0.2.1"}) {
        const Pair tcp = connected(address, SOCK_STREAM, 1000);
        const Pair udp = connected(address, SOCK_DGRAM, 1001);
        const Pair other = connected("2001:db8::2", SOCK_STREAM, 1002);
        const auto destroyed = destroy_sockets(*IpAddress::parse(address));
        if (!destroyed && destroyed.error().code == base::Errc::Unsupported) {
            GTEST_SKIP() << "kernel without CONFIG_INET_DIAG_DESTROY";
        }
        ASSERT_TRUE(destroyed) << destroyed.error().sys_errno;
        // Both ends of the connection over TCP, as both have the address.
        EXPECT_GE(*destroyed, 2U) << address;
        const int tcp_error = error_of(tcp.connected);
        EXPECT_TRUE(tcp_error == ECONNABORTED || tcp_error == ECONNRESET) << tcp_error;
        EXPECT_EQ(error_of(udp.connected), ECONNABORTED) << address;
        EXPECT_EQ(error_of(other.connected), 0) << address;
        const io::SocketAddress to(Endpoint{*IpAddress::parse(address), 1000});
        const io::UniqueFd again(::socket(to.data()->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
        EXPECT_EQ(::connect(again.value(), to.data(), to.size()), 0) << "the listener is there";
    }
}

TEST_F(SocketDestroyTest, WithoutASocketThereIsNothingToDo) {
    const auto destroyed = destroy_sockets(*IpAddress::parse("2001:db8::1"));
    ASSERT_TRUE(destroyed);
    EXPECT_EQ(*destroyed, 0U);
}

}  // namespace
}  // namespace continuo::process
