#include "common/session/session_flows.hpp"

#include <gtest/gtest.h>

namespace continuo::session {
namespace {

using base::PathMode;
using base::seconds;
using base::TimePoint;
using flow::Flow;
using path::Role;

class SessionFlowsTest : public ::testing::Test {
  protected:
    // The flows that a datagram tells of now.
    std::vector<uint32_t> closed(SessionFlows& flows, size_t spare = 1000) {
        std::array<uint8_t, 1000> bytes{};
        base::ByteWriter body(bytes);
        epoch_.encoder.begin_datagram(0, 0, TimePoint{} + seconds(1));
        flows.write_closed(epoch_, body, spare, TimePoint{} + seconds(1));
        epoch_.encoder.abort_datagram();
        std::vector<uint32_t> indexes;
        base::ByteReader reader(body.written());
        while (reader.remaining() > 0) {
            const auto frame = wire::Closed::parse(reader);
            if (!frame) {
                ADD_FAILURE() << "no CLOSED";
                break;
            }
            indexes.insert(indexes.end(), frame->indexes.begin(),
                           frame->indexes.begin() + frame->count);
        }
        return indexes;
    }

    flow::FlowOwner owner_;
    SessionCounters counters_;
    SessionFlows node_{Role::Node, owner_, counters_};
    SessionFlows snapt_{Role::Snapt, owner_, counters_};
    elision::DecodeScratch scratch_;
    EpochState epoch_{1, packet::NodeSide::Source, packet::NodeSide::Destination, scratch_,
                      nullptr};
};

TEST_F(SessionFlowsTest, ANodeGivesEachFlowAnIndexOfItsOwn) {
    Flow first;
    Flow second;
    for (Flow* flow : {&first, &second}) {
        ASSERT_TRUE(node_.give_index(*flow));
        node_.attach(*flow);
    }
    EXPECT_NE(first.index, second.index);
    EXPECT_EQ(node_.at(first.index), &first);
    EXPECT_TRUE(node_.has(second));
    EXPECT_TRUE(node_.owns(second));
    EXPECT_EQ(node_.count(), 2U);
    EXPECT_TRUE(node_.detach(first, EndNotice::None));
    EXPECT_FALSE(node_.has(first));
    EXPECT_FALSE(node_.owns(first));
    EXPECT_FALSE(node_.detach(first, EndNotice::None)) << "it has ended already";
    EXPECT_EQ(node_.count(), 1U);
    EXPECT_TRUE(closed(node_).empty());
}

TEST_F(SessionFlowsTest, AtSnaptANewFlowTakesTheIndexFromTheOneThatHadIt) {
    Flow former;
    Flow next;
    former.index = next.index = 40;
    for (Flow* flow : {&former, &next}) {
        ASSERT_TRUE(snapt_.give_index(*flow));
        snapt_.attach(*flow);
    }
    EXPECT_EQ(snapt_.at(40), &next);
    EXPECT_FALSE(snapt_.owns(former));
    EXPECT_FALSE(snapt_.detach(former, EndNotice::Closed));
    EXPECT_EQ(snapt_.count(), 1U);
    Flow beyond;
    beyond.index = elision::kMaxFlowIndex + 1;
    EXPECT_FALSE(snapt_.give_index(beyond));
}

TEST_F(SessionFlowsTest, CountsFlowsByModeAndTellsOfAChangeOnce) {
    Flow flow;
    ASSERT_TRUE(node_.give_index(flow));
    node_.attach(flow);
    EXPECT_FALSE(node_.uses_several_paths());
    EXPECT_FALSE(node_.take_mode_change()) << "mode handover needs no other path";
    node_.set_mode(flow, PathMode::Redundant);
    EXPECT_TRUE(node_.take_mode_change());
    EXPECT_FALSE(node_.take_mode_change());
    EXPECT_TRUE(node_.uses_several_paths());
    EXPECT_FALSE(node_.has_spread());
    node_.set_mode(flow, PathMode::Packet);
    EXPECT_TRUE(node_.has_spread());
    EXPECT_EQ(node_.in_mode(PathMode::Redundant), 0U);
    node_.detach(flow, EndNotice::None);
    EXPECT_FALSE(node_.uses_several_paths());
    Flow stranger;
    node_.set_mode(stranger, PathMode::Flow);
    EXPECT_EQ(stranger.paths.mode, PathMode::Flow);
    EXPECT_FALSE(node_.has_spread()) << "it is not attached";
}

TEST_F(SessionFlowsTest, TellsOfFlowsThatEndedUnlessTheirIndexIsInUseAgain) {
    std::array<Flow, 3> flows;
    for (uint32_t i = 0; i < flows.size(); ++i) {
        flows[i].index = i;
        snapt_.attach(flows[i]);
        snapt_.detach(flows[i], EndNotice::Closed);
    }
    Flow next;
    next.index = 1;
    snapt_.attach(next);
    EXPECT_TRUE(closed(snapt_, 2).empty()) << "no room";
    EXPECT_EQ(closed(snapt_), (std::vector<uint32_t>{2, 0}));
    EXPECT_TRUE(closed(snapt_).empty()) << "once";
}

TEST_F(SessionFlowsTest, CountsTheEndsThatAreTooManyToTell) {
    for (size_t i = 0; i < kMaxClosedToTell + 5; ++i) {
        Flow flow;
        flow.index = static_cast<uint32_t>(i);
        snapt_.attach(flow);
        snapt_.detach(flow, EndNotice::Closed);
    }
    EXPECT_EQ(counters_.closed_untold, 5U);
}

}  // namespace
}  // namespace continuo::session
