// The relay's rules on a real kernel.
#include "tests/unit/snapt/nat/relay_net_fixture.hpp"

namespace continuo::snapt::nat {
namespace {

INSTANTIATE_TEST_SUITE_P(Versions, RelayTest, testing::Values(true, false));

TEST_P(RelayTest, DatagramsLeaveWithTheRelaysAddressAndAnswersComeBackToTheLease) {
    start();
    const UniqueFd far = correspondent(side().far, 53);
    put(datagram(side().lease, side().far));
    const auto request = receive(far);
    ASSERT_TRUE(request);
    EXPECT_EQ(request->text, "hi");
    // Masquerading may choose either address of the interface.
    EXPECT_TRUE(request->from.address == address(side().wan) ||
                request->from.address == address(side().pool));
    EXPECT_GE(request->from.port, options_.source_ports.front().first);
    send(far, request->from, "answer");
    const auto answer = take();
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->destination, address(side().lease));
    EXPECT_EQ(answer->destination_port, 5000);
    EXPECT_EQ(std::string(answer->payload.begin(), answer->payload.end()), "answer");
    EXPECT_EQ(counter(kLeakCounter), 0U);
}

TEST_P(RelayTest, EchoesAndConnectionsPassToo) {
    start();
    RawPacket echo = datagram(side().lease, side().far);
    echo.protocol = side().icmp;
    put(echo);
    auto answer = take();
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->protocol, side().icmp);
    EXPECT_EQ(answer->source, address(side().far));
    EXPECT_EQ(answer->destination, address(side().lease));
    EXPECT_EQ(answer->source_port, 5000);
    RawPacket syn = datagram(side().lease, side().far, 9);
    syn.protocol = 6;
    syn.payload.clear();
    put(syn);
    // Nobody listens: the correspondent's RST comes back.
    answer = take();
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->protocol, 6);
    EXPECT_EQ(answer->destination, address(side().lease));
    EXPECT_EQ(answer->destination_port, 5000);
}

TEST_P(RelayTest, ErrorMessagesOfTheWayReachTheLease) {
    start();
    put(datagram(side().lease, side().far, 9));
    // Nobody listens on port 9.
    const auto answer = take();
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->protocol, side().icmp);
    EXPECT_EQ(answer->destination, address(side().lease));
}

TEST_P(RelayTest, BindingsOutliveANewRuleset) {
    start();
    const UniqueFd far = correspondent(side().far, 53);
    put(datagram(side().lease, side().far));
    const auto first = receive(far);
    ASSERT_TRUE(first);
    apply();
    put(datagram(side().lease, side().far));
    const auto second = receive(far);
    ASSERT_TRUE(second);
    EXPECT_EQ(second->from, first->from);
    send(far, second->from, "answer");
    EXPECT_TRUE(take());
}

TEST_P(RelayTest, PortsThatAreLeftOutAreNotHandedOutAndOthersStay) {
    options_.source_ports = {{9348, 65535}, {1024, 9346}};
    // A rule of the host, evaluated after the relay's.
    ASSERT_TRUE(relay_->shell("nft 'add table inet host; add chain inet host post { type nat hook "
                              "postrouting priority srcnat; }; add rule inet host post oifname "
                              "wan0 masquerade'"));
    start();
    const UniqueFd far = correspondent(side().far, 53);
    const auto mapped = [&](uint16_t port) {
        RawPacket packet = datagram(side().lease, side().far);
        packet.source_port = port;
        put(packet);
        const auto request = receive(far);
        return request ? request->from.port : uint16_t{0};
    };
    EXPECT_EQ(mapped(5000), 5000);
    EXPECT_EQ(mapped(40000), 40000);
    EXPECT_GE(mapped(9347), 9348);
    EXPECT_GE(mapped(80), 9348);
}

TEST_P(RelayTest, OtherPortsLeaveCountersAndBindingsAsTheyAre) {
    start();
    const UniqueFd far = correspondent(side().far, 53);
    put(datagram(side().lease, side().near));
    EXPECT_TRUE(take());  // the refusal
    put(datagram(side().lease, side().far));
    ASSERT_TRUE(receive(far));
    options_.source_ports = {{6000, 65535}};
    {
        const NetNamespace::Visit visit(*relay_);
        netfilter::Nft nft;
        ASSERT_TRUE(nft.apply(build_nat_ruleset(options_))) << nft.error_text();
    }
    EXPECT_EQ(counter(kDeniedCounter), 1U);
    put(datagram(side().lease, side().far));
    const auto bound = receive(far);
    ASSERT_TRUE(bound);
    EXPECT_EQ(bound->from.port, 5000);
    put(datagram(side().other_lease, side().far));
    const auto fresh = receive(far);
    ASSERT_TRUE(fresh);
    EXPECT_GE(fresh->from.port, 6000);
}

