#include "common/host/sysctl.hpp"
#include "common/io/file.hpp"
#include "tests/support/net_namespace.hpp"

namespace continuo::host {
namespace {

constexpr const char* kForward = "net/ipv4/ip_forward";
constexpr const char* kTtl = "net/ipv4/ip_default_ttl";

// In a network namespace of its own: its settings are its own too.
class SysctlTest : public test::NetNamespaceTest {
  protected:
    void SetUp() override {
        test::NetNamespaceTest::SetUp();
        if (IsSkipped()) {
            return;
        }
        std::string pattern = testing::TempDir() + "continuo-sysctl-XXXXXX";
        const int fd = ::mkstemp(pattern.data());
        ASSERT_GE(fd, 0);
        ::close(fd);
        record_ = pattern;
        ASSERT_TRUE(io::remove_file(record_));
        ASSERT_TRUE(write_sysctl(kForward, "0"));
        ASSERT_TRUE(write_sysctl(kTtl, "64"));
    }
    void TearDown() override {
        if (!record_.empty()) {
            ASSERT_TRUE(io::remove_file(record_));
        }
        test::NetNamespaceTest::TearDown();
    }
    std::string record_;
};

TEST_F(SysctlTest, RestorePutsFormerValuesBackAndRemovesTheRecord) {
    auto guard = SysctlGuard::open(record_);
    ASSERT_TRUE(guard);
    ASSERT_TRUE(guard->set({kForward, "1"}));
    ASSERT_TRUE(guard->set({kTtl, "70"}));
    ASSERT_TRUE(guard->set({kTtl, "71"}));
    EXPECT_EQ(*read_sysctl(kTtl), "71");
    ASSERT_TRUE(guard->restore());
    EXPECT_EQ(*read_sysctl(kForward), "0");
    EXPECT_EQ(*read_sysctl(kTtl), "64");
    EXPECT_FALSE(io::read_file(record_, 1000));
}

TEST_F(SysctlTest, NextStartUndoesWhatAKilledRunLeft) {
    {
        auto guard = SysctlGuard::open(record_);
        ASSERT_TRUE(guard);
        ASSERT_TRUE(guard->set({kForward, "1"}));
        ASSERT_TRUE(guard->set({kTtl, "70"}));
    }
    EXPECT_EQ(*read_sysctl(kForward), "1");
    ASSERT_TRUE(SysctlGuard::open(record_));
    EXPECT_EQ(*read_sysctl(kForward), "0");
    EXPECT_EQ(*read_sysctl(kTtl), "64");
}

TEST_F(SysctlTest, ValueThatSomebodyElseChangedMeanwhileStays) {
    auto guard = SysctlGuard::open(record_);
    ASSERT_TRUE(guard);
    ASSERT_TRUE(guard->set({kTtl, "70"}));
    ASSERT_TRUE(write_sysctl(kTtl, "99"));
    ASSERT_TRUE(guard->restore());
    EXPECT_EQ(*read_sysctl(kTtl), "99");
}

TEST_F(SysctlTest, WhatOthersWriteBetweenIsNotRestored) {
    ASSERT_TRUE(write_sysctl(kForward, "1"));
    auto guard = SysctlGuard::open(record_);
    ASSERT_TRUE(guard);
    ASSERT_TRUE(guard->set({kForward, "1"}));
    guard->remember(kTtl);
    ASSERT_TRUE(write_sysctl(kForward, "0"));
    ASSERT_TRUE(write_sysctl(kTtl, "99"));
    ASSERT_TRUE(guard->set({kForward, "1"}));
    ASSERT_TRUE(guard->set({kTtl, "70"}));
    ASSERT_TRUE(guard->restore());
    EXPECT_EQ(*read_sysctl(kForward), "1");
    EXPECT_EQ(*read_sysctl(kTtl), "64");
}

TEST_F(SysctlTest, AtLeastRaisesButNeverLowers) {
    auto guard = SysctlGuard::open(record_);
    ASSERT_TRUE(guard);
    ASSERT_TRUE(guard->set({kTtl, "60", true, false}));
    EXPECT_EQ(*read_sysctl(kTtl), "64");
    ASSERT_TRUE(guard->set({kTtl, "100", true, false}));
    EXPECT_EQ(*read_sysctl(kTtl), "100");
    ASSERT_TRUE(guard->restore());
    EXPECT_EQ(*read_sysctl(kTtl), "64");
}

TEST_F(SysctlTest, MissingKeyIsAnErrorUnlessOptional) {
    auto guard = SysctlGuard::open(record_);
    ASSERT_TRUE(guard);
    EXPECT_FALSE(guard->set({"net/ipv4/no_such_key", "1"}));
    EXPECT_TRUE(guard->set({"net/ipv4/no_such_key", "1", false, true}));
}

TEST_F(SysctlTest, SpoiledRecordNeitherCrashesNorLeavesProcSys) {
    ASSERT_TRUE(io::write_file_atomically(
        record_, "\n\t\t\nnet/../../etc/x\t1\t2\nx\nnet/ipv4/ip_forward\t1\t0"));
    ASSERT_TRUE(SysctlGuard::open(record_));
    // The last line is whole: 0 was ours, 1 was before.
    EXPECT_EQ(*read_sysctl(kForward), "1");
    EXPECT_FALSE(write_sysctl("net/../../etc/x", "1"));
    EXPECT_FALSE(write_sysctl("/etc/x", "1"));
}

TEST_F(SysctlTest, Ipv6IsOffWhereNoInterfaceButOnesOwnHasIt) {
    ASSERT_TRUE(net().shell("ip link add one0 type veth peer name other0"));
    EXPECT_EQ(ipv6_switched_off("own0"), "");
    ASSERT_TRUE(write_sysctl("net/ipv6/conf/all/disable_ipv6", "1"));
    EXPECT_EQ(ipv6_switched_off("own0"), "net.ipv6.conf.all.disable_ipv6 = 1");
    EXPECT_FALSE(has_ipv6("one0") || has_ipv6("all"));
    ASSERT_TRUE(switch_ipv6("one0", true));
    EXPECT_TRUE(has_ipv6("one0"));
    EXPECT_EQ(ipv6_switched_off("own0"), "");
    EXPECT_EQ(ipv6_switched_off("one0"), "net.ipv6.conf.all.disable_ipv6 = 1");
    EXPECT_FALSE(switch_ipv6("none0", true));
    EXPECT_FALSE(has_ipv6("none0"));
    ASSERT_TRUE(switch_ipv6("one0", false));
    EXPECT_EQ(ipv6_switched_off("own0"), "net.ipv6.conf.all.disable_ipv6 = 1");
}

TEST_F(SysctlTest, ListsInterfacesOfIpv4) {
    ASSERT_TRUE(net().shell("ip link add d0 type veth peer name d1"));
    auto names = ipv4_interfaces();
    std::sort(names.begin(), names.end());
    EXPECT_EQ(names, (std::vector<std::string>{"d0", "d1"}));
}

TEST_F(SysctlTest, ListsInterfacesThatTakeRouterAdvertisements) {
    ASSERT_TRUE(net().shell("ip link add d0 type veth peer name d1"));
    ASSERT_TRUE(write_sysctl("net/ipv6/conf/d0/accept_ra", "1"));
    ASSERT_TRUE(write_sysctl("net/ipv6/conf/d1/accept_ra", "0"));
    EXPECT_EQ(interfaces_with_router_advertisements(), std::vector<std::string>{"d0"});
}

}  // namespace
}  // namespace continuo::host
