// Connections that outlive their flows, which the kernel has to track; a relay without devices.
#include "common/packet/header_fields.hpp"
#include "common/packet/reply.hpp"
#include "snapt/nat/nat_limit.hpp"
#include "tests/unit/snapt/relay/relay_fixture.hpp"

#include <algorithm>
#include <string>
#include <unordered_set>
#include <utility>

namespace continuo::snapt::relay {
namespace {

using nat::kHostPartDivisor;
using nat::kMostGone;

class RelayConnectionsTest : public RelayTest {
  protected:
    NodeSession& join(const std::string& user, const std::string& node, uint32_t lease) {
        SessionGrant grant;
        grant.user = user;
        grant.node = node;
        grant.lease_ipv4 = base::IpAddress::v4(0x64400000U + lease);
        grant.lease_ipv6 = *base::IpAddress::parse("fd93:47::" + std::to_string(lease));
        return *relay.table().find(relay.reserve(grant)->wire_id);
    }
    // An answered one. Null: it is refused.
    flow::Flow* open(NodeSession& node, bool is_v4) {
        session::FlowOpening opening;
        opening.index = next_index_;
        opening.tuple.local = is_v4 ? *node.grant.lease_ipv4 : *node.grant.lease_ipv6;
        opening.tuple.remote = *base::IpAddress::parse(is_v4 ? "198.51.100.2" : "2001:db8::2");
        opening.tuple.local_port = next_index_++;
        opening.tuple.remote_port = 80;
        opening.tuple.protocol = packet::Protocol::Udp;
        flow::Flow* flow = relay.flows().on_flow_opened(node.session, opening, loop.now());
        if (flow != nullptr) {
            packet::PacketSummary answer;
            answer.tuple = flow->tuple;
            relay.flows().table().on_packet(*flow, flow::Direction::Down, answer, loop.now());
            kernel_.insert(flow->tuple);
        }
        return flow;
    }
    // The kernel does as it is asked.
    void forget() {
        while (!events.gone.empty()) {
            for (const packet::FiveTuple& tuple : std::exchange(events.gone, {})) {
                kernel_.erase(tuple);
            }
            relay.on_flows_forgotten();
        }
    }

    std::unordered_set<packet::FiveTuple> kernel_;  // what it tracks

