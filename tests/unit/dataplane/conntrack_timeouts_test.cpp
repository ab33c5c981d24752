#include "common/dataplane/conntrack_timeouts.hpp"
#include "common/flow/flow_table.hpp"
#include "common/packet/header_fields.hpp"

#include <algorithm>

#include <gtest/gtest.h>

namespace continuo::dataplane {
namespace {

using flow::Direction;
using packet::Protocol;

namespace flag = packet::tcp_flag;
constexpr auto kUp = Direction::Up;
constexpr auto kDown = Direction::Down;
constexpr uint8_t kSynAck = flag::kSyn | flag::kAck;
constexpr uint8_t kFinAck = flag::kFin | flag::kAck;

struct Sent {
    Direction direction;
    uint8_t tcp_flags;
};

// How long the flow table remembers a flow after these packets.
base::Duration remembered(Protocol protocol, const std::vector<Sent>& packets) {
    flow::HeapSlots slots{1};
    flow::FlowTable table{1, slots};
    const base::TimePoint now{std::chrono::hours(1)};
    packet::PacketSummary summary;
    summary.tuple.local = *base::IpAddress::parse("192.0.2.2");
    summary.tuple.remote = *base::IpAddress::parse("198.51.100.2");
    summary.tuple.remote_port = 443;
    summary.tuple.protocol = protocol;
    flow::Flow* flow = table.create(summary.tuple, base::TrafficClass::LtHd, now);
    for (const Sent& sent : packets) {
        summary.tcp_flags = sent.tcp_flags;
        table.on_packet(*flow, sent.direction, summary, now);
    }
    return flow->expires_at - now;
}

base::Duration kernel_remembers(const std::string& name) {
    const auto settings = conntrack_timeouts();
    const auto found = std::find_if(settings.begin(), settings.end(), [&](const auto& setting) {
        return setting.key == "net/netfilter/nf_conntrack_" + name;
    });
    if (found == settings.end()) {
        return {};
    }
    EXPECT_TRUE(found->at_least) << name;
    return base::seconds(std::stoi(found->value));
}

TEST(ConntrackTimeouts, AreThoseOfTheFlowTableAtLeastInEachStateOfTcpWithData) {
    const std::vector<Sent> opened = {{kUp, flag::kSyn}, {kDown, kSynAck}, {kUp, flag::kAck}};
    const auto after = [&](std::vector<Sent> more) {
        more.insert(more.begin(), opened.begin(), opened.end());
        return remembered(Protocol::Tcp, more);
    };
    for (const char* state : {"established", "unacknowledged", "max_retrans"}) {
        EXPECT_GE(kernel_remembers("tcp_timeout_" + std::string(state)), after({})) << state;
    }
    for (const Direction side : {kUp, kDown}) {
        const Direction other = side == kUp ? kDown : kUp;
        EXPECT_GE(kernel_remembers("tcp_timeout_fin_wait"), after({{side, kFinAck}}));
        EXPECT_GE(kernel_remembers("tcp_timeout_close_wait"),
                  after({{side, kFinAck}, {other, flag::kAck}}));
        EXPECT_GE(kernel_remembers("tcp_timeout_last_ack"),
                  after({{side, kFinAck}, {other, flag::kAck}, {other, kFinAck}}));
    }
}

// Otherwise connections that nobody answers would fill the kernel's table.
TEST(ConntrackTimeouts, AreTheKernelsWhereNoDataComes) {
    for (const char* state : {"syn_sent", "syn_recv", "time_wait", "close"}) {
        EXPECT_EQ(kernel_remembers("tcp_timeout_" + std::string(state)), base::Duration{}) << state;
    }
}

TEST(ConntrackTimeouts, AreThoseOfTheFlowTableAtLeastWithoutConnections) {
    EXPECT_GE(kernel_remembers("udp_timeout"), remembered(Protocol::Udp, {{kUp, 0}}));
    EXPECT_GE(kernel_remembers("udp_timeout_stream"),
              remembered(Protocol::Udp, {{kUp, 0}, {kDown, 0}, {kUp, 0}}));
    EXPECT_GE(kernel_remembers("icmp_timeout"), remembered(Protocol::Icmp, {{kUp, 0}}));
    EXPECT_GE(kernel_remembers("icmpv6_timeout"), remembered(Protocol::IcmpV6, {{kUp, 0}}));
}

}  // namespace
}  // namespace continuo::dataplane
