#include "common/io/connection_monitor.hpp"

#include "common/io/netlink.hpp"

#include <array>
#include <cerrno>

#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <linux/netlink.h>
#include <poll.h>
#include <sys/socket.h>

namespace continuo::io {

using base::Errc;
using base::Error;
using base::Result;

namespace {

// Of some 10 000 connections that begin at once. A choice, not measured.
constexpr int kQueueBytes = 4 << 20;
constexpr size_t kDatagramBytes = 65'536;
constexpr unsigned kDatagramsOfARead = 1024;
constexpr std::array<int, 2> kGroups = {NFNLGRP_CONNTRACK_NEW, NFNLGRP_CONNTRACK_DESTROY};
constexpr unsigned kSubsystemBits = 8;  // a message's type: subsystem, then kind
constexpr unsigned kKindMask = 0xFF;

void hand_over(const NetlinkMessage& message,
               const std::function<void(const ConnectionEvent&)>& each) {
    const unsigned kind = message.type & kKindMask;
    const bool is_known = message.type >> kSubsystemBits == NFNL_SUBSYS_CTNETLINK &&
                          (kind == IPCTNL_MSG_CT_NEW || kind == IPCTNL_MSG_CT_DELETE);
    const auto family = message.fixed<nfgenmsg>().nfgen_family;
    if (!is_known || (family != AF_INET && family != AF_INET6)) {
        return;
    }
    const auto version = family == AF_INET ? base::IpVersion::V4 : base::IpVersion::V6;
    if (const auto connection = tracked_connection(message.attributes(sizeof(nfgenmsg)), version)) {
        each({kind == IPCTNL_MSG_CT_DELETE, *connection});
    }
}

}  // namespace

Result<ConnectionMonitor> ConnectionMonitor::open() {
    UniqueFd fd(::socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_NETFILTER));
    if (!fd.is_open()) {
        return Error{Errc::System, "open netlink socket", errno};
    }
    ::setsockopt(fd.value(), SOL_SOCKET, SO_RCVBUFFORCE, &kQueueBytes, sizeof kQueueBytes);
    sockaddr_nl name{};
    name.nl_family = AF_NETLINK;
    if (::bind(fd.value(), reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0) {
        return Error{Errc::System, "bind netlink socket", errno};
    }
    for (const int group : kGroups) {
        if (::setsockopt(fd.value(), SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group, sizeof group) !=
            0) {
            return Error{Errc::System, "follow connections", errno};
        }
    }
    ConnectionMonitor monitor(std::move(fd));
    monitor.buffer_.resize(kDatagramBytes);
    return monitor;
}

Result<bool> ConnectionMonitor::read(base::Duration timeout,
                                     const std::function<void(const ConnectionEvent&)>& each) {
    pollfd wanted{fd_.value(), POLLIN, 0};
    if (::poll(&wanted, 1, static_cast<int>(base::to_ms(timeout))) < 0 && errno != EINTR) {
        return Error{Errc::System, "wait for connections", errno};
    }
    bool is_whole = true;
    for (unsigned i = 0; i < kDatagramsOfARead; ++i) {
        sockaddr_nl from{};
        socklen_t length = sizeof from;
        const ssize_t got = ::recvfrom(fd_.value(), buffer_.data(), buffer_.size(), 0,
                                       reinterpret_cast<sockaddr*>(&from), &length);
        if (got < 0 && errno == ENOBUFS) {
            is_whole = false;
        } else if (got < 0 && errno != EINTR) {
            return errno == EAGAIN ? Result<bool>(is_whole)
                                   : Error{Errc::System, "read connections", errno};
        } else if (got > 0 && from.nl_pid == 0) {  // the kernel's
            for_each_message(base::ByteView(buffer_).first(static_cast<size_t>(got)),
                             [&each](const NetlinkMessage& message) { hand_over(message, each); });
        }
    }
    return is_whole;
}

}  // namespace continuo::io
