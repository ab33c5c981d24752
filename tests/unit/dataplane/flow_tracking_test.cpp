#include "common/dataplane/flow_tracking.hpp"
#include "common/flow/counter_values.hpp"
#include "tests/unit/dataplane/one_flow.hpp"

#include <vector>

namespace continuo::dataplane {
namespace {

using flow::Direction;
using flow::FlowState;
namespace flag = packet::tcp_flag;

class FlowTracking : public OneFlow {
  protected:
    void track_flags(Direction direction, uint8_t flags) {
        packet::HeaderFields fields;
        fields.flags = flags;
        track(table_, *flow_, direction, fields, now_);
    }
    void open() {
        track_flags(Direction::Up, flag::kSyn);
        track_flags(Direction::Down, flag::kSyn | flag::kAck);
        track_flags(Direction::Up, flag::kAck);
        ASSERT_EQ(flow_->state, FlowState::Open);
    }
};

TEST_F(FlowTracking, OpensAConnectionWithinOneInstant) {
    open();
}

TEST_F(FlowTracking, KeepsAFlowAliveAsTimeGoesOn) {
    open();
    const base::TimePoint before = flow_->last_packet_at;
    now_ += base::seconds(1);
    track_flags(Direction::Down, flag::kAck);
    EXPECT_EQ(flow_->last_packet_at, now_);
    EXPECT_LT(before, now_);
}

TEST_F(FlowTracking, SeesTheEndAmongPacketsOfTheSameInstant) {
    open();
    track_flags(Direction::Down, flag::kAck);
    track_flags(Direction::Down, flag::kRst);
    EXPECT_EQ(flow_->state, FlowState::Closing);
}

TEST_F(FlowTracking, CountsWhatTheKernelTook) {
    const packet::FrameInfo info{flow_, 3, 3000, 2880};
    EXPECT_EQ(count_written(info, true, Direction::Up), flow_);
    const auto values = flow::read_counters(flow_->counters->counters);
    EXPECT_EQ(values.packets_up, 3U);
    EXPECT_EQ(values.inner_up, 3000U);
    EXPECT_EQ(values.payload_up, 2880U);
    EXPECT_EQ(values.packets_down, 0U);
}

// Quotas and charges go by payload: what costs the SNAPT otherwise has limits of its own.
TEST_F(FlowTracking, HeadersAloneUseNoQuota) {
    flow::FlowShare share;
    flow::Counter payload{};
    share.count_into(&payload);
    flow_->share = &share;
    count_written({flow_, 1'000'000, 28'000'000, 0}, true, Direction::Up);
    EXPECT_EQ(flow::value(payload), 0U);
    count_written({flow_, 138, 138 * 1428, 138 * 1400}, true, Direction::Up);
    EXPECT_EQ(flow::value(payload), 138U * 1400U) << "however few bytes it came in";
    flow_->share = nullptr;
}

TEST_F(FlowTracking, CountsNothingForWhatWasRefusedOrIsNobodys) {
    EXPECT_EQ(count_written({flow_, 3, 3000, 2880}, false, Direction::Down), nullptr);
    EXPECT_EQ(count_written({nullptr, 1, 100, 60}, true, Direction::Down), nullptr);
    EXPECT_EQ(flow::read_counters(flow_->counters->counters), flow::CounterValues{});
}

// An IPv4 packet of UDP from 192.0.2.2:4660 to 198.51.100.2:53; `fragment` is the header's field
// (RFC 791).
std::vector<uint8_t> udp_packet(uint16_t fragment) {
    std::vector<uint8_t> packet = {0x45, 0, 0,   28, 0x77, 0x77, 0,    0,    64, 17, 0, 0, 192, 0,
                                   2,    2, 198, 51, 100,  2,    0x12, 0x34, 0,  53, 0, 8, 0,   0};
    base::store_big_endian(&packet[6], fragment);
    return packet;
}

class Identify : public testing::Test {
  protected:
    std::optional<packet::PacketSummary> identify_packet(const std::vector<uint8_t>& packet) {
        return identify(packet, packet::NodeSide::Source, fragments_, drops_, now_);
    }
    base::TimePoint now_{base::seconds(100)};
    flow::FragmentCache fragments_;
    base::DropCounters drops_;
};

TEST_F(Identify, CountsWhatIsNoPacketAndWhatIsBroken) {
    EXPECT_FALSE(identify_packet({0x45, 0, 0}));
    EXPECT_EQ(drops_.count(base::DropReason::MalformedPacket), 1U);
    std::vector<uint8_t> esp = udp_packet(0);
    esp[9] = 50;
    EXPECT_FALSE(identify_packet(esp));
    EXPECT_EQ(drops_.count(base::DropReason::UnsupportedProtocol), 1U);
}

TEST_F(Identify, FragmentsFollowTheirFirstAndAreNobodysWithoutIt) {
    constexpr uint16_t kMore = 0x2000;
    EXPECT_FALSE(identify_packet(udp_packet(1)));
    EXPECT_EQ(drops_.count(base::DropReason::NoBinding), 1U);
    ASSERT_TRUE(identify_packet(udp_packet(kMore)));
    const auto later = identify_packet(udp_packet(1));
    ASSERT_TRUE(later);
    EXPECT_EQ(later->tuple.local_port, 0x1234);
    EXPECT_EQ(later->tuple.remote_port, 53);
}

}  // namespace
}  // namespace continuo::dataplane
