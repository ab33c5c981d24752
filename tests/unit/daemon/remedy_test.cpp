#include "common/daemon/remedy.hpp"

#include <cerrno>

#include <gtest/gtest.h>

namespace continuo::daemon {
namespace {

using base::Errc;
using base::Error;

bool names(std::string_view where, int sys_errno, std::string_view what) {
    return remedy(Error{Errc::System, where, sys_errno}).find(what) != std::string_view::npos;
}

TEST(Remedy, NamesTheSettingTheCapabilityOrTheProgram) {
    EXPECT_TRUE(names("add address", EACCES, "net.ipv6.conf.all.disable_ipv6"));
    EXPECT_TRUE(names("add address", EPERM, "CAP_NET_ADMIN"));
    EXPECT_TRUE(names("create tun interface", EPERM, "CAP_NET_ADMIN"));
    EXPECT_TRUE(names("create tun interface", EBUSY, "`device`"));
    EXPECT_TRUE(names("open /dev/net/tun", ENOENT, "module tun"));
    EXPECT_TRUE(names("bind udp socket", EADDRINUSE, "ss -lntup"));
    EXPECT_TRUE(names("TCP bind", EACCES, "CAP_NET_BIND_SERVICE"));
    EXPECT_TRUE(names("TCP bind", EADDRNOTAVAIL, "`listen`"));
    EXPECT_TRUE(names("write sysctl", EROFS, "set_forwarding = false"));
    EXPECT_TRUE(names("apply nftables rules", 0, "nftables"));
    EXPECT_TRUE(names("remove left command socket", EPERM, "remove it as root"));
    EXPECT_TRUE(names("set the owner of the tun interface", EPERM, "CAP_NET_ADMIN"));
    EXPECT_TRUE(names("open lock file", EACCES, "change its owner"));
    EXPECT_TRUE(names("ledger.db or its folder cannot be written", EACCES, "another user owns it"));
    EXPECT_TRUE(names("make directory", ENOTDIR, "move it away"));
    EXPECT_TRUE(names("open", ENOSPC, "disk is full"));
}

TEST(Remedy, SaysNothingOfWhatItDoesNotKnow) {
    EXPECT_EQ(remedy(Error{Errc::Malformed, "", 0}), "");
    EXPECT_EQ(remedy(Error{Errc::System, "add address", EINVAL}), "");
    EXPECT_EQ(remedy(Error{Errc::System, "open", EPERM}), "");
}

}  // namespace
}  // namespace continuo::daemon
