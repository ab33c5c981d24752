// allow_self on a real kernel: what a lease reaches of the relay's own host.
#include "tests/unit/snapt/nat/relay_net_fixture.hpp"

namespace continuo::snapt::nat {
namespace {

using settings::SelfService;

class SelfServiceTest : public RelayTest {};

INSTANTIATE_TEST_SUITE_P(Versions, SelfServiceTest, testing::Values(true, false));

TEST_P(SelfServiceTest, OfTheRelaysHostOnlyAllowedServicesAreReached) {
    options_.allow_self = {SelfService::parse("udp/52-53").value(),
                           SelfService::parse("ping").value()};
    start();
    const NetNamespace::Visit visit(*relay_);
    const UniqueFd service(::socket(GetParam() ? AF_INET : AF_INET6, SOCK_DGRAM, 0));
    const SocketAddress name(Endpoint{address(side().wan), 53});
    ASSERT_EQ(::bind(service.value(), name.data(), name.size()), 0);
    put(datagram(side().lease, side().wan));
    const auto asked = receive(service);
    ASSERT_TRUE(asked);
    EXPECT_EQ(asked->from, (Endpoint{address(side().lease), 5000})) << "no translation";
    send(service, asked->from, "answer");
    const auto answer = take();
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->source, address(side().wan));
    EXPECT_EQ(std::string(answer->payload.begin(), answer->payload.end()), "answer");
    RawPacket echo = datagram(side().lease, side().inner);
    echo.protocol = side().icmp;
    put(echo);
    const auto reply = take();
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->source, address(side().inner));
    EXPECT_EQ(counter(kToSelfCounter), 0U);
    put(datagram(side().lease, side().wan, 54));
    EXPECT_TRUE(take());
    RawPacket syn = datagram(side().lease, side().wan);
    syn.protocol = 6;
    syn.payload.clear();
    put(syn);
    const auto word = take();
    ASSERT_TRUE(word);
    EXPECT_EQ(word->protocol, side().icmp);
    EXPECT_EQ(counter(kToSelfCounter), 2U);
}

TEST_P(SelfServiceTest, AForeignSourceReachesNoServiceAndHearsNothing) {
    options_.allow_self = {SelfService::parse("ping").value()};
    start();
    RawPacket echo = datagram(GetParam() ? "100.127.0.9" : "fd93:48::9", side().inner);
    echo.protocol = side().icmp;
    put(echo);
    put(datagram(GetParam() ? "100.127.0.9" : "fd93:48::9", side().other_lease));
    EXPECT_FALSE(take(kSilenceMs));
    EXPECT_EQ(counter(kSpoofedCounter), 2U);
}

}  // namespace
}  // namespace continuo::snapt::nat
