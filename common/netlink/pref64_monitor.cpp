#include "common/netlink/pref64_monitor.hpp"

#include <cerrno>

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

namespace continuo::netlink {

using base::ByteView;
using base::Errc;
using base::Error;
using base::Result;

namespace {

// Each option is a message. Messages beyond this are lost: routers repeat them.
constexpr size_t kPref64BlockBytes = 8192;
constexpr unsigned kPref64MessagesPerWakeUp = 64;

}  // namespace

Result<std::unique_ptr<Pref64Monitor>> Pref64Monitor::start(io::EventLoop& loop,
                                                            std::function<void()> on_notice) {
    std::unique_ptr<Pref64Monitor> monitor(new Pref64Monitor(loop, std::move(on_notice)));
    CTN_TRY(monitor->subscribe());
    return monitor;
}

Result<void> Pref64Monitor::subscribe() {
    fd_.reset(::socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_ROUTE));
    if (!fd_.is_open()) {
        return Error{Errc::System, "open netlink socket", errno};
    }
    sockaddr_nl name{};
    name.nl_family = AF_NETLINK;
    if (::bind(fd_.value(), reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0) {
        return Error{Errc::System, "bind netlink socket", errno};
    }
    constexpr int kGroup = RTNLGRP_ND_USEROPT;
    if (::setsockopt(fd_.value(), SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &kGroup, sizeof kGroup) !=
        0) {
        return Error{Errc::System, "follow router advertisements", errno};
    }
    block_.resize(kPref64BlockBytes);
    poller_ = std::make_unique<io::Poller>(loop_, fd_.value(), [this] { on_readable(); });
    poller_->watch(true);
    return {};
}

void Pref64Monitor::on_readable() {
    bool has_told = false;
    for (unsigned i = 0; i < kPref64MessagesPerWakeUp; ++i) {
        sockaddr_nl from{};
        socklen_t length = sizeof from;
        const ssize_t got = ::recvfrom(fd_.value(), block_.data(), block_.size(), 0,
                                       reinterpret_cast<sockaddr*>(&from), &length);
        if (got < 0 && (errno == EINTR || errno == ENOBUFS)) {
            continue;
        }
        if (got < 0) {
            break;
        }
        // Only the kernel's word counts.
        if (from.nl_pid != 0) {
            continue;
        }
        for_each_message(ByteView(block_).first(static_cast<size_t>(got)),
                         [&](const NetlinkMessage& message) {
                             if (const auto notice = parse_pref64_notice(message)) {
                                 table_.note(*notice, loop_.now());
                                 has_told = true;
                             }
                         });
    }
    if (has_told) {
        on_notice_();
    }
}

}  // namespace continuo::netlink
