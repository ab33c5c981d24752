#include "common/packet/packet.hpp"
#include "common/session/router.hpp"
#include "tests/unit/session/path_set_fixture.hpp"

#include <gtest/gtest.h>

namespace continuo::session {
namespace {

using base::PathMode;
using base::TimePoint;
using base::TrafficClass;
using path_tests::kSnapt;

// A node with two paths that have answered.
class RouterTest : public testing::Test {
  protected:
    RouterTest() {
        for (const uint8_t index : {uint8_t{0}, uint8_t{1}}) {
            node_.paths.add(index, kSnapt, 1500, node_.now);
        }
        node_.paths.activate(0, node_.now);
        node_.paths.path(1).probe(node_.now);
        while (const auto probe = node_.paths.next_probe(node_.now)) {
            if (probe->challenge) {
                node_.paths.on_authenticated(path_tests::space(probe->path), kSnapt,
                                             path_tests::kLocal, 100, true, node_.now);
                node_.paths.on_response(path_tests::space(probe->path), {probe->challenge->token},
                                        node_.now);
            }
        }
    }
    flow::Flow flow_in(PathMode mode) {
        flow::Flow flow;
        flow.paths.mode = mode;
        flow.traffic_class = TrafficClass::LtHd;
        return flow;
    }
    std::optional<Way> ask(const flow::Flow& flow) const {
        return router_.way_of(flow, packet_, settings_, node_.now);
    }

    path_tests::Node node_;
    Router router_{Role::Node, node_.paths};
    ClassSettings settings_;
    packet::Packet packet_;
};

TEST_F(RouterTest, AQuestionPinsNoFlow) {
    flow::Flow flow = flow_in(PathMode::Flow);
    router_.add(flow);
    const auto first = ask(flow);
    const auto again = ask(flow);
    ASSERT_TRUE(first && again);
    EXPECT_TRUE(first->is_pinned);
    EXPECT_EQ(first->destination.path, again->destination.path);
    EXPECT_EQ(flow.paths.pinned, flow::FlowPaths::kNone);
}

TEST_F(RouterTest, FlowsThatAreCommittedShareThePaths) {
    std::vector<flow::Flow> flows(10);
    std::array<int, wire::kMaxPaths> on{};
    for (flow::Flow& flow : flows) {
        flow = flow_in(PathMode::Flow);
        router_.add(flow);
        const auto way = ask(flow);
        ASSERT_TRUE(way);
        router_.commit(flow, *way);
        ++on[way->destination.path];
        EXPECT_EQ(ask(flow)->destination.path, way->destination.path) << "it stays there";
    }
    EXPECT_EQ(on[0], 5);
    EXPECT_EQ(on[1], 5);
    router_.unpin(flows[0], TrafficClass::LtHd);
    EXPECT_EQ(flows[0].paths.pinned, flow::FlowPaths::kNone);
    EXPECT_EQ(ask(flows[0])->destination.path, 0) << "which has one less now";
}

TEST_F(RouterTest, AStripedDatagramTakesThePathOnWhichItIsThereFirst) {
    flow::Flow flow = flow_in(PathMode::Packet);
    router_.add(flow);
    const auto way = ask(flow);
    ASSERT_TRUE(way && way->is_striped);
    EXPECT_EQ(way->shares, 0) << "round trips are known of both";
    router_.on_sent(*way, 1400);
    EXPECT_EQ(ask(flow)->destination.path, way->destination.path) << "nothing is under way";
}

TEST_F(RouterTest, HandoverFlowsTakeTheActivePathAndAreNotCopied) {
    flow::Flow flow = flow_in(PathMode::Handover);
    router_.add(flow);
    const auto way = ask(flow);
    ASSERT_TRUE(way);
    EXPECT_EQ(way->destination.path, 0);
    EXPECT_FALSE(router_.uses_several_paths());
    EXPECT_FALSE(router_.copy_way(TrafficClass::LtHd, *way, node_.now));
}

TEST_F(RouterTest, RedundantFlowsAreCopiedToTheOtherPathWhileThereAreSome) {
    flow::Flow flow = flow_in(PathMode::Redundant);
    router_.add(flow);
    const auto way = ask(flow);
    ASSERT_TRUE(way);
    const auto copy = router_.copy_way(TrafficClass::LtHd, *way, node_.now);
    ASSERT_TRUE(copy);
    EXPECT_EQ(copy->destination.path, 1);
    EXPECT_FALSE(copy->is_doubt);
    router_.remove(flow);
    EXPECT_FALSE(router_.copy_way(TrafficClass::LtHd, *way, node_.now));
}

}  // namespace
}  // namespace continuo::session
