#include "common/daemon/remedy.hpp"

#include <algorithm>
#include <array>
#include <cerrno>

namespace continuo::daemon {

namespace {

// `where` is that of the errors of common/io, common/host and the listeners.
struct Refusal {
    std::array<std::string_view, 6> where;  // none: anywhere
    std::array<int, 3> sys_errno;           // none: any
    std::string_view remedy;
};

constexpr std::string_view kOpenTun = "open /dev/net/tun";
constexpr std::string_view kMakeTun = "create tun interface";
constexpr std::string_view kBindUdp = "bind udp socket";
constexpr std::string_view kBindTcp = "TCP bind";

// The first that fits.
constexpr Refusal kRefusals[] = {
    {{kOpenTun},
     {ENOENT, ENODEV, ENXIO},
     "load the kernel module tun, or give the container the device /dev/net/tun"},
    {{kOpenTun}, {EACCES, EPERM}, "run as root, or let this user open /dev/net/tun"},
    {{kMakeTun},
     {EBUSY},
     "another program has this device: stop it, or choose another `device` in the configuration"},
    {{kMakeTun},
     {EINVAL, EEXIST},
     "an interface of another kind has this name: choose another `device` in the configuration"},
    {{"add address"},
     {EACCES},
     "IPv6 is switched off for this interface, and on elsewhere: set "
     "net.ipv6.conf.all.disable_ipv6 = 0, or 1 to run with IPv4 alone"},
    {{"add address", "set route", "add rule"},
     {EOPNOTSUPP, EAFNOSUPPORT},
     "the kernel lacks this IP version or policy routing (CONFIG_IP_MULTIPLE_TABLES, "
     "CONFIG_IPV6_MULTIPLE_TABLES)"},
    {{kBindUdp, kBindTcp, "TCP listen"},
     {EADDRINUSE},
     "another program has this port (`ss -lntup` shows it): stop it, or change `listen`"},
    {{kBindUdp, kBindTcp},
     {EACCES},
     "ports below net.ipv4.ip_unprivileged_port_start (1024) take CAP_NET_BIND_SERVICE"},
    {{kBindUdp, kBindTcp},
     {EADDRNOTAVAIL},
     "no interface of this host has the address: change `listen`, or set it first"},
    {{"open udp socket", "TCP socket"},
     {EAFNOSUPPORT},
     "this kernel has no IPv6: leave IPv6 addresses out of `listen`"},
    {{"open sysctl", "write sysctl"},
     {EROFS, EACCES, EPERM},
     "/proc/sys is read-only here: set the parameter on the host, and set_forwarding = false"},
    {{"apply nftables rules"},
     {},
     "this needs CAP_NET_ADMIN and a kernel with nftables, its connection tracking and NAT"},
    {{"command socket"},
     {EADDRINUSE},
     "another instance answers there: stop it, or give this one its own --socket"},
    {{"remove left command socket"},
     {EPERM, EACCES},
     "another user made it, and nobody answers there: remove it as root, or use another --socket"},
    {{kMakeTun, "open netlink socket", "add address", "set interface", "set route", "add rule"},
     {EPERM},
     "this needs CAP_NET_ADMIN: run as root, or give the container or unit this "
     "capability"},
    {{}, {ENOSPC, EDQUOT}, "the disk is full"},
    {{}, {EROFS}, "the disk is mounted read-only"},
    {{}, {EMFILE, ENFILE}, "raise the limit of open files (ulimit -n, LimitNOFILE)"},
};

// An entry that is T() stands for none.
template <typename T, size_t kSize>
bool fits(const std::array<T, kSize>& list, const T& value) {
    return list.front() == T() ||
           (value != T() && std::find(list.begin(), list.end(), value) != list.end());
}

}  // namespace

std::string_view remedy(const base::Error& error) {
    for (const Refusal& refusal : kRefusals) {
        if (fits(refusal.where, error.where) && fits(refusal.sys_errno, error.sys_errno)) {
            return refusal.remedy;
        }
    }
    return {};
}

}  // namespace continuo::daemon
