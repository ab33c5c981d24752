#include "common/io/netlink_route.hpp"
#include "common/io/tun_device.hpp"
#include "common/io/udp_socket.hpp"
#include "tests/support/net_namespace.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include <fcntl.h>
#include <grp.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace continuo::io {
namespace {

using base::Endpoint;
using base::Errc;
using base::IpAddress;

constexpr size_t kVnetBytes = 10;

IpAddress address(std::string_view text) {
    return IpAddress::parse(text).value();
}

class TunDeviceTest : public test::NetNamespaceTest {
  protected:
    // An interface that is up, with an IPv4 address, and no IPv6 to disturb.
    std::optional<TunDevice> open_and_configure(const TunOptions& options) {
        auto opened = TunDevice::open("tun7", options);
        if (!opened) {
            ADD_FAILURE() << opened.error().where << " " << opened.error().sys_errno;
            return std::nullopt;
        }
        EXPECT_TRUE(net().shell("echo 1 > /proc/sys/net/ipv6/conf/tun7/disable_ipv6"));
        auto client = RouteClient::open();
        LinkSettings settings;
        settings.up = true;
        EXPECT_TRUE(client->set_link(opened->interface_index(), settings));
        EXPECT_TRUE(client->add_address(opened->interface_index(), address("192.0.2.5"), 24));
        return std::move(*opened);
    }
    static bool wait_readable(const TunDevice& device) {
        pollfd wanted{device.poll_fd(), POLLIN, 0};
        return ::poll(&wanted, 1, 2000) == 1;
    }
    std::vector<uint8_t> buffer_ = std::vector<uint8_t>(kTunFrameBytes);
};

TEST_F(TunDeviceTest, PacketOfTheKernelIsReadAndReturnedByWriting) {
    auto device = open_and_configure({});
    ASSERT_TRUE(device);
    EXPECT_EQ(device->name(), "tun7");
    UdpSocketOptions options;
    options.local = Endpoint{address("192.0.2.5"), 1000};
    auto socket = UdpSocket::open(options);
    ASSERT_TRUE(socket);
    const std::array<uint8_t, 5> payload = {1, 2, 3, 4, 5};
    SendItem item;
    item.to = Endpoint{address("192.0.2.9"), 1000};
    item.bytes = payload;
    ASSERT_EQ(socket->send({&item, 1}).sent_datagrams, 1U);
    ASSERT_TRUE(wait_readable(*device));
    const auto length = device->read(buffer_);
    ASSERT_TRUE(length);
    EXPECT_EQ(*length, kVnetBytes + 28 + payload.size());
    // Turned round: addresses exchanged, ports equal; the partial checksum stays right.
    std::swap_ranges(buffer_.begin() + kVnetBytes + 12, buffer_.begin() + kVnetBytes + 16,
                     buffer_.begin() + kVnetBytes + 16);
    const base::ByteView frame = base::ByteView(buffer_).first(*length);
    const std::array<base::ByteView, 2> pieces = {frame.first(kVnetBytes + 28),
                                                  frame.subspan(kVnetBytes + 28)};
    ASSERT_TRUE(device->write(pieces));
    UdpReceiveArena arena(1);
    const auto received = socket->receive(arena);
    ASSERT_TRUE(received);
    ASSERT_EQ(received->size(), 1U);
    EXPECT_TRUE(std::equal(payload.begin(), payload.end(), received->front().bytes.begin()));
    EXPECT_EQ(device->counters().reads, 1U);
    EXPECT_EQ(device->counters().writes, 1U);
    EXPECT_EQ(device->counters().written_bytes, *length);
}

TEST_F(TunDeviceTest, EmptyQueueWouldBlockAndShortBufferIsTruncation) {
    auto device = open_and_configure({});
    ASSERT_TRUE(device);
    EXPECT_EQ(device->read(buffer_).error().code, Errc::WouldBlock);
    ASSERT_TRUE(net().shell("ping -q -c 1 -W 0.01 192.0.2.9 >/dev/null; true"));
    ASSERT_TRUE(wait_readable(*device));
    EXPECT_EQ(device->read(base::MutableByteView(buffer_).first(40)).error().code, Errc::Truncated);
    EXPECT_EQ(device->counters().truncated, 1U);
}

TEST_F(TunDeviceTest, UdpSuperPacketsComeThroughWhenOfferedAndSinglyWhenNot) {
    for (const bool try_uso : {true, false}) {
        TunOptions tun_options;
        tun_options.try_uso = try_uso;
        auto device = open_and_configure(tun_options);
        ASSERT_TRUE(device);
        EXPECT_TRUE(device->supports_tso());
        if (!try_uso) {
            EXPECT_FALSE(device->supports_uso());
        }
        UdpSocketOptions options;
        options.local = Endpoint{address("192.0.2.5"), 0};
        options.offload.segment = true;
        auto socket = UdpSocket::open(options);
        const std::vector<uint8_t> payload(1000 * 4);
        SendItem item;
        item.to = Endpoint{address("192.0.2.9"), 1000};
        item.bytes = payload;
        item.segment_bytes = 1000;
        ASSERT_EQ(socket->send({&item, 1}).sent_datagrams, 4U);
        const size_t frames = device->supports_uso() ? 1 : 4;
        for (size_t i = 0; i < frames; ++i) {
            ASSERT_TRUE(wait_readable(*device));
            const auto length = device->read(buffer_);
            ASSERT_TRUE(length);
            EXPECT_EQ(*length, kVnetBytes + 28 + payload.size() / frames);
        }
        EXPECT_EQ(device->read(buffer_).error().code, Errc::WouldBlock);
    }
}

TEST_F(TunDeviceTest, FaultyFrameIsAnErrorThatIsCounted) {
    auto device = open_and_configure({});
    ASSERT_TRUE(device);
    const std::array<uint8_t, 4> rubbish{};
    EXPECT_FALSE(device->write(rubbish));
    EXPECT_EQ(device->counters().write_errors, 1U);
}

TEST_F(TunDeviceTest, SeveralQueuesAndPersistenceUntilRemoved) {
    TunOptions options;
    options.queues = 3;
    options.persistent = true;
    options.mtu = 1400;
    {
        const auto device = open_and_configure(options);
        ASSERT_TRUE(device);
        EXPECT_EQ(device->queues(), device->one_queue_because() ? 1U : 3U);
        EXPECT_EQ(TunDevice::open("tun7", options).error().sys_errno, EBUSY)
            << "two processes would share the packets";
    }
    EXPECT_TRUE(net().shell("ip link show tun7 | grep -q 'mtu 1400'"));
    ASSERT_TRUE(TunDevice::open("tun7", options));
    EXPECT_TRUE(TunDevice::remove("tun7"));
    EXPECT_EQ(TunDevice::remove("tun7").error().code, Errc::NotFound);
    EXPECT_FALSE(TunDevice::open("a-name-too-long-for-it", options));
}

TEST_F(TunDeviceTest, OneOfAnEarlierVersionIsMadeAnewWithItsQueues) {
    TunOptions options;
    options.queues = 2;
    ASSERT_TRUE(net().shell("ip tuntap add dev tun7 mode tun vnet_hdr"));
    {
        const auto device = TunDevice::open("tun7", options);
        ASSERT_TRUE(device);
        EXPECT_EQ(device->queues(), device->one_queue_because() ? 1U : 2U);
        EXPECT_EQ(TunDevice::open("tun7", options).error().sys_errno, EBUSY) << "though it is down";
    }
    {
        const auto other = TunDevice::open("tun7", {});
        ASSERT_TRUE(other);
        EXPECT_EQ(TunDevice::open("tun7", options).error().sys_errno, EBUSY) << "though it is down";
    }
    ASSERT_TRUE(net().shell("ip tuntap add dev tun7 mode tap"));
    EXPECT_EQ(TunDevice::open("tun7", options).error().sys_errno, EINVAL);
    EXPECT_TRUE(TunDevice::remove("tun7")) << "a TAP interface stays";
    ASSERT_TRUE(net().shell("ip link add tun7 type bridge"));
    EXPECT_EQ(TunDevice::open("tun7", options).error().sys_errno, EINVAL);
    EXPECT_TRUE(TunDevice::remove("tun7")) << "what is no TUN interface stays";
}

// Sends `datagrams` to each, one after the other.
void send_to(const std::string& to, size_t datagrams) {
    const IpAddress remote = address(to);
    UdpSocketOptions options;
    options.local =
        Endpoint{address(remote.version == base::IpVersion::V4 ? "192.0.2.5" : "2001:db8::5"), 0};
    auto socket = UdpSocket::open(options);
    ASSERT_TRUE(socket);
    const std::array<uint8_t, 5> payload = {1, 2, 3, 4, 5};
    SendItem item;
    item.to = Endpoint{remote, 1000};
    item.bytes = payload;
    for (size_t i = 0; i < datagrams; ++i) {
        ASSERT_EQ(socket->send({&item, 1}).sent_datagrams, 1U);
    }
}

TEST_F(TunDeviceTest, AFloodForOneDestinationNeitherTakesRoomNorTimeOfOthers) {
    for (const uint32_t queues : {1U, 8U}) {
        TunOptions options;
        options.queues = queues;
        auto device = open_and_configure(options);
        ASSERT_TRUE(device);
        ASSERT_TRUE(net().shell("echo 0 > /proc/sys/net/ipv6/conf/tun7/disable_ipv6 && "
                                "ip addr add 2001:db8::5/64 dev tun7 nodad"));
        if (device->one_queue_because() && queues > 1) {
            GTEST_SKIP() << "needs CAP_BPF";
        }
        for (int flow = 0; flow < 64; ++flow) {
            send_to("192.0.2.9", 1000);  // each from a port of its own
        }
        for (const char* other : {"192.0.2.10", "2001:db8::b"}) {
            send_to(other, 1);
        }
        // Until both came: the last bytes of their destinations, and of those before them.
        size_t frames = 0;
        size_t came = 0;
        while (came < 2) {
            const auto length = device->read(buffer_);
            if (!length) {
                break;
            }
            ++frames;
            const bool is_v4 = buffer_[kVnetBytes] >> 4U == 4;
            came += buffer_[kVnetBytes + (is_v4 ? 19 : 39)] == (is_v4 ? 10 : 11) ? 1U : 0U;
        }
        if (queues == 1) {
            EXPECT_EQ(came, 0U) << "the queue was full";
        } else {
            EXPECT_EQ(came, 2U);
            EXPECT_LE(frames, 3 * TunQueues::kFramesInTurn);
        }
    }
}

// More goes into all queues while they are read: nothing stays behind that poll() does not tell.
TEST_F(TunDeviceTest, AllOfSeveralQueuesIsReadWhileMoreComes) {
    TunOptions options;
    options.queues = 64;
    auto device = open_and_configure(options);
    ASSERT_TRUE(device);
    size_t sent = 0;
    size_t frames = 0;
    const auto send_some = [&](size_t each) {
        for (int last = 10; last < 60; ++last) {
            send_to("192.0.2." + std::to_string(last), each);
            sent += each;
        }
    };
    send_some(11);
    while (frames < sent && wait_readable(*device)) {
        while (device->read(buffer_)) {
            ++frames;
            if (frames % 100 == 7 && sent < 3000) {
                send_some(1 + frames % 3);
            }
        }
    }
    EXPECT_GE(sent, 3000U);
    EXPECT_EQ(frames, sent);
    EXPECT_EQ(device->read(buffer_).error().code, Errc::WouldBlock);
}

TEST_F(TunDeviceTest, AnInterfaceThatIsGoneIsToldOnceForEachQueue) {
    TunOptions options;
    options.queues = 4;
    auto device = open_and_configure(options);
    ASSERT_TRUE(device);
    ASSERT_TRUE(TunDevice::remove("tun7"));
    if (device->one_queue_because()) {
        GTEST_SKIP() << "needs CAP_BPF";
    }
    for (int i = 0; i < 4; ++i) {
        ASSERT_TRUE(wait_readable(*device));
        EXPECT_EQ(device->read(buffer_).error().code, Errc::System);
    }
    EXPECT_EQ(device->read(buffer_).error().code, Errc::WouldBlock);
    pollfd wanted{device->poll_fd(), POLLIN, 0};
    EXPECT_EQ(::poll(&wanted, 1, 0), 0) << "it would be ready for ever";
}

TEST_F(TunDeviceTest, MayBeLeftAndTakenOver) {
    uint32_t index = 0;
    {
        auto device = TunDevice::open("tun7", {});
        ASSERT_TRUE(device);
        index = device->interface_index();
        ASSERT_TRUE(device->set_persistent(true));
    }
    {
        auto device = TunDevice::open("tun7", {});
        ASSERT_TRUE(device);
        EXPECT_EQ(device->interface_index(), index);
        ASSERT_TRUE(device->set_persistent(false));
    }
    EXPECT_EQ(TunDevice::remove("tun7").error().code, Errc::NotFound);
}

// In a process that can take back none of it, as another user who may open /dev/net/tun. Gives the
// errno of attaching.
int attach_as(uid_t user, gid_t group) {
    const pid_t child = ::fork();
    if (child == 0) {
        const int fd = ::open("/dev/net/tun", O_RDWR | O_CLOEXEC);
        ifreq request{};
        std::memcpy(static_cast<char*>(request.ifr_name), "tun7", 5);
        request.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR;
        const bool is_other = fd >= 0 && ::setgroups(0, nullptr) == 0 &&
                              ::setresgid(group, group, group) == 0 &&
                              ::setresuid(user, user, user) == 0;
        ::_exit(!is_other ? 255 : ::ioctl(fd, TUNSETIFF, &request) == 0 ? 0 : errno);
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

TEST_F(TunDeviceTest, LeftInterfaceIsNobodyElses) {
    constexpr uid_t kOther = 64790;
    if (::getuid() != 0 || attach_as(kOther, kOther) == 255) {
        GTEST_SKIP() << "needs to become another user";
    }
    // As a version without owners left it, or another user's.
    ASSERT_TRUE(net().shell("ip tuntap add dev tun7 mode tun user 64790 vnet_hdr"));
    EXPECT_EQ(attach_as(kOther, kOther), 0);
    TunOptions options;
    options.persistent = true;
    ASSERT_TRUE(TunDevice::open("tun7", options));
    EXPECT_EQ(attach_as(kOther, kOther), EPERM);
    EXPECT_EQ(attach_as(kOther, ::getegid()), EPERM);  // the group alone does not do
    ASSERT_TRUE(TunDevice::open("tun7", options));
}

TEST_F(TunDeviceTest, KernelNumbersAPattern) {
    auto device = TunDevice::open("ctn%d", {});
    ASSERT_TRUE(device);
    EXPECT_EQ(device->name(), "ctn0");
}

}  // namespace
}  // namespace continuo::io
