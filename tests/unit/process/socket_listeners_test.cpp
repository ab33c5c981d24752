#include "common/io/socket_address.hpp"
#include "common/process/socket_listeners.hpp"
#include "tests/support/net_namespace.hpp"

#include <sys/socket.h>

namespace continuo::process {
namespace {

using base::Endpoint;
using base::IpAddress;

io::UniqueFd bound(const char* address, int type, uint16_t port) {
    const io::SocketAddress local(Endpoint{*IpAddress::parse(address), port});
    io::UniqueFd fd(::socket(local.data()->sa_family, type | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::bind(fd.value(), local.data(), local.size()), 0);
    return fd;
}

void connect_to(const io::UniqueFd& fd, const char* address, uint16_t port) {
    const io::SocketAddress to(Endpoint{*IpAddress::parse(address), port});
    EXPECT_EQ(::connect(fd.value(), to.data(), to.size()), 0);
}

using SocketListenersTest = test::NetNamespaceTest;

TEST_F(SocketListenersTest, ListsWhoTakesConnectionsAndDatagramsOfAnybody) {
    ASSERT_TRUE(listening_ports());
    EXPECT_TRUE(listening_ports()->empty());
    const io::UniqueFd tcp4 = bound("127.0.0.1", SOCK_STREAM, 1000);
    const io::UniqueFd tcp6 = bound("::", SOCK_STREAM, 1001);
    ASSERT_EQ(::listen(tcp4.value(), 1), 0);
    ASSERT_EQ(::listen(tcp6.value(), 1), 0);
    const io::UniqueFd udp4 = bound("0.0.0.0", SOCK_DGRAM, 1002);
    const io::UniqueFd udp6 = bound("::1", SOCK_DGRAM, 1003);
    const io::UniqueFd both4 = bound("127.0.0.1", SOCK_DGRAM, 1000);
    // Neither of these: one only bound, two connected.
    const io::UniqueFd no_listener = bound("127.0.0.1", SOCK_STREAM, 2000);
    const io::UniqueFd tcp_client = bound("127.0.0.1", SOCK_STREAM, 2001);
    connect_to(tcp_client, "127.0.0.1", 1000);
    const io::UniqueFd udp_client = bound("127.0.0.1", SOCK_DGRAM, 2002);
    connect_to(udp_client, "127.0.0.1", 1002);
    const auto ports = listening_ports();
    ASSERT_TRUE(ports);
    EXPECT_EQ(*ports,
              (std::vector<ListeningPort>{
                  {false, 1000}, {false, 1002}, {false, 1003}, {true, 1000}, {true, 1001}}));
}

}  // namespace
}  // namespace continuo::process
