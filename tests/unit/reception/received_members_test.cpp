#include "common/reception/received_members.hpp"

#include <ctime>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

namespace continuo::reception {
namespace {

using Flows = std::vector<std::unique_ptr<flow::Flow>>;

Flows make_flows(size_t count) {
    Flows flows;
    for (size_t i = 0; i < count; ++i) {
        flows.push_back(std::make_unique<flow::Flow>());
    }
    return flows;
}

TEST(ReceivedMembers, AFlowIsThereOnceWithAllItsBytes) {
    const Flows flows = make_flows(3);
    ReceivedMembers members;
    for (const size_t which : {0U, 1U, 0U, 2U, 1U, 0U}) {
        members.add(*flows[which], 10);
    }
    ASSERT_EQ(members.all().size(), 3U);
    EXPECT_EQ(members.all()[0].flow, flows[0].get());
    EXPECT_EQ(members.all()[0].inner_bytes, 30U);
    EXPECT_EQ(members.all()[1].inner_bytes, 20U);
    EXPECT_EQ(members.all()[2].inner_bytes, 10U);
}

TEST(ReceivedMembers, AFlowThatEndsLeavesItsPlace) {
    const Flows flows = make_flows(3);
    ReceivedMembers members;
    members.forget(*flows[0]);
    members.add(*flows[0], 10);
    members.add(*flows[1], 10);
    members.forget(*flows[0]);
    members.forget(*flows[2]);
    EXPECT_EQ(members.all()[0].flow, nullptr);
    EXPECT_EQ(members.all()[0].inner_bytes, 10U);
    EXPECT_EQ(members.all()[1].flow, flows[1].get());
    members.add(*flows[0], 20);  // begun anew
    ASSERT_EQ(members.all().size(), 3U);
    EXPECT_EQ(members.all()[2].flow, flows[0].get());
}

TEST(ReceivedMembers, TheDatagramBeforeIsForgotten) {
    const Flows flows = make_flows(2);
    ReceivedMembers members;
    members.add(*flows[0], 10);
    members.add(*flows[1], 10);
    members.clear();
    members.add(*flows[1], 20);
    ASSERT_EQ(members.all().size(), 1U);
    EXPECT_EQ(members.all()[0].flow, flows[1].get());
    EXPECT_EQ(members.all()[0].inner_bytes, 20U);
    members.add(*flows[0], 5);
    EXPECT_EQ(members.all()[1].flow, flows[0].get());
}

// The processor's time of this thread for a datagram's worth of packets, each of the next flow;
// the least disturbed of some.
int64_t cost_of(const Flows& flows) {
    ReceivedMembers members;
    int64_t least = INT64_MAX;
    for (int round = 0; round < 20; ++round) {
        timespec before{};
        timespec after{};
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
        members.clear();
        for (size_t i = 0; i < elision::kMaxEntries; ++i) {
            members.add(*flows[i % flows.size()], 40);
        }
        for (const auto& flow : flows) {
            members.forget(*flow);
        }
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
        least = std::min<int64_t>(least, (after.tv_sec - before.tv_sec) * 1'000'000'000 +
                                             after.tv_nsec - before.tv_nsec);
    }
    return least;
}

// A search would take some hundred times as long.
TEST(ReceivedMembers, APacketCostsTheSameHoweverManyFlowsThereAre) {
    const int64_t of_one = cost_of(make_flows(1));
    const int64_t of_many = cost_of(make_flows(elision::kMaxEntries));
    EXPECT_LE(of_many, of_one * 30) << of_one << " ns";
}

}  // namespace
}  // namespace continuo::reception
