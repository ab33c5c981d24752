// What a node's control link tells of TCP that gets nothing through, over loopback.
#include "common/io/socket_address.hpp"
#include "tests/unit/snapt/links/control_link_fixture.hpp"

#include <array>
#include <thread>

#include <linux/filter.h>

namespace continuo::tests {
namespace {

// Segments longer than that do not arrive at connections of the port, or at their other ends; 0:
// all arrive.
void let_pass(uint16_t port, uint32_t bytes, bool is_other_end = false) {
    std::array<sock_filter, 4> steps = {{{BPF_LD | BPF_W | BPF_LEN, 0, 0, 0},
                                         {BPF_JMP | BPF_JGT | BPF_K, 0, 1, bytes},
                                         {BPF_RET | BPF_K, 0, 0, 0},
                                         {BPF_RET | BPF_K, 0, 0, 0xFFFF}}};
    const sock_fprog program{steps.size(), steps.data()};
    int changed = 0;
    for (int fd = 0; fd < 1024; ++fd) {
        io::SocketAddress name;
        socklen_t length = io::SocketAddress::capacity();
        const bool is_there =
            (is_other_end ? ::getpeername : ::getsockname)(fd, name.data(), &length) == 0;
        const auto endpoint = is_there ? name.endpoint() : std::nullopt;
        if (endpoint && endpoint->port == port) {
            ++changed;
            ::setsockopt(fd, SOL_SOCKET, bytes == 0 ? SO_DETACH_FILTER : SO_ATTACH_FILTER, &program,
                         sizeof program);
        }
    }
    ASSERT_GT(changed, 0);
}

// In TLS and over a plain connection.
TEST_F(ControlLinkTest, TcpThatGetsNothingThroughIsToldUntilItDoes) {
    for (const auto kind :
         {control::ProtectionKind::ChaCha20Poly1305, control::ProtectionKind::HmacSha256}) {
        auto with = options();
        with.parameters.hello.offers = {{kind, 16}};
        node_side.established.clear();
        node_side.stuck.clear();
        start_client(with);
        ASSERT_TRUE(wait([this] { return node_side.established.size() == 1; }));
        const dataplane::StreamPort stream = client->stream();
        const std::vector<uint8_t> datagram(1000, 0x11);
        snapt_side.received = 0;
        ASSERT_TRUE(stream.push(datagram, 0).is_taken);
        ASSERT_TRUE(wait([this] { return snapt_side.received == 1; }));
        const uint16_t port = server->endpoints()[0].port;
        let_pass(port, 600);
        ASSERT_TRUE(stream.push(datagram, 0).is_taken);
        EXPECT_TRUE(wait([this] { return !node_side.stuck.empty(); }));
        EXPECT_EQ(snapt_side.received, 1U);
        let_pass(port, 0);
        EXPECT_TRUE(wait([this] { return snapt_side.received == 2; }));
        EXPECT_TRUE(wait([this] { return node_side.stuck.size() == 2; }));
        EXPECT_EQ(node_side.stuck, (std::vector<bool>{true, false}));
    }
}

// Short segments behind a long one that does not arrive wait for it.
TEST_F(ControlLinkTest, TcpThatLetsNothingInIsToldUntilItDoes) {
    snapt_side.waiting.assign(1, std::vector<uint8_t>(100, 0x11));
    start_client(options());
    ASSERT_TRUE(wait([this] { return node_side.datagrams.size() == 1; }));
    const uint16_t port = server->endpoints()[0].port;
    let_pass(port, 600, true);
    ASSERT_TRUE(snapt_side.echo.push(std::vector<uint8_t>(1000, 0x11), 0).is_taken);
    std::this_thread::sleep_for(base::milliseconds(20));  // the next leaves by itself
    ASSERT_TRUE(snapt_side.echo.push(std::vector<uint8_t>(100, 0x11), 0).is_taken);
    const std::vector<uint8_t> small(100, 0x11);
    ASSERT_TRUE(client->stream().push(small, 0).is_taken);  // only what carries is looked at
    EXPECT_TRUE(wait([this] { return !node_side.stuck.empty(); }));
    EXPECT_EQ(node_side.datagrams.size(), 1U);
    let_pass(port, 0, true);
    EXPECT_TRUE(wait([this] { return node_side.datagrams.size() == 4; }));
    EXPECT_TRUE(wait([this] { return node_side.stuck.size() == 2; }));
}

}  // namespace
}  // namespace continuo::tests
