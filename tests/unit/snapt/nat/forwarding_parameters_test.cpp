#include "snapt/nat/forwarding_parameters.hpp"
#include "tests/support/net_namespace.hpp"

namespace continuo::snapt::nat {
namespace {

using base::IpVersion;
using Keys = std::vector<std::string>;

class ForwardingParametersTest : public test::NetNamespaceTest {
  protected:
    void SetUp() override {
        test::NetNamespaceTest::SetUp();
        if (IsSkipped()) {
            return;
        }
        ASSERT_TRUE(
            net().shell("ip link add snapt0 type veth peer name wan0; ip link add wan1 type "
                        "veth peer name lan0"));
        set("net/ipv4/ip_forward", "0");
        set("net/ipv4/ip_forward", "1");
    }
    static void set(const std::string& key, const std::string& value) {
        ASSERT_TRUE(host::write_sysctl(key, value)) << key;
    }
    ForwardingPath four_{IpVersion::V4, "snapt0", {"wan0"}};
    ForwardingPath six_{IpVersion::V6, "snapt0", {"wan0"}};
};

TEST_F(ForwardingParametersTest, TheDeviceAndTheWaysOutDecideAlone) {
    EXPECT_EQ(forwarding_off(four_), Keys());
    set("net/ipv4/conf/lan0/forwarding", "0");
    set("net/ipv4/conf/wan1/forwarding", "0");
    EXPECT_EQ(forwarding_off(four_), Keys()) << "others may be closed";
    EXPECT_FALSE(is_closed(four_));
    set("net/ipv4/conf/wan0/forwarding", "0");
    EXPECT_EQ(forwarding_off(four_), Keys{"net/ipv4/conf/wan0/forwarding"});
    EXPECT_TRUE(is_closed(four_));
    four_.egress.emplace_back("wan1");
    set("net/ipv4/conf/wan1/forwarding", "1");
    EXPECT_FALSE(is_closed(four_)) << "one of two ways out";
    set("net/ipv4/conf/snapt0/forwarding", "0");
    EXPECT_TRUE(is_closed(four_));
    four_ = {IpVersion::V4, "none0", {"none1"}};
    EXPECT_EQ(forwarding_keys(four_), Keys()) << "no such interfaces";
    EXPECT_FALSE(is_closed(four_));
}

TEST_F(ForwardingParametersTest, OneSwitchForAllIsLeftWhereItWouldOpenAnotherInterface) {
    EXPECT_FALSE(may_switch_all_on(four_)) << "it is on";
    set("net/ipv4/ip_forward", "0");
    EXPECT_EQ(forwarding_off(four_),
              (Keys{"net/ipv4/conf/snapt0/forwarding", "net/ipv4/conf/wan0/forwarding"}));
    EXPECT_FALSE(may_switch_all_on(four_));
    ASSERT_TRUE(net().shell("ip link delete lan0"));
    EXPECT_TRUE(may_switch_all_on(four_)) << "no other interface is there";
}

TEST_F(ForwardingParametersTest, Ipv6HasOneForAllUntilTheKernelHasThemOfInterfaces) {
    set("net/ipv6/conf/all/forwarding", "1");
    EXPECT_EQ(forwarding_off(six_), Keys());
    EXPECT_FALSE(is_closed(six_));
    set("net/ipv6/conf/all/forwarding", "0");
    EXPECT_TRUE(is_closed(six_));
    const std::string force = "net/ipv6/conf/wan0/force_forwarding";
    if (!host::read_sysctl(force)) {
        EXPECT_EQ(forwarding_off(six_), Keys{kForwardAll6});
        return;
    }
    EXPECT_EQ(forwarding_off(six_), (Keys{"net/ipv6/conf/snapt0/force_forwarding", force}));
    set(force, "1");
    EXPECT_TRUE(is_closed(six_)) << "the device is closed";
    set("net/ipv6/conf/snapt0/force_forwarding", "1");
    EXPECT_EQ(forwarding_off(six_), Keys());
    EXPECT_FALSE(is_closed(six_));
}

TEST_F(ForwardingParametersTest, AReversePathFilterDropsAnswersUnlessItConsidersTheirMark) {
    for (const char* name : {"all", "wan0", "wan1", "lan0", "snapt0"}) {
        set("net/ipv4/conf/" + std::string(name) + "/rp_filter", "0");
    }
    EXPECT_EQ(filter_of_answers(four_), "");
    set("net/ipv4/conf/snapt0/rp_filter", "1");
    set("net/ipv4/conf/wan1/rp_filter", "1");
    EXPECT_EQ(filter_of_answers(four_), "") << "no answers come there";
    set("net/ipv4/conf/wan0/rp_filter", "2");
    EXPECT_EQ(filter_of_answers(four_), "wan0");
    set("net/ipv4/conf/wan0/src_valid_mark", "1");
    EXPECT_EQ(filter_of_answers(four_), "");
    set("net/ipv4/conf/all/rp_filter", "1");
    EXPECT_EQ(filter_of_answers(four_), "");
    four_.egress.clear();
    EXPECT_NE(filter_of_answers(four_), "") << "answers may come by any";
    set("net/ipv4/conf/all/src_valid_mark", "1");
    EXPECT_EQ(filter_of_answers(four_), "");
}

}  // namespace
}  // namespace continuo::snapt::nat
