#include "cnapt/capture/forward_links.hpp"

#include <gtest/gtest.h>

namespace continuo::cnapt::capture {
namespace {

using Names = std::vector<std::string>;

class ForwardLinksTest : public testing::Test {
  protected:
    void add_link(const std::string& name, const std::string& kind) {
        netlink::LinkEntry link;
        link.index = static_cast<uint32_t>(net_.links.size() + 1);
        link.name = name;
        link.is_loopback = name == "lo";
        link.kind = kind;
        net_.links.push_back(link);
    }
    void add_route(uint32_t index, std::string_view destination) {
        netlink::RouteEntry route;
        route.destination = base::IpPrefix::parse(destination).value();
        route.interface_index = index;
        net_.routes.push_back(route);
    }
    ForwardLinks links() const { return forward_links(net_, in_use_, "cnapt0"); }

    netlink::NetSnapshot net_;
    Names in_use_;
};

TEST_F(ForwardLinksTest, ADefaultRouteMakesAnUplinkOfABridgeToo) {
    for (const char* name : {"lo", "cnapt0", "eth0"}) {
        add_link(name, "");
    }
    add_link("docker0", "bridge");
    add_link("br0", "bridge");
    add_link("veth1", "veth");
    add_route(2, "0.0.0.0/0");
    add_route(3, "128.0.0.0/1");
    add_route(4, "172.17.0.0/16");
    add_route(4, "fc00::/7");
    EXPECT_EQ(links(), (ForwardLinks{{"eth0"}, {"docker0", "br0"}, 0}));
    add_route(5, "::/0");
    EXPECT_EQ(links(), (ForwardLinks{{"eth0", "br0"}, {"docker0"}, 0}));
    in_use_ = {"veth1"};
    EXPECT_EQ(links().uplinks, (Names{"eth0", "br0", "veth1"}));
}

TEST_F(ForwardLinksTest, WhatTheKernelIsNotToldIsCounted) {
    add_link("br+odd", "bridge");
    EXPECT_EQ(links(), (ForwardLinks{{}, {}, 1}));
    for (size_t i = 0; i < kMaxForwardLinks + 3; ++i) {
        add_link("br-" + std::to_string(i), "bridge");
    }
    EXPECT_EQ(links().bridges.size(), kMaxForwardLinks);
    EXPECT_EQ(links().left_out, 4U);
}

}  // namespace
}  // namespace continuo::cnapt::capture