TEST_P(RelayTest, AForgottenConnectionGetsNoAnswer) {
    start();
    const UniqueFd far = correspondent(side().far, 53);
    put(datagram(side().lease, side().far));
    const auto first = receive(far);
    ASSERT_TRUE(first);
    put(datagram(side().other_lease, side().far));
    const auto second = receive(far);
    ASSERT_TRUE(second);
    {
        const NetNamespace::Visit visit(*relay_);
        const auto forgotten = netfilter::NetfilterClient::open().value().forget_if(
            address(side().lease).version, [&](const netfilter::TrackedConnection& connection) {
                return connection.source == address(side().lease) &&
                       connection.source_port == 5000 &&
                       connection.translated == first->from.address &&
                       connection.translated_port == first->from.port;
            });
        ASSERT_TRUE(forgotten);
        EXPECT_EQ(*forgotten, 1U);
    }
    send(far, first->from, "lost");
    send(far, second->from, "answer");
    const auto answer = take();
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->destination, address(side().other_lease));
    EXPECT_FALSE(take(kSilenceMs));
}

TEST_P(RelayTest, ConnectionsOfALeaseAreLimitedAndWhatIsRefusedIsCounted) {
    start();
    limit({2, 16});
    const UniqueFd far = correspondent(side().far, 53);
    RawPacket packet = datagram(side().lease, side().far);
    uint64_t passed = 0;
    for (unsigned i = 0; i < 200; ++i) {
        ++packet.source_port;
        put(packet);
        // A refusal is counted before the packet is written.
        passed += receive(far, refused() + passed == i + 1 ? 0 : kWaitMs) ? 1U : 0U;
        ASSERT_EQ(passed + refused(), i + 1);
    }
    EXPECT_EQ(passed, 32U);
    const auto word = take();
    ASSERT_TRUE(word);
    EXPECT_EQ(word->protocol, side().icmp);
    packet.source_port = 5001;
    put(packet);
    EXPECT_TRUE(receive(far)) << "a connection that is there goes on";
    put(datagram(side().other_lease, side().far));
    EXPECT_TRUE(receive(far)) << "so does another lease";
}

TEST_P(RelayTest, OnlyTheEndOfConnectionsMakesRoomForOthers) {
    start();
    limit({1, 2});
    const UniqueFd far = correspondent(side().far, 53);
    RawPacket packet = datagram(side().lease, side().far);
    for (unsigned i = 0; i < 2; ++i) {
        ++packet.source_port;
        put(packet);
        EXPECT_TRUE(receive(far));
    }
    apply();  // the relay's rules
    RawPacket syn = datagram(side().lease, side().far, 9);
    syn.protocol = 6;
    syn.payload.clear();
    put(syn);
    const auto reset = take();
    ASSERT_TRUE(reset);
    EXPECT_EQ(reset->protocol, 6);
    EXPECT_EQ(refused(), 1U);
    const NetNamespace::Visit visit(*relay_);
    store::Lease lease;
    (GetParam() ? lease.ipv4 : lease.ipv6) = address(side().lease);
    ASSERT_TRUE(forget_connections_of(lease));
    ++packet.source_port;
    put(packet);
    EXPECT_TRUE(receive(far));
}

