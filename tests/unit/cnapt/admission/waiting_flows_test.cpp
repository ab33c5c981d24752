#include "cnapt/admission/waiting_flows.hpp"

#include <gtest/gtest.h>

namespace continuo::cnapt::admission {
namespace {

struct WaitingFlowsTest : testing::Test {
    io::EventLoop loop_;
    packet::PacketPool pool_{2 * kMaxWaitingPackets, 0};
    bool is_due_ = false;
    WaitingFlows waiting_{loop_, [this] { is_due_ = true; }};
    NodeFlow first_;
    NodeFlow second_;
};

TEST_F(WaitingFlowsTest, EachWaitsNoLongerThanForItsOwnTime) {
    const base::TimePoint now = loop_.now();
    waiting_.add(first_, now);
    waiting_.add(second_, now + base::milliseconds(1));
    EXPECT_EQ(waiting_.next_due(now), nullptr);
    ASSERT_TRUE(loop_.run_until([this] { return is_due_; }, base::seconds(5)));
    EXPECT_GE(loop_.now(), now + kProcessWait);
    EXPECT_EQ(waiting_.next_due(now + kProcessWait), &first_);
    (void)waiting_.take(first_);
    EXPECT_FALSE(WaitingFlows::is_waiting(first_));
    EXPECT_EQ(waiting_.next_due(now + kProcessWait), nullptr);
    is_due_ = false;
    ASSERT_TRUE(loop_.run_until([this] { return is_due_; }, base::seconds(5)));
    EXPECT_EQ(waiting_.next_due(loop_.now()), &second_);
}

TEST_F(WaitingFlowsTest, PacketsBeyondTheMostAreNotKeptAndTheOthersComeInOrder) {
    waiting_.add(first_, loop_.now());
    for (size_t i = 0; i < kMaxWaitingPackets; ++i) {
        packet::PacketPtr packet = pool_.take(100);
        packet->length = static_cast<uint32_t>(i);
        EXPECT_TRUE(WaitingFlows::keep(first_, std::move(packet)));
    }
    EXPECT_FALSE(WaitingFlows::keep(first_, pool_.take(100)));
    const std::vector<packet::PacketPtr> packets = waiting_.take(first_);
    ASSERT_EQ(packets.size(), kMaxWaitingPackets);
    EXPECT_EQ(packets.front()->length, 0U);
    EXPECT_EQ(packets.back()->length, kMaxWaitingPackets - 1);
    EXPECT_TRUE(first_.waiting.empty());
}

TEST_F(WaitingFlowsTest, AFlowThatEndsIsNotDue) {
    waiting_.add(first_, loop_.now());
    waiting_.remove(first_);
    EXPECT_EQ(waiting_.next_due(loop_.now() + base::seconds(1)), nullptr);
}

}  // namespace
}  // namespace continuo::cnapt::admission
