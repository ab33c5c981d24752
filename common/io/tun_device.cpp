#include "common/io/tun_device.hpp"

#include "common/io/netlink_route.hpp"
#include "common/io/privileges.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

namespace continuo::io {

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

// Only this process's user, with its private group, and whoever has CAP_NET_ADMIN may attach. An
// interface without an owner would be everybody's who may open /dev/net/tun, once the daemon is
// killed. One that was there before is taken over. Never by the group of the command sockets,
// which has other members.
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

// One descriptor of the interface, which is made if need be.
Result<UniqueFd> attach_queue(ifreq& request) {
    UniqueFd queue(::open(kTunPath, O_RDWR | O_NONBLOCK | O_CLOEXEC));
    if (!queue.is_open()) {
        return Error{Errc::System, "open /dev/net/tun", errno};
    }
    if (::ioctl(queue.value(), TUNSETIFF, &request) != 0) {
        return Error{Errc::System, "create tun interface", errno};
    }
    return queue;
}

Result<std::optional<LinkEntry>> find_link(RouteClient& routes, const ifreq& request) {
    for (LinkEntry& link : CTN_TRY(routes.links())) {
        if (link.name == static_cast<const char*>(request.ifr_name)) {
            return std::optional(std::move(link));
        }
    }
    return std::optional<LinkEntry>();
}

uint32_t queues_held(const std::optional<LinkEntry>& link) {
    return link && link->tun ? link->tun->queues : 0;
}

// An interface of several queues takes any process that may attach, and two would share the
// packets: the kernel says how many queues are held, before and after. One that an earlier version
// left has a single queue and cannot get more.
Result<UniqueFd> attach_first_of_several(ifreq& request) {
    const Error is_held{Errc::System, "create tun interface", EBUSY};
    RouteClient routes = CTN_TRY(RouteClient::open());
    const std::optional<LinkEntry> former = CTN_TRY(find_link(routes, request));
    if (queues_held(former) > 0) {
        return is_held;
    }
    if (former && former->tun && !former->tun->is_tap && !former->tun->has_several_queues) {
        CTN_TRY(routes.delete_link(former->index));
    }
    UniqueFd first = CTN_TRY(attach_queue(request));
    if (queues_held(CTN_TRY(find_link(routes, request))) > 1) {
        return is_held;
    }
    return first;
}

}  // namespace

Result<TunDevice> TunDevice::attach(std::string_view name, uint32_t queues) {
    const bool is_several = queues > 1;
    ifreq request =
        request_for(name, IFF_TUN | IFF_NO_PI | IFF_VNET_HDR | (is_several ? IFF_MULTI_QUEUE : 0U));
    std::vector<UniqueFd> attached;
    attached.push_back(
        CTN_TRY(is_several ? attach_first_of_several(request) : attach_queue(request)));
    const int first = attached.front().value();
    CTN_TRY(take_ownership(first));
    std::optional<Error> one_queue_because;
    if (is_several) {
        if (const auto steered = steer_by_destination(first); !steered) {
            one_queue_because = steered.error();
        }
    }
    while (!one_queue_because && attached.size() < queues) {
        attached.push_back(CTN_TRY(attach_queue(request)));
    }
    TunDevice device(CTN_TRY(TunQueues::open(std::move(attached))));
    device.name_ = static_cast<const char*>(request.ifr_name);
    device.one_queue_because_ = one_queue_because;
    return device;
}

Result<TunDevice> TunDevice::open(std::string_view name, const TunOptions& options) {
    if (name.empty() || name.size() >= IFNAMSIZ) {
        return Error{Errc::InvalidConfig, "tun name"};
    }
    TunDevice device = CTN_TRY(attach(name, options.queues));
    const int first = device.queues_.first_fd();
    device.uso_ = options.try_uso && set_offload(first, kTunOffloadUso);
    device.tso_ = device.uso_ || set_offload(first, kTunOffloadTso);
    if (options.persistent) {
        CTN_TRY(device.set_persistent(true));
    }
    RouteClient routes = CTN_TRY(RouteClient::open());
    device.interface_index_ = CTN_TRY(routes.interface_index(device.name_));
    if (options.mtu != 0) {
        LinkSettings settings;
        settings.mtu = options.mtu;
        CTN_TRY(routes.set_link(device.interface_index_, settings));
    }
    return device;
}

Result<void> TunDevice::set_persistent(bool is_persistent) {
    if (::ioctl(queues_.first_fd(), TUNSETPERSIST, is_persistent ? 1UL : 0UL) != 0) {
        return Error{Errc::System, "change whether the tun interface stays", errno};
    }
    return {};
}

Result<void> TunDevice::remove(std::string_view name) {
    RouteClient routes = CTN_TRY(RouteClient::open());
    const uint32_t index = CTN_TRY(routes.interface_index(name));
    return routes.delete_link(index);
}

Result<size_t> TunDevice::read(base::MutableByteView into) {
    while (const std::optional<int> queue = queues_.next()) {
        const ssize_t got = ::read(*queue, into.data(), into.size());
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0 && errno == EAGAIN) {
            queues_.on_empty();
            continue;
        }
        if (got < 0) {
            const int why = errno;
            queues_.on_error();
            return Error{Errc::System, "read tun", why};
        }
        queues_.on_frame();
        const auto length = static_cast<size_t>(got);
        ++counters_.reads;
        counters_.read_bytes += length;
        if (length == into.size()) {
            ++counters_.truncated;
            return Error{Errc::Truncated, "tun frame"};
        }
        return length;
    }
    return Error{Errc::WouldBlock, "read tun", EAGAIN};
}

Result<void> TunDevice::write(base::ByteView frame) {
    ssize_t written = 0;
    do {
        written = ::write(queues_.first_fd(), frame.data(), frame.size());
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
        written = ::writev(queues_.first_fd(), vectors.data(), static_cast<int>(pieces.size()));
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

}  // namespace continuo::io