TEST_P(RelayTest, PoolAddressesAndPortsAreUsedAndALeaseKeepsItsAddress) {
    options_.source_pool = {address("203.0.113.9"), address("203.0.113.2"),
                            address("2001:db8:1::9"), address("2001:db8:1::2")};
    options_.source_ports = {{40000, 40999}};
    start();
    const UniqueFd far = correspondent(side().far, 53);
    std::array<unsigned, 2> seen{};
    for (unsigned i = 2; i < 34; ++i) {
        IpAddress lease = address(side().lease);
        lease.octets[GetParam() ? 3 : 15] = static_cast<uint8_t>(i);
        std::optional<IpAddress> mapped;
        for (const uint16_t port : {uint16_t{5000}, uint16_t{5001}}) {
            RawPacket packet = datagram(side().lease, side().far);
            packet.source = lease;
            packet.source_port = port;
            put(packet);
            const auto request = receive(far);
            ASSERT_TRUE(request);
            EXPECT_GE(request->from.port, 40000);
            EXPECT_LE(request->from.port, 40999);
            EXPECT_EQ(mapped.value_or(request->from.address), request->from.address);
            mapped = request->from.address;
        }
        ++seen[*mapped == address(side().pool) ? 0 : 1];
    }
    EXPECT_GT(seen[0], 0U);
    EXPECT_GT(seen[1], 0U);
    EXPECT_EQ(counter(kLeakCounter), 0U);
}

TEST_P(RelayTest, DeniedDestinationsAreRefusedWithAWordAndAllowedOnesPass) {
    start();
    const UniqueFd near = correspondent(side().near, 53);
    put(datagram(side().lease, side().near));
    EXPECT_FALSE(receive(near, kSilenceMs));
    EXPECT_EQ(counter(kDeniedCounter), 1U);
    const auto word = take();
    ASSERT_TRUE(word);
    EXPECT_EQ(word->protocol, side().icmp);
    EXPECT_EQ(word->source, address(side().inner));
    options_.allow = {IpPrefix::parse("10.1.0.0/16").value(),
                      IpPrefix::parse("fd00:5::/32").value()};
    apply();
    put(datagram(side().lease, side().near));
    EXPECT_TRUE(receive(near));
}

TEST_P(RelayTest, ClientsReachNeitherEachOtherNorTheRelayAndHearSo) {
    start();
    for (const char* to : {side().other_lease, side().inner, side().wan}) {
        put(datagram(side().lease, to));
        const auto word = take();
        ASSERT_TRUE(word) << to;
        EXPECT_EQ(word->protocol, side().icmp) << to;
        EXPECT_EQ(word->destination, address(side().lease)) << to;
    }
    EXPECT_EQ(counter(kClientToClientCounter), 1U);
    EXPECT_EQ(counter(kToSelfCounter), 2U);
}

// Those of the SNAPT's host are foreign, too.
TEST_P(RelayTest, ForeignSourcesAreDropped) {
    start();
    const UniqueFd far = correspondent(side().far, 53);
    uint64_t dropped = 0;
    for (const char* source :
         {GetParam() ? "198.18.0.1" : "2001:db8:77::1", side().inner, side().wan, side().far}) {
        put(datagram(source, side().far));
        EXPECT_FALSE(receive(far, kSilenceMs)) << source;
        EXPECT_EQ(counter(kSpoofedCounter), ++dropped) << source;
    }
}

TEST_P(RelayTest, NothingUnaskedReachesALease) {
    start();
    // The Internet side has a route to the leases, and tries to use it.
    ASSERT_TRUE(internet_->shell("ip route add 100.64.0.0/16 via 203.0.113.2 && "
                                 "ip -6 route add fd93:47::/64 via 2001:db8:1::2"));
    const UniqueFd far = correspondent(side().far, 53);
    send(far, {address(side().lease), 5000}, "surprise");
    while (counter(kUnsolicitedCounter) == 0) {
        ASSERT_FALSE(take(1));
    }
    EXPECT_FALSE(take(kSilenceMs));
    EXPECT_EQ(counter(kUnsolicitedCounter), 1U);
}

TEST_P(RelayTest, OnlyEgressInterfacesAreUsed) {
    options_.egress = {"other0"};
    start();
    const UniqueFd far = correspondent(side().far, 53);
    put(datagram(side().lease, side().far));
    EXPECT_FALSE(receive(far, kSilenceMs));
    EXPECT_EQ(counter(kNoEgressCounter), 1U);
}

TEST_P(RelayTest, LeaseAddressThatEscapesTranslationIsStoppedAndCounted) {
    start();
    // Without the translation: the chain is emptied behind the relay's back.
    ASSERT_TRUE(relay_->shell("nft flush chain " + relay_table(options_.device) + " nat"));
    const UniqueFd far = correspondent(side().far, 53);
    put(datagram(side().lease, side().far));
    EXPECT_FALSE(receive(far, kSilenceMs));
    EXPECT_EQ(counter(kLeakCounter), 1U);
}

}  // namespace
}  // namespace continuo::snapt::nat
