#include "common/host/tun_device.hpp"

#include "common/host/privileges.hpp"
#include "common/netlink/netlink_route.hpp"

#include <array>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

namespace continuo::host {

namespace {

using base::Errc;
using base::Error;
using base::Result;

constexpr const char* kTunPath = "/dev/net/tun";
// linux/if_tun.h of Linux 6.2; missing in earlier headers.
constexpr unsigned kTunOffloadUso4 = 0x20;
constexpr unsigned kTunOffloadUso6 = 0x40;
constexpr unsigned kTunOffloadTso = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6;
constexpr unsigned kTunOffloadUso = kTunOffloadTso | kTunOffloadUso4 | kTunOffloadUso6;

ifreq request_for(std::string_view name, unsigned flags) {
    ifreq request{};
    std::memcpy(static_cast<char*>(request.ifr_name), name.data(), name.size());
    request.ifr_flags = static_cast<short>(flags);
    return request;
}

bool set_offload(int fd, unsigned flags) {
    return ::ioctl(fd, TUNSETOFFLOAD, static_cast<unsigned long>(flags)) == 0;
}

// Only this process's user, its private group, and holders of CAP_NET_ADMIN may attach. After the
// daemon is killed, an interface without an owner could be taken by anybody who may open
// /dev/net/tun. An existing one is taken over. Never the group of the command sockets, which has
// other members.
Result<void> take_ownership(int fd) {
    if (::ioctl(fd, TUNSETOWNER, static_cast<unsigned long>(::geteuid())) != 0) {
        return Error{Errc::System, "set the owner of the tun interface", errno};
    }
    const gid_t group = ::getegid();
    if (group != command_group() &&
        ::ioctl(fd, TUNSETGROUP, static_cast<unsigned long>(group)) != 0) {
        return Error{Errc::System, "set the group of the tun interface", errno};
    }
    return {};
}

}  // namespace

Result<TunDevice> TunDevice::open(std::string_view name, const TunOptions& options) {
    if (name.empty() || name.size() >= IFNAMSIZ) {
        return Error{Errc::InvalidConfig, "tun name"};
    }
    TunDevice device;
    device.fd_.reset(::open(kTunPath, O_RDWR | O_NONBLOCK | O_CLOEXEC));
    if (!device.fd_.is_open()) {
        return Error{Errc::System, "open /dev/net/tun", errno};
    }
    const unsigned queue_flag = options.multi_queue ? IFF_MULTI_QUEUE : 0U;
    ifreq request = request_for(name, IFF_TUN | IFF_NO_PI | IFF_VNET_HDR | queue_flag);
    if (::ioctl(device.fd(), TUNSETIFF, &request) != 0) {
        return Error{Errc::System, "create tun interface", errno};
    }
    CTN_TRY(take_ownership(device.fd()));
    device.name_ = static_cast<const char*>(request.ifr_name);
    device.uso_ = options.try_uso && set_offload(device.fd(), kTunOffloadUso);
    device.tso_ = device.uso_ || set_offload(device.fd(), kTunOffloadTso);
    if (options.persistent) {
        CTN_TRY(device.set_persistent(true));
    }
    netlink::RouteClient routes = CTN_TRY(netlink::RouteClient::open());
    device.interface_index_ = CTN_TRY(routes.interface_index(device.name_));
    if (options.mtu != 0) {
        netlink::LinkSettings settings;
        settings.mtu = options.mtu;
        CTN_TRY(routes.set_link(device.interface_index_, settings));
    }
    return device;
}

Result<void> TunDevice::set_persistent(bool is_persistent) {
    if (::ioctl(fd(), TUNSETPERSIST, is_persistent ? 1UL : 0UL) != 0) {
        return Error{Errc::System, "change whether the tun interface stays", errno};
    }
    return {};
}

Result<void> TunDevice::remove(std::string_view name) {
    netlink::RouteClient routes = CTN_TRY(netlink::RouteClient::open());
    const uint32_t index = CTN_TRY(routes.interface_index(name));
    return routes.delete_link(index);
}

Result<size_t> TunDevice::read(base::MutableByteView into) {
    ssize_t got = 0;
    do {
        got = ::read(fd_.value(), into.data(), into.size());
    } while (got < 0 && errno == EINTR);
    if (got < 0) {
        return Error{errno == EAGAIN ? Errc::WouldBlock : Errc::System, "read tun", errno};
    }
    const auto length = static_cast<size_t>(got);
    ++counters_.reads;
    counters_.read_bytes += length;
    if (length == into.size()) {
        ++counters_.truncated;
        return Error{Errc::Truncated, "tun frame"};
    }
    return length;
}

Result<void> TunDevice::write(base::ByteView frame) {
    ssize_t written = 0;
    do {
        written = ::write(fd_.value(), frame.data(), frame.size());
    } while (written < 0 && errno == EINTR);
    return finish_write(written);
}

Result<void> TunDevice::write(std::span<const base::ByteView> pieces) {
    CTN_ASSERT(pieces.size() <= kMaxWritePieces);
    std::array<iovec, kMaxWritePieces> vectors{};
    for (size_t i = 0; i < pieces.size(); ++i) {
        // writev reads only; its interface predates const.
        vectors[i] = {const_cast<uint8_t*>(pieces[i].data()), pieces[i].size()};
    }
    ssize_t written = 0;
    do {
        written = ::writev(fd_.value(), vectors.data(), static_cast<int>(pieces.size()));
    } while (written < 0 && errno == EINTR);
    return finish_write(written);
}

Result<void> TunDevice::finish_write(int64_t written) {
    if (written < 0) {
        if (errno == EAGAIN) {
            return Error{Errc::WouldBlock, "write tun", errno};
        }
        ++counters_.write_errors;
        return Error{Errc::System, "write tun", errno};
    }
    ++counters_.writes;
    counters_.written_bytes += static_cast<uint64_t>(written);
    return {};
}

}  // namespace continuo::host
