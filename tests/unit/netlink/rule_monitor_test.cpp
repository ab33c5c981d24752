#include "common/netlink/rule_monitor.hpp"
#include "tests/support/net_namespace.hpp"

namespace continuo::netlink {
namespace {

using base::milliseconds;
using base::seconds;

class RuleMonitorTest : public test::NetNamespaceTest {
  protected:
    void SetUp() override {
        NetNamespaceTest::SetUp();
        if (!IsSkipped()) {
            monitor_ = RuleMonitor::start(loop_, [this] { ++changes_; }).value();
        }
    }
    bool is_told_of(const char* command) {
        const unsigned before = changes_;
        EXPECT_TRUE(net().shell(command)) << command;
        return loop_.run_until([&] { return changes_ > before; }, seconds(5));
    }
    bool is_quiet() {
        const unsigned before = changes_;
        return !loop_.run_until([&] { return changes_ > before; }, milliseconds(20));
    }

    io::EventLoop loop_;
    unsigned changes_ = 0;
    std::unique_ptr<RuleMonitor> monitor_;
};

TEST_F(RuleMonitorTest, TellsOfRulesAndTablesThatComeAndGo) {
    EXPECT_TRUE(is_quiet());
    EXPECT_TRUE(is_told_of("ip rule add priority 7 lookup 7"));
    EXPECT_TRUE(is_told_of("ip -6 rule add priority 7 lookup 7"));
    EXPECT_TRUE(is_told_of("nft add table inet continuo_test"));
    EXPECT_TRUE(is_told_of("nft flush ruleset"));
    EXPECT_TRUE(is_told_of("ip rule del priority 7"));
    EXPECT_TRUE(is_told_of("ip -6 rule del priority 7"));
    EXPECT_TRUE(is_quiet());
    EXPECT_TRUE(net().shell("ip addr add 192.0.2.1/32 dev lo"));
    EXPECT_TRUE(is_quiet()) << "of no business of ours";
}

TEST_F(RuleMonitorTest, GoesOnAfterMoreThanItCanHold) {
    EXPECT_TRUE(is_told_of("for n in $(seq 1000 3000); do echo rule add priority $n lookup 7; done "
                           "| ip -batch -"));
    while (!is_quiet()) {
    }
    EXPECT_TRUE(is_told_of("nft add table inet continuo_test"));
}

}  // namespace
}  // namespace continuo::netlink
