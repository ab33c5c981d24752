#include "common/io/udp_socket.hpp"
#include "tests/support/net_namespace.hpp"

#include <array>
#include <cstdlib>
#include <numeric>
#include <vector>

#include <netinet/udp.h>
#include <poll.h>
#include <sys/socket.h>

namespace continuo::io {
namespace {

using base::Endpoint;
using base::IpAddress;
using base::IpVersion;

IpAddress address(std::string_view text) {
    return IpAddress::parse(text).value();
}

UdpSocketOptions loopback(bool v4, UdpOffloadSupport offload) {
    UdpSocketOptions options;
    options.local = Endpoint{address(v4 ? "127.0.0.1" : "::1"), 0};
    options.offload = offload;
    return options;
}

std::vector<uint8_t> numbered_bytes(size_t count) {
    std::vector<uint8_t> bytes(count);
    std::iota(bytes.begin(), bytes.end(), uint8_t{0});
    return bytes;
}

bool wait_readable(const UdpSocket& socket) {
    pollfd wanted{socket.fd(), POLLIN, 0};
    return ::poll(&wanted, 1, 2000) == 1;
}

struct Received {
    std::vector<std::vector<uint8_t>> datagrams;
    size_t batches = 0;
    Endpoint from;
    IpAddress to;
};

// Everything that has arrived, cut into datagrams.
Received receive_all(UdpSocket& socket, UdpReceiveArena& arena, size_t expected) {
    Received received;
    while (received.datagrams.size() < expected && wait_readable(socket)) {
        const auto batches = socket.receive(arena);
        if (!batches) {
            break;
        }
        for (const ReceivedBatch& batch : *batches) {
            ++received.batches;
            received.from = batch.from;
            received.to = batch.to;
            const size_t step = batch.segment_bytes == 0 ? batch.bytes.size() : batch.segment_bytes;
            for (size_t at = 0; at < batch.bytes.size(); at += step) {
                const auto piece = batch.bytes.subspan(at, std::min(step, batch.bytes.size() - at));
                received.datagrams.emplace_back(piece.begin(), piece.end());
            }
        }
    }
    return received;
}

class UdpSocketTest : public testing::TestWithParam<std::tuple<bool, bool>> {
  protected:
    bool is_v4() const { return std::get<0>(GetParam()); }
    UdpOffloadSupport offload() const {
        return std::get<1>(GetParam()) ? UdpOffloadSupport{true, true} : UdpOffloadSupport{};
    }
};

INSTANTIATE_TEST_SUITE_P(VersionsAndOffloads,
                         UdpSocketTest,
                         testing::Combine(testing::Bool(), testing::Bool()));

TEST_P(UdpSocketTest, SegmentedItemArrivesAsItsDatagrams) {
    auto sender = UdpSocket::open(loopback(is_v4(), offload()));
    auto receiver = UdpSocket::open(loopback(is_v4(), offload()));
    ASSERT_TRUE(sender && receiver);
    const auto bytes = numbered_bytes(1000 * 5 + 300);
    SendItem item;
    item.to = receiver->local();
    item.bytes = bytes;
    item.segment_bytes = 1000;
    const SendResult result = sender->send({&item, 1});
    EXPECT_EQ(result.items, 1U);
    EXPECT_EQ(result.sent_datagrams, 6U);
    EXPECT_EQ(sender->counters().sent_messages, offload().segment ? 1U : 6U);
    UdpReceiveArena arena;
    const Received received = receive_all(*receiver, arena, 6);
    ASSERT_EQ(received.datagrams.size(), 6U);
    EXPECT_EQ(received.batches, offload().gro ? 1U : 6U);
    EXPECT_EQ(received.from, sender->local());
    std::vector<uint8_t> joined;
    for (const auto& datagram : received.datagrams) {
        joined.insert(joined.end(), datagram.begin(), datagram.end());
    }
    EXPECT_EQ(joined, bytes);
    EXPECT_EQ(received.datagrams.back().size(), 300U);
}

TEST_P(UdpSocketTest, MoreThanOneRunHoldsIsSplitWithoutLoss) {
    auto sender = UdpSocket::open(loopback(is_v4(), offload()));
    auto receiver = UdpSocket::open(loopback(is_v4(), offload()));
    ASSERT_TRUE(sender && receiver);
    const auto bytes = numbered_bytes(1400 * 100 + 7);
    SendItem item;
    item.to = receiver->local();
    item.bytes = bytes;
    item.segment_bytes = 1400;
    const SendResult result = sender->send({&item, 1});
    EXPECT_EQ(result.items, 1U);
    EXPECT_EQ(result.bytes_of_next, 0U);
    EXPECT_EQ(result.sent_datagrams, 101U);
    EXPECT_EQ(result.dropped_datagrams, 0U);
    // 46 datagrams of 1400 bytes are the most in 65507.
    EXPECT_EQ(sender->counters().sent_messages, offload().segment ? 3U : 101U);
    UdpReceiveArena arena;
    const Received received = receive_all(*receiver, arena, 101);
    ASSERT_EQ(received.datagrams.size(), 101U);
    EXPECT_EQ(received.datagrams.back().size(), 7U);
}

TEST_P(UdpSocketTest, NeighboursOfEqualSizeBecomeOneRunThatAShorterOneEnds) {
    auto sender = UdpSocket::open(loopback(is_v4(), offload()));
    auto receiver = UdpSocket::open(loopback(is_v4(), offload()));
    ASSERT_TRUE(sender && receiver);
    const auto bytes = numbered_bytes(500);
    const std::array<size_t, 7> sizes = {500, 500, 500, 200, 500, 400, 450};
    std::vector<SendItem> items;
    for (const size_t size : sizes) {
        SendItem item;
        item.to = receiver->local();
        item.bytes = base::ByteView(bytes).first(size);
        items.push_back(item);
    }
    const SendResult result = sender->send(items);
    EXPECT_EQ(result.items, sizes.size());
    // 500 500 500 200 | 500 400 | 450
    EXPECT_EQ(sender->counters().sent_messages, offload().segment ? 3U : 7U);
    EXPECT_EQ(sender->counters().send_calls, 1U);
    UdpReceiveArena arena;
    const Received received = receive_all(*receiver, arena, sizes.size());
    ASSERT_EQ(received.datagrams.size(), sizes.size());
    for (size_t i = 0; i < sizes.size(); ++i) {
        EXPECT_EQ(received.datagrams[i].size(), sizes[i]);
    }
}

TEST_P(UdpSocketTest, SixtyFourSegmentsAreTheMostOfARun) {
    auto sender = UdpSocket::open(loopback(is_v4(), offload()));
    auto receiver = UdpSocket::open(loopback(is_v4(), offload()));
    ASSERT_TRUE(sender && receiver);
    const auto bytes = numbered_bytes(50);
    std::vector<SendItem> items(200);
    for (SendItem& item : items) {
        item.to = receiver->local();
        item.bytes = bytes;
    }
    EXPECT_EQ(sender->send(items).sent_datagrams, 200U);
    EXPECT_EQ(sender->counters().sent_messages, offload().segment ? 4U : 200U);
    UdpReceiveArena arena;
    EXPECT_EQ(receive_all(*receiver, arena, 200).datagrams.size(), 200U);
}

TEST_P(UdpSocketTest, ServerLearnsAndChoosesItsOwnAddress) {
    UdpSocketOptions options = loopback(is_v4(), offload());
    options.local.address = IpAddress::any(is_v4() ? IpVersion::V4 : IpVersion::V6);
    options.packet_info = true;
    auto server = UdpSocket::open(options);
    auto client = UdpSocket::open(loopback(is_v4(), offload()));
    ASSERT_TRUE(server && client);
    const auto bytes = numbered_bytes(10);
    SendItem item;
    const IpAddress asked = address(is_v4() ? "127.0.0.9" : "::1");
    item.to = Endpoint{asked, server->local().port};
    item.bytes = bytes;
    ASSERT_EQ(client->send({&item, 1}).sent_datagrams, 1U);
    UdpReceiveArena arena;
    const Received request = receive_all(*server, arena, 1);
    ASSERT_EQ(request.datagrams.size(), 1U);
    EXPECT_EQ(request.to, asked);
    item.to = request.from;
    item.from = request.to;
    ASSERT_EQ(server->send({&item, 1}).sent_datagrams, 1U);
    const Received answer = receive_all(*client, arena, 1);
    ASSERT_EQ(answer.datagrams.size(), 1U);
    EXPECT_EQ(answer.from.address, asked);
}

TEST_P(UdpSocketTest, UnreachableDestinationIsCountedAndDoesNotStopTheRest) {
    auto sender = UdpSocket::open(loopback(is_v4(), offload()));
    auto receiver = UdpSocket::open(loopback(is_v4(), offload()));
    ASSERT_TRUE(sender && receiver);
    const auto bytes = numbered_bytes(30);
    std::array<SendItem, 3> items;
    for (SendItem& item : items) {
        item.to = receiver->local();
        item.bytes = bytes;
    }
    // A source that is nowhere.
    items[1].from = address(is_v4() ? "203.0.113.77" : "2001:db8::77");
    const SendResult result = sender->send(items);
    EXPECT_EQ(result.items, 3U);
    EXPECT_EQ(result.sent_datagrams, 2U);
    EXPECT_EQ(result.dropped_datagrams, 1U);
    EXPECT_EQ(sender->counters().dropped_unreachable, 1U);
}

TEST(UdpSocket, ReadingNothingWouldBlock) {
    auto socket = UdpSocket::open(loopback(true, {}));
    ASSERT_TRUE(socket);
    UdpReceiveArena arena;
    const auto nothing = socket->receive(arena);
    ASSERT_FALSE(nothing);
    EXPECT_EQ(nothing.error().code, base::Errc::WouldBlock);
}

// The kernel also does over loopback what it accepts as an option.
TEST(UdpSocket, ProbeFindsWhatTheKernelHas) {
    const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const auto takes = [&socket](int option, int value) {
        return ::setsockopt(socket.value(), SOL_UDP, option, &value, sizeof value) == 0;
    };
    const UdpOffloadSupport kernel{takes(UDP_SEGMENT, 1000), takes(UDP_GRO, 1)};
    EXPECT_EQ(probe_udp_offload(), kernel);
}

class UdpSocketInNamespace : public test::NetNamespaceTest {};

TEST_F(UdpSocketInNamespace, DatagramAboveTheMtuIsDroppedAndReported) {
    ASSERT_EQ(std::system("ip link set lo mtu 1280"), 0);
    for (const bool segment : {false, true}) {
        auto sender = UdpSocket::open(loopback(true, {segment, false}));
        ASSERT_TRUE(sender);
        const auto bytes = numbered_bytes(1400 * 3);
        SendItem item;
        item.to = sender->local();
        item.bytes = bytes;
        item.segment_bytes = 1400;
        const SendResult result = sender->send({&item, 1});
        EXPECT_EQ(result.items, 1U);
        EXPECT_TRUE(result.too_big);
        EXPECT_EQ(result.dropped_datagrams, 3U);
        EXPECT_EQ(sender->counters().dropped_too_big, 3U);
    }
}

TEST_F(UdpSocketInNamespace, FullQueueGivesBackTheRest) {
    UdpSocketOptions options = loopback(true, {});
    options.buffer_bytes = 8192;
    auto sender = UdpSocket::open(options);
    ASSERT_TRUE(sender);
    // A shaped link holds what was sent, so that the socket's buffer fills.
    ASSERT_EQ(std::system("ip link add d0 type veth peer name p0 && ip link set p0 up && ip addr "
                          "add 192.0.2.1/24 dev d0 && "
                          "ip link set d0 up && tc qdisc add dev d0 root tbf rate 8kbit burst 2kb "
                          "limit 1000000"),
              0);
    options.local.address = address("192.0.2.1");
    sender = UdpSocket::open(options);
    ASSERT_TRUE(sender);
    const auto bytes = numbered_bytes(1000);
    std::vector<SendItem> items(100);
    for (SendItem& item : items) {
        item.to = Endpoint{address("192.0.2.9"), 9};
        item.bytes = bytes;
    }
    ASSERT_EQ(std::system("ip neigh add 192.0.2.9 lladdr 02:00:00:00:00:09 dev d0"), 0);
    const SendResult result = sender->send(items);
    EXPECT_TRUE(result.would_block);
    EXPECT_GT(result.items, 0U);
    EXPECT_LT(result.items, items.size());
    EXPECT_EQ(result.dropped_datagrams, 0U);
    EXPECT_EQ(result.sent_datagrams, result.items);
}

// Packets that left so far by `device` with the mark and the DSCP (EF) of the test below.
bool has_left(const std::string& device, int packets) {
    const std::string command = "nft list chain ip seen out | grep -q 'oifname \"" + device +
                                "\" .*counter packets " + std::to_string(packets) + " '";
    return std::system(command.c_str()) == 0;
}

TEST_F(UdpSocketInNamespace, BoundToADeviceItLeavesByNoOtherWithMarkAndTos) {
    ASSERT_EQ(
        std::system(
            "ip link add d0 type veth peer name p0 && ip link set p0 up && ip link set d0 up && "
            "ip link add d1 type veth peer name p1 && ip link set p1 up && ip link set d1 up && "
            "ip addr add 192.0.2.1/24 dev d0 && ip addr add 203.0.113.1/24 dev d1 && "
            "ip route add default via 203.0.113.2 && "
            "ip route add default via 192.0.2.3 metric 9 && "
            "ip neigh add 192.0.2.3 lladdr 02:00:00:00:00:03 dev d0 && "
            "ip neigh add 203.0.113.2 lladdr 02:00:00:00:00:02 dev d1 && "
            "nft 'table ip seen { chain out { type filter hook postrouting priority 0; "
            "oifname \"d0\" meta mark 0x9347 ip dscp ef counter; "
            "oifname \"d1\" counter; }; }'"),
        0);
    UdpSocketOptions options;
    options.local = Endpoint{address("192.0.2.1"), 0};
    options.device = "d0";
    options.mark = 0x9347;
    options.tos = 46 << 2;
    auto socket = UdpSocket::open(options);
    ASSERT_TRUE(socket);
    const auto bytes = numbered_bytes(10);
    SendItem item;
    item.to = Endpoint{address("198.51.100.1"), 9};
    item.bytes = bytes;
    EXPECT_EQ(socket->send({&item, 1}).sent_datagrams, 1U);
    EXPECT_TRUE(has_left("d0", 1));
    EXPECT_TRUE(has_left("d1", 0));
    item.tos = 0;  // in place of the socket's
    EXPECT_EQ(socket->send({&item, 1}).sent_datagrams, 1U);
    EXPECT_TRUE(has_left("d0", 1));
    item.tos = 46 << 2;
    EXPECT_EQ(socket->send({&item, 1}).sent_datagrams, 1U);
    EXPECT_TRUE(has_left("d0", 2));
    item.tos.reset();
    ASSERT_EQ(std::system("ip link del d0"), 0);
    EXPECT_EQ(socket->send({&item, 1}).dropped_datagrams, 1U);
    EXPECT_TRUE(has_left("d1", 0));
}

}  // namespace
}  // namespace continuo::io