  private:
    uint16_t next_index_ = 1;
};

// Names of nodes change, each has a lease of its own, and a friend outside answers everything.
TEST_F(RelayConnectionsTest, AnsweredConnectionsOfAUserAreBoundedOverItsSessionsLeasesAndVersions) {
    constexpr size_t kUserFlows = 100;
    relay.set_limits(1000, 8, kUserFlows);
    size_t opened = 0;
    size_t most = 0;
    for (uint32_t round = 0; round < 60; ++round) {
        NodeSession& node = join("mallory", "n" + std::to_string(round), 2 + round);
        for (size_t i = 0; i < kUserFlows; ++i) {
            opened += open(node, i % 2 == 0) != nullptr ? 1U : 0U;
            forget();
            most = std::max(most, kernel_.size());
        }
        relay.close(node.wire_id);
    }
    EXPECT_GT(opened, 40 * kUserFlows);
    EXPECT_LE(most, 2 * kUserFlows + kMostGone);
    EXPECT_EQ(relay.flows().connections().size(), kUserFlows) << "of the last sessions";
    EXPECT_NE(open(join("bob", "laptop", 100), true), nullptr);
}

TEST_F(RelayConnectionsTest, WhatGaveWayCountsUntilTheKernelHasForgottenIt) {
    constexpr size_t kUserFlows = 100;
    relay.set_limits(1000, 8, kUserFlows);
    for (uint32_t round = 0; round < 40; ++round) {
        NodeSession& node = join("mallory", "n" + std::to_string(round), 2 + round);
        for (size_t i = 0; i < kUserFlows; ++i) {
            (void)open(node, true);
        }
        relay.close(node.wire_id);
    }
    EXPECT_GE(kernel_.size(), kUserFlows + kMostGone / 2);
    EXPECT_LE(kernel_.size(), 2 * kUserFlows + kMostGone);
    EXPECT_GT(relay.drops().count(base::DropReason::FlowLimit), 0U);
}

TEST_F(RelayConnectionsTest, ANodeThatIsBackHasItsConnections) {
    relay.set_limits(1000, 8, 100);
    NodeSession& before = join("alice", "laptop", 2);
    std::vector<packet::FiveTuple> tuples;
    for (int i = 0; i < 80; ++i) {
        tuples.push_back(open(before, i % 2 == 0)->tuple);
    }
    relay.close(before.wire_id);
    EXPECT_EQ(relay.flows().connections().left().size(), 80U);
    NodeSession& again = join("alice", "laptop", 2);
    for (const packet::FiveTuple& tuple : tuples) {
        session::FlowOpening opening;
        opening.index = tuple.local_port;
        opening.tuple = tuple;
        EXPECT_NE(relay.flows().on_flow_opened(again.session, opening, loop.now()), nullptr);
    }
    EXPECT_EQ(relay.flows().connections().left().size(), 0U) << "each is counted once";
    EXPECT_TRUE(events.gone.empty()) << "none was forgotten";
}

TEST_F(RelayConnectionsTest, OneUserHasAQuarterOfASmallTable) {
    relay.set_limits(1000, 8, 4096);
    relay.flows().connections().set_table({1024, 0});
    const size_t flows = relay.flows().connections().user_flows();
    EXPECT_LE(2 * flows + relay.flows().connections().room().gone(),
              (1024 - 1024 / kHostPartDivisor) / 4);
    EXPECT_GE(flows, 64U);
    for (uint32_t round = 0; round < 4; ++round) {
        NodeSession& node = join("mallory", "n" + std::to_string(round), 2 + round);
        for (int i = 0; i < 200; ++i) {
            (void)open(node, i % 2 == 0);
        }
        EXPECT_LE(node.share->flows.flows(), flows);
        relay.close(node.wire_id);
        forget();
        EXPECT_LE(relay.flows().connections().size(), 2 * flows);
    }
}

// The host's own connections are not free for nodes.
TEST_F(RelayConnectionsTest, AllUsersLeaveRoomForTheHost) {
    relay.set_limits(1000, 8, 4096);
    constexpr size_t kPlaces = 800;
    constexpr size_t kOwn = 300;
    constexpr size_t kForNodes = kPlaces - kPlaces / kHostPartDivisor - kOwn;
    size_t refused = 0;
    for (uint32_t user = 0; user < 20; ++user) {
        NodeSession& node = join("user" + std::to_string(user), "n", 2 + user);
        for (int i = 0; i < 60; ++i) {
            relay.flows().connections().set_table(
                {kPlaces, kOwn + relay.flows().connections().size()});
            refused += open(node, i % 2 == 0) == nullptr ? 1U : 0U;
            EXPECT_LE(relay.flows().connections().size(), kForNodes);
        }
    }
    EXPECT_GT(refused, 0U);
    size_t flows = 0;
    for (const auto& node : relay.sessions()) {
        flows += node->share->flows.flows();
    }
    EXPECT_EQ(flows, kForNodes - kForNodes / flow::kReserveDivisor) << "an eighth is for DNS, TCP";
    relay.close(relay.sessions().front()->wire_id);
    EXPECT_NE(open(*relay.sessions().back(), true), nullptr) << "a place is free again";
}

// Places of what the user has no flow of are the first to be given up.
TEST_F(RelayConnectionsTest, InAFullTableWhatIsLeftGivesWay) {
    relay.set_limits(1000, 8, 50);
    for (uint32_t user = 0; user < 11; ++user) {
        NodeSession& gone = join("mallory" + std::to_string(user), "n", 2 + user);
        for (int i = 0; i < 50; ++i) {
            (void)open(gone, true);
        }
        relay.close(gone.wire_id);
    }
    const size_t left = relay.flows().connections().left().size();
    ASSERT_GE(left, (1024U - 1024 / kHostPartDivisor) / 2) << "what nodes have at least";
    // The host has all that is not kept free.
    relay.flows().connections().set_table({1024, 1024 - 1024 / kHostPartDivisor});
    NodeSession& bob = join("bob", "n", 20);
    for (int i = 0; i < 20; ++i) {
        EXPECT_NE(open(bob, true), nullptr) << i;
    }
    EXPECT_EQ(relay.flows().connections().size(), left);
    EXPECT_EQ(relay.flows().connections().left().size(), left - 20);
}

TEST_F(RelayConnectionsTest, WhatComesFromOutsideHasNoPlaceOfTheReserve) {
    constexpr size_t kUserFlows = 64;
    relay.set_limits(1000, 8, kUserFlows);
    NodeSession& node = join("alice", "laptop", 2);
    const auto comes = [&](uint16_t port) {
        std::vector<uint8_t> bytes(packet::kMaxReplyBytes);
        packet::HeaderFields fields;
        fields.source = *base::IpAddress::parse("198.51.100.7");
        fields.destination = *node.grant.lease_ipv4;
        fields.source_port = 443;
        fields.destination_port = port;
        fields.flags = packet::tcp_flag::kAck;
        fields.ttl = 60;
        const size_t length = packet::write_headers(fields, {}, false, bytes);
        packet::PacketPtr packet = pool.take(length);
        std::copy_n(bytes.begin(), length, packet->buffer().begin());
        packet->length = static_cast<uint32_t>(length);
        relay.flows().on_tun_packet(std::move(packet), loop.now());
    };
    for (uint16_t port = 1; port <= 2 * kUserFlows; ++port) {
        comes(port);
    }
    EXPECT_EQ(node.share->flows.flows(), kUserFlows - kUserFlows / flow::kReserveDivisor);
    EXPECT_GT(relay.drops().count(base::DropReason::FlowLimit), 0U);
    EXPECT_EQ(relay.flows().table().gave_way(), 0U);
    // The node's own take the reserve, and then the places of what only came.
    for (size_t i = 0; i < kUserFlows; ++i) {
        EXPECT_NE(open_flow(node), nullptr);
    }
    EXPECT_GT(relay.flows().table().gave_way(), 0U);
}

TEST_F(RelayConnectionsTest, AnOrdinaryLimitIsBelowThatOfTheKernelsRules) {
    const RelaySettings settings;
    const nat::ConnectionCounts counts =
        nat::connection_counts(static_cast<uint32_t>(settings.max_user_flows));
    const size_t begins_to_refuse = counts.limit() * 3 / 4;
    EXPECT_LT(2 * settings.max_user_flows + kMostGone, begins_to_refuse);
}

TEST(ConnectionRoom, IsWhatTheHostLeavesOfItsTable) {
    nat::ConnectionRoom room;
    EXPECT_EQ(room.most(), std::nullopt);
    EXPECT_EQ(room.user_flows(4096), 4096U);
    EXPECT_EQ(room.user_flows(0), 0U);
    room.set_table({262'144, 0}, 0);
    EXPECT_EQ(room.most(), 229'376U);
    EXPECT_EQ(room.user_flows(4096), 4096U);
    EXPECT_EQ(room.user_flows(0), (57'344U - 1024) / 2) << "no limit but its part";
    room.set_table({262'144, 250'000}, 0);
    EXPECT_EQ(room.most(), 229'376U / 2) << "somebody fills it: half is theirs";
    room.set_table({262'144, 100'000}, 40'000);
    EXPECT_EQ(room.most(), 229'376U - 60'000);
    for (const size_t places : {1U, 7U, 64U, 1024U, 32'768U, 65'536U, 1'048'576U}) {
        room.set_table({places, 0}, 0);
        for (const size_t configured : {0U, 1U, 64U, 4096U, 16'777'216U}) {
            const size_t flows = room.user_flows(configured);
            EXPECT_GE(flows, 1U);
            EXPECT_TRUE(flows == 1 || 2 * flows + room.gone() <= room.of_user());
        }
    }
    EXPECT_EQ(room.user_flows(4096), 4096U);
}

}  // namespace
}  // namespace continuo::snapt::relay
