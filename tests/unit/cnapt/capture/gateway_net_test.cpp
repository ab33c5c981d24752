#include "tests/unit/cnapt/capture/capture_net_fixture.hpp"

namespace continuo::cnapt::capture {
namespace {

// With a client behind the node, which masquerades what it routes plain.
class GatewayTest : public CaptureTest {
  protected:
    void SetUp() override {
        CaptureTest::SetUp();
        if (IsSkipped()) {
            return;
        }
        options_.gateway_interfaces = {"lan0"};
        lan_ = NetNamespace::create();
        ASSERT_TRUE(lan_);
        ASSERT_TRUE(node_->shell("ip link add lan0 index 101 type veth peer name peer netns " +
                                 lan_->path() +
                                 " && ip addr add 192.168.9.1/24 dev lan0 && "
                                 "ip addr add fd99::1/64 dev lan0 nodad && ip link set lan0 up && "
                                 "echo 1 > /proc/sys/net/ipv4/ip_forward && "
                                 "echo 1 > /proc/sys/net/ipv6/conf/all/forwarding && "
                                 "nft 'add table inet host; "
                                 "add chain inet host post { type nat hook postrouting priority "
                                 "srcnat + 1; }; "
                                 "add rule inet host post oifname up0 masquerade'"));
        ASSERT_TRUE(lan_->shell("ip addr add 192.168.9.2/24 dev peer && "
                                "ip addr add fd99::2/64 dev peer nodad && ip link set peer up && "
                                "ip route add default via 192.168.9.1 && "
                                "ip -6 route add default via fd99::1"));
        start();
    }
    UniqueFd client_socket() {
        return lan_->run([&] { return bound_socket({address(side().client), 0}, SOCK_DGRAM); });
    }
    void send_far(const UniqueFd& client) {
        ASSERT_EQ(lan_->run([&] { return send_to(client, {address(side().far), 80}); }), 0);
    }

    std::optional<NetNamespace> lan_;
};

INSTANTIATE_TEST_SUITE_P(Versions, GatewayTest, testing::Values(true, false));

TEST_P(GatewayTest, AFlowOfTheLanStaysWhereItBegan) {
    const UniqueFd far = router_socket(side().far, 80, SOCK_DGRAM);
    const UniqueFd tunnelled = client_socket();
    send_far(tunnelled);
    ASSERT_TRUE(captured());
    leave_new_flows_alone();
    const UniqueFd plain = client_socket();
    send_far(plain);
    const auto from = receive_from(far);
    ASSERT_TRUE(from);
    EXPECT_EQ(from->address, address(side().node));
    send_far(tunnelled);
    EXPECT_TRUE(captured()) << "began in the tunnel";
    node_->run([&] {
        netfilter::Nft nft;
        EXPECT_TRUE(nft.apply(plan_.open_gateway)) << nft.error_text();
    });
    send_far(plain);
    EXPECT_TRUE(receive_from(far)) << "began outside";
    send_far(client_socket());
    EXPECT_TRUE(captured()) << "new ones are let in again";
    EXPECT_EQ(counter(kLeakCounter), 0U);
}

TEST_P(GatewayTest, ClientsAreMasqueradedBothWays) {
    const UniqueFd client = client_socket();
    send_far(client);
    auto packet = captured();
    ASSERT_TRUE(packet);
    EXPECT_EQ(packet->source, address(side().inner));
    std::swap(packet->source, packet->destination);
    std::swap(packet->source_port, packet->destination_port);
    ASSERT_TRUE(tun_->write(test::build_frame(*packet)));
    const auto from = receive_from(client);
    ASSERT_TRUE(from);
    EXPECT_EQ(from->address, address(side().far));
    // The gateway itself is reached directly.
    const UniqueFd own = node_socket(GetParam() ? "0.0.0.0" : "::", 53, SOCK_DGRAM);
    EXPECT_EQ(lan_->run([&] {
        return send_to(client, {address(GetParam() ? "192.168.9.1" : "fd99::1"), 53});
    }),
              0);
    EXPECT_TRUE(receive_from(own));
    EXPECT_EQ(counter(kLeakCounter), 0U);
}

}  // namespace
}  // namespace continuo::cnapt::capture
