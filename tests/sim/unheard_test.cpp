// A stream to a node that is gone: which bytes are charged, and which datagrams leave.
#include "tests/support/session_pair.hpp"

#include <gtest/gtest.h>

namespace continuo::tests {
namespace {

using base::milliseconds;
using base::seconds;

constexpr uint64_t kPacketBytes = 1028;
constexpr uint32_t kAll = 1'000'000;

class UnheardSim : public ::testing::TestWithParam<bool> {
  protected:
    UnheardSim() {
        const bool is_v6 = GetParam();
        up_.source = *base::IpAddress::parse(is_v6 ? "fd43:6f6e:7469::1" : "192.0.0.5");
        up_.destination = *base::IpAddress::parse(is_v6 ? "2001:db8::80" : "198.51.100.2");
        up_.protocol = packet::Protocol::Udp;
        up_.source_port = 5000;
        up_.destination_port = 80;
        up_.ttl = 64;
        tuple_ = {up_.source, up_.destination, 5000, 80, packet::Protocol::Udp};
        pair_.node.send(pair_.node.flow(tuple_, base::TrafficClass::HtHd), packet_of(up_), {},
                        pair_.now);
        pair_.run_for(seconds(1));
        tuple_.local = *base::IpAddress::parse(is_v6 ? "fd93:47::2" : "100.64.0.2");
        down_ = up_;
        std::swap(down_.source, down_.destination);
        std::swap(down_.source_port, down_.destination_port);
        down_.destination = tuple_.local;
    }
    std::vector<uint8_t> packet_of(const packet::HeaderFields& fields) {
        const size_t headers = fields.header_bytes();
        return make_packet(fields, std::vector<uint8_t>(kPacketBytes - headers, 7));
    }
    // 100 packets a second to the node.
    void stream(base::Duration span) {
        flow::Flow& flow = *pair_.snapt.find(tuple_);
        for (const base::TimePoint end = pair_.now + span; pair_.now < end;) {
            pair_.snapt.send(flow, packet_of(down_), {}, pair_.now);
            pair_.snapt.session->unheard().look(pair_.now);
            pair_.run_for(milliseconds(10));
        }
    }
    void vanish(bool is_away) {
        pair_.lose(pair_.up, is_away ? kAll : 0);
        pair_.lose(pair_.down, is_away ? kAll : 0);
    }
    const flow::LiveCounters& counters() { return pair_.snapt.find(tuple_)->counters->counters; }
    uint64_t charged() { return flow::value(counters().inner_down) / kPacketBytes; }
    uint64_t undelivered() { return flow::value(counters().undelivered_down) / kPacketBytes; }

    SessionPair pair_{SimLink()};
    packet::HeaderFields up_;
    packet::HeaderFields down_;
    packet::FiveTuple tuple_;
};

TEST_P(UnheardSim, ANodeThatIsGoneIsNotSentToAndNotCharged) {
    stream(seconds(2));
    EXPECT_EQ(charged(), 200U);
    vanish(true);
    stream(seconds(12));
    EXPECT_LE(charged(), 410U) << "two seconds more";
    EXPECT_GE(undelivered(), 700U);
    const uint64_t before = undelivered();
    pair_.record = true;
    stream(seconds(60));
    EXPECT_LE(undelivered(), before + 61);
    EXPECT_LE(pair_.recorded_down.size(), 200U) << "and what asks for it";
    EXPECT_LE(charged(), 410U);
    EXPECT_GE(pair_.snapt.session->drops().count(base::DropReason::NodeGone), 5900U);
    vanish(false);
    pair_.record = false;
    pair_.run_for(seconds(5));
    const size_t had = pair_.node.delivered.size();
    const uint64_t then = charged();
    const uint64_t gone = pair_.snapt.session->drops().count(base::DropReason::NodeGone);
    stream(seconds(2));
    pair_.run_for(seconds(1));
    EXPECT_GE(pair_.node.delivered.size() - had, 200U) << "it goes on";
    const uint64_t kept = pair_.snapt.session->drops().count(base::DropReason::NodeGone) - gone;
    EXPECT_LE(kept, 10U) << "until the first one is answered";
    EXPECT_EQ(charged() - then, 200U - kept) << "what was kept is repeated at no charge";
}

TEST_P(UnheardSim, ANodeThatIsBackInTimeIsChargedForWhatItMissed) {
    stream(seconds(2));
    vanish(true);
    stream(seconds(8));
    EXPECT_LE(charged(), 410U);
    vanish(false);
    stream(seconds(4));
    pair_.run_for(seconds(1));
    EXPECT_EQ(charged(), 1400U);
    EXPECT_EQ(undelivered(), 0U);
}

INSTANTIATE_TEST_SUITE_P(BothVersions, UnheardSim, ::testing::Bool());

}  // namespace
}  // namespace continuo::tests
