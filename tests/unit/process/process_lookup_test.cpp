#include "common/io/socket_address.hpp"
#include "common/process/process_lookup.hpp"
#include "tests/support/net_namespace.hpp"

#include <fstream>

#include <sys/wait.h>

namespace continuo::process {
namespace {

using base::Endpoint;
using base::IpAddress;
using packet::FiveTuple;
using packet::Protocol;

IpAddress address(std::string_view text) {
    return IpAddress::parse(text).value();
}

std::string own_command() {
    std::ifstream file("/proc/self/comm");
    std::string command;
    std::getline(file, command);
    return command;
}

io::UniqueFd open_socket(int family, int type, const Endpoint& local) {
    io::UniqueFd fd(::socket(family, type | SOCK_CLOEXEC, 0));
    EXPECT_TRUE(fd.is_open());
    const io::SocketAddress to(local);
    EXPECT_EQ(::bind(fd.value(), to.data(), to.size()), 0);
    return fd;
}

uint16_t port_of(const io::UniqueFd& fd) {
    io::SocketAddress name;
    socklen_t length = io::SocketAddress::capacity();
    EXPECT_EQ(::getsockname(fd.value(), name.data(), &length), 0);
    return name.endpoint()->port;
}

void connect_to(const io::UniqueFd& fd, const Endpoint& to) {
    const io::SocketAddress name(to);
    EXPECT_EQ(::connect(fd.value(), name.data(), name.size()), 0);
}

FiveTuple tuple(Protocol protocol, const Endpoint& local, const Endpoint& remote) {
    return FiveTuple{local.address, remote.address, local.port, remote.port, protocol};
}

// Looks up sockets of this very process; no rights needed for that.
class ProcessLookupTest : public testing::Test {
  protected:
    void SetUp() override {
        auto opened = ProcessLookup::open();
        ASSERT_TRUE(opened);
        lookup_ = std::move(*opened);
        const FiveTuple nothing =
            tuple(Protocol::Tcp, {address("127.0.0.1"), 1}, {address("127.0.0.1"), 1});
        const auto result = lookup_->find(nothing);
        if (!result && result.error().code == base::Errc::System) {
            GTEST_SKIP() << "no inet_diag in this kernel";
        }
    }
    void expect_us(const FiveTuple& wanted) {
        const auto owner = lookup_->find(wanted);
        ASSERT_TRUE(owner) << base::to_string(owner.error().code);
        EXPECT_EQ(owner->process_id, ::getpid());
        EXPECT_EQ(owner->process, own_command());
        EXPECT_EQ(owner->executable.substr(0, 12), "process_test");
        EXPECT_EQ(owner->user_id, ::geteuid());
    }
    std::optional<ProcessLookup> lookup_;
};

TEST_F(ProcessLookupTest, FindsTheOwnerOfATcpConnection) {
    for (const char* host : {"127.0.0.1", "::1"}) {
        const Endpoint any{address(host), 0};
        const int family = any.address.is_v4() ? AF_INET : AF_INET6;
        const io::UniqueFd listener = open_socket(family, SOCK_STREAM, any);
        ASSERT_EQ(::listen(listener.value(), 1), 0);
        const Endpoint server{address(host), port_of(listener)};
        const io::UniqueFd client = open_socket(family, SOCK_STREAM, any);
        connect_to(client, server);
        expect_us(tuple(Protocol::Tcp, {address(host), port_of(client)}, server));
        // A second time: from the recent processes.
        expect_us(tuple(Protocol::Tcp, {address(host), port_of(client)}, server));
    }
}

TEST_F(ProcessLookupTest, FindsAnIpv4ConnectionOfAnIpv6Socket) {
    const io::UniqueFd listener = open_socket(AF_INET, SOCK_STREAM, {address("127.0.0.1"), 0});
    ASSERT_EQ(::listen(listener.value(), 1), 0);
    const io::UniqueFd client = open_socket(AF_INET6, SOCK_STREAM, {address("::"), 0});
    connect_to(client, {address("::ffff:127.0.0.1"), port_of(listener)});
    expect_us(tuple(Protocol::Tcp, {address("127.0.0.1"), port_of(client)},
                    {address("127.0.0.1"), port_of(listener)}));
}

TEST_F(ProcessLookupTest, FindsConnectedAndUnconnectedUdpSockets) {
    const Endpoint remote4{address("127.0.0.1"), 9};
    const io::UniqueFd connected = open_socket(AF_INET, SOCK_DGRAM, {address("127.0.0.1"), 0});
    connect_to(connected, remote4);
    expect_us(tuple(Protocol::Udp, {address("127.0.0.1"), port_of(connected)}, remote4));
    const io::UniqueFd wildcard = open_socket(AF_INET, SOCK_DGRAM, {address("0.0.0.0"), 0});
    expect_us(tuple(Protocol::Udp, {address("192.0.2.5"), port_of(wildcard)}, remote4));
    const io::UniqueFd six = open_socket(AF_INET6, SOCK_DGRAM, {address("::"), 0});
    expect_us(
        tuple(Protocol::Udp, {address("2001:db8::5"), port_of(six)}, {address("2001:db8::9"), 53}));
    // IPv4 through an IPv6 socket, not connected.
    expect_us(tuple(Protocol::Udp, {address("192.0.2.5"), port_of(six)}, remote4));
}

TEST_F(ProcessLookupTest, ListenerOrUnfitSocketIsNotTheOwner) {
    const io::UniqueFd listener = open_socket(AF_INET, SOCK_STREAM, {address("127.0.0.1"), 0});
    ASSERT_EQ(::listen(listener.value(), 1), 0);
    const auto tcp = lookup_->find(tuple(Protocol::Tcp, {address("127.0.0.1"), port_of(listener)},
                                         {address("127.0.0.2"), 77}));
    ASSERT_FALSE(tcp);
    EXPECT_EQ(tcp.error().code, base::Errc::NotFound);
    const io::UniqueFd connected = open_socket(AF_INET, SOCK_DGRAM, {address("127.0.0.1"), 0});
    connect_to(connected, {address("127.0.0.1"), 9});
    EXPECT_FALSE(lookup_->find(tuple(Protocol::Udp, {address("127.0.0.1"), port_of(connected)},
                                     {address("127.0.0.1"), 10})));
    EXPECT_FALSE(
        lookup_->find(tuple(Protocol::Icmp, {address("127.0.0.1"), 1}, {address("127.0.0.1"), 0})));
}

TEST_F(ProcessLookupTest, PrefersTheConnectedSocketAmongSharersOfAPort) {
    const int on = 1;
    io::UniqueFd wildcard(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    ::setsockopt(wildcard.value(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    io::SocketAddress name(Endpoint{address("0.0.0.0"), 0});
    ASSERT_EQ(::bind(wildcard.value(), name.data(), name.size()), 0);
    const uint16_t port = port_of(wildcard);
    // The child holds the connected one, the parent the other.
    std::array<int, 2> ready{};
    std::array<int, 2> done{};
    ASSERT_EQ(::pipe(ready.data()), 0);
    ASSERT_EQ(::pipe(done.data()), 0);
    const pid_t child = ::fork();
    if (child == 0) {
        wildcard.reset();
        ::close(done[1]);
        io::UniqueFd connected(::socket(AF_INET, SOCK_DGRAM, 0));
        ::setsockopt(connected.value(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        io::SocketAddress local(Endpoint{address("127.0.0.1"), port});
        io::SocketAddress remote(Endpoint{address("127.0.0.1"), 9});
        const bool ok = ::bind(connected.value(), local.data(), local.size()) == 0 &&
                        ::connect(connected.value(), remote.data(), remote.size()) == 0;
        char byte = ok ? 'y' : 'n';
        byte = ::write(ready[1], &byte, 1) == 1 && ::read(done[0], &byte, 1) >= 0 ? 'y' : 'n';
        ::_exit(0);
    }
    char byte = 0;
    ASSERT_EQ(::read(ready[0], &byte, 1), 1);
    ASSERT_EQ(byte, 'y');
    const auto theirs = lookup_->find(
        tuple(Protocol::Udp, {address("127.0.0.1"), port}, {address("127.0.0.1"), 9}));
    const auto ours = lookup_->find(
        tuple(Protocol::Udp, {address("127.0.0.1"), port}, {address("127.0.0.1"), 10}));
    ::close(done[1]);
    ::waitpid(child, nullptr, 0);
    ::close(done[0]);
    ::close(ready[0]);
    ::close(ready[1]);
    ASSERT_TRUE(theirs && ours);
    EXPECT_EQ(theirs->process_id, child);
    EXPECT_EQ(ours->process_id, ::getpid());
}

}  // namespace
}  // namespace continuo::process
