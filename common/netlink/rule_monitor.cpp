#include "common/netlink/rule_monitor.hpp"

#include <cerrno>

#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

namespace continuo::netlink {

using base::Errc;
using base::Error;
using base::Result;

namespace {

// Small: notifications beyond it are lost and reported as ENOBUFS, which is enough.
constexpr int kReceiveBufferBytes = 8192;
constexpr unsigned kMessagesPerWakeUp = 64;
constexpr int kNoGroup = 0;

}  // namespace

Result<std::unique_ptr<RuleMonitor>> RuleMonitor::start(io::EventLoop& loop,
                                                        std::function<void()> on_change) {
    std::unique_ptr<RuleMonitor> monitor(new RuleMonitor(std::move(on_change)));
    CTN_TRY(monitor->add(loop, monitor->sources_[0], NETLINK_ROUTE,
                         {RTNLGRP_IPV4_RULE, RTNLGRP_IPV6_RULE}));
    CTN_TRY(
        monitor->add(loop, monitor->sources_[1], NETLINK_NETFILTER, {NFNLGRP_NFTABLES, kNoGroup}));
    return monitor;
}

Result<void>
RuleMonitor::add(io::EventLoop& loop, Source& source, int protocol, std::array<int, 2> groups) {
    source.fd.reset(::socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, protocol));
    if (!source.fd.is_open()) {
        return Error{Errc::System, "open netlink socket", errno};
    }
    const int fd = source.fd.value();
    ::setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &kReceiveBufferBytes, sizeof kReceiveBufferBytes);
    // A socket without an address gets no notifications.
    sockaddr_nl name{};
    name.nl_family = AF_NETLINK;
    if (::bind(fd, reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0) {
        return Error{Errc::System, "bind netlink socket", errno};
    }
    for (const int group : groups) {
        if (group != kNoGroup &&
            ::setsockopt(fd, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group, sizeof group) != 0) {
            return Error{Errc::System, "follow rules", errno};
        }
    }
    source.poller =
        std::make_unique<io::Poller>(loop, fd, [this, &source] { on_readable(source); });
    source.poller->watch(true);
    return {};
}

void RuleMonitor::on_readable(const Source& source) const {
    // Only the arrival counts, and forging it gains nothing: one byte is enough.
    uint8_t first = 0;
    for (unsigned i = 0; i < kMessagesPerWakeUp; ++i) {
        if (::recv(source.fd.value(), &first, sizeof first, 0) < 0 && errno != EINTR &&
            errno != ENOBUFS) {
            break;
        }
    }
    on_change_();
}

}  // namespace continuo::netlink
