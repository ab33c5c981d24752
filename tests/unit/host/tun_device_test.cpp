#include "common/host/tun_device.hpp"
#include "common/io/udp_socket.hpp"
#include "common/netlink/netlink_route.hpp"
#include "tests/support/net_namespace.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include <fcntl.h>
#include <grp.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace continuo::host {
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
        auto client = netlink::RouteClient::open();
        netlink::LinkSettings settings;
        settings.up = true;
        EXPECT_TRUE(client->set_link(opened->interface_index(), settings));
        EXPECT_TRUE(client->add_address(opened->interface_index(), address("192.0.2.5"), 24));
        return std::move(*opened);
    }
    static bool wait_readable(const TunDevice& device) {
        pollfd wanted{device.fd(), POLLIN, 0};
        return ::poll(&wanted, 1, 2000) == 1;
    }
    std::vector<uint8_t> buffer_ = std::vector<uint8_t>(kTunFrameBytes);
};

TEST_F(TunDeviceTest, PacketOfTheKernelIsReadAndReturnedByWriting) {
    auto device = open_and_configure({});
    ASSERT_TRUE(device);
    EXPECT_EQ(device->name(), "tun7");
    io::UdpSocketOptions options;
    options.local = Endpoint{address("192.0.2.5"), 1000};
    auto socket = io::UdpSocket::open(options);
    ASSERT_TRUE(socket);
    const std::array<uint8_t, 5> payload = {1, 2, 3, 4, 5};
    io::SendItem item;
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
    io::UdpReceiveArena arena(1);
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
        io::UdpSocketOptions options;
        options.local = Endpoint{address("192.0.2.5"), 0};
        options.offload.segment = true;
        auto socket = io::UdpSocket::open(options);
        const std::vector<uint8_t> payload(1000 * 4);
        io::SendItem item;
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
    options.multi_queue = true;
    options.persistent = true;
    options.mtu = 1400;
    {
        auto first = TunDevice::open("tun7", options);
        auto second = TunDevice::open("tun7", options);
        ASSERT_TRUE(first);
        ASSERT_TRUE(second);
        EXPECT_EQ(first->interface_index(), second->interface_index());
    }
    EXPECT_TRUE(net().shell("ip link show tun7 | grep -q 'mtu 1400'"));
    ASSERT_TRUE(TunDevice::open("tun7", options));
    EXPECT_TRUE(TunDevice::remove("tun7"));
    EXPECT_EQ(TunDevice::remove("tun7").error().code, Errc::NotFound);
    EXPECT_FALSE(TunDevice::open("a-name-too-long-for-it", options));
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
}  // namespace continuo::host
