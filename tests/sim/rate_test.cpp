// A session with a rate: what is over it waits in its class, and nothing else does.
#include "tests/support/session_pair.hpp"

#include <gtest/gtest.h>

namespace continuo::tests {
namespace {

using base::milliseconds;
using base::seconds;

constexpr uint64_t kRate = 1'000'000;  // bit/s
constexpr size_t kBytes = 1028;

class RateSim : public ::testing::Test {
  protected:
    RateSim() {
        up_.source = *base::IpAddress::parse("192.0.0.5");
        up_.destination = *base::IpAddress::parse("198.51.100.2");
        up_.protocol = packet::Protocol::Udp;
        up_.source_port = 5000;
        up_.destination_port = 80;
        up_.ttl = 64;
        pair_.node.rate.set_rate(kRate);
    }
    void send(uint16_t port, base::TrafficClass traffic_class) {
        up_.source_port = port;
        const packet::FiveTuple tuple{up_.source, up_.destination, port, 80, packet::Protocol::Udp};
        flow::Flow& flow = pair_.node.flow(tuple, traffic_class);
        const std::vector<uint8_t> payload(kBytes - up_.header_bytes(), 7);
        pair_.node.send(flow, make_packet(up_, payload), {}, pair_.now);
    }
    // Four times the rate.
    void flood(base::Duration span) {
        for (const base::TimePoint end = pair_.now + span; pair_.now < end;) {
            send(5000, base::TrafficClass::HtHd);
            pair_.run_for(milliseconds(2));
        }
    }

    SessionPair pair_{SimLink()};
    packet::HeaderFields up_;
};

TEST_F(RateSim, IsReachedAndNotPassed) {
    flood(seconds(1));
    const size_t before = pair_.snapt.delivered.size();
    flood(seconds(10));
    const auto bits = static_cast<double>(pair_.snapt.delivered.size() - before) * kBytes * 8;
    EXPECT_NEAR(bits / 10, kRate, 0.02 * kRate);
    EXPECT_GT(pair_.node.session->queues().counters(base::TrafficClass::HtHd).queue_drops, 0U);
    EXPECT_EQ(pair_.node.session->counters().lost_datagrams, 0U);
    EXPECT_TRUE(pair_.node.silent_paths.empty());
}

// The bucket's debt is one datagram: 12 ms.
TEST_F(RateSim, AnEarlierClassDoesNotWaitBehindALaterOne) {
    flood(seconds(2));
    const base::TimePoint sent_at = pair_.now;
    send(5001, base::TrafficClass::LtLd);
    const auto is_it = [&](const std::vector<uint8_t>& packet) {
        return packet::summarize(packet, packet::NodeSide::Source).summary->tuple.local_port ==
               5001;
    };
    std::optional<base::TimePoint> came_at;
    size_t looked = pair_.snapt.delivered.size();
    while (!came_at && pair_.now < sent_at + seconds(1)) {
        flood(milliseconds(2));
        for (; looked < pair_.snapt.delivered.size(); ++looked) {
            if (is_it(pair_.snapt.delivered[looked])) {
                came_at = pair_.snapt.delivered_at[looked];
            }
        }
    }
    ASSERT_TRUE(came_at);
    EXPECT_LE(*came_at - sent_at, milliseconds(60));
}

TEST_F(RateSim, GoesAtOnceWhenTheRateIsTakenAway) {
    flood(seconds(2));
    EXPECT_GT(pair_.node.session->queues().packets(), 100U);
    pair_.node.rate.set_rate(0);
    send(5000, base::TrafficClass::HtHd);  // somebody asks it
    pair_.run_for(milliseconds(200));
    EXPECT_EQ(pair_.node.session->queues().packets(), 0U);
}

}  // namespace
}  // namespace continuo::tests
