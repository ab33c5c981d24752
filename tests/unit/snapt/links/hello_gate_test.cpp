#include "snapt/links/hello_gate.hpp"

#include <gtest/gtest.h>

namespace continuo::snapt::links {
namespace {

using base::milliseconds;
using base::seconds;
using base::TimePoint;

constexpr TimePoint kStart{seconds(1000)};

size_t admitted(HelloGate& gate, const std::string& node, size_t tries, TimePoint now) {
    size_t count = 0;
    for (size_t i = 0; i < tries; ++i) {
        count += gate.admit("alice", node, 8, now) ? 1U : 0U;
    }
    return count;
}

TEST(HelloGate, ANodeMayLogInTenTimesAtOnceAndThenTwiceASecond) {
    HelloGate gate;
    EXPECT_EQ(admitted(gate, "laptop", 100, kStart), 10U);
    EXPECT_EQ(admitted(gate, "laptop", 100, kStart + seconds(1)), 2U);
    EXPECT_EQ(admitted(gate, "laptop", 100, kStart + seconds(60)), 10U);
}

TEST(HelloGate, OthersDoNotPayForIt) {
    HelloGate gate;
    ASSERT_EQ(admitted(gate, "laptop", 100, kStart), 10U);
    EXPECT_TRUE(gate.admit("alice", "phone", 8, kStart));
    EXPECT_TRUE(gate.admit("bob", "laptop", 8, kStart));
}

TEST(HelloGate, NamesThatAreMadeUpGainNothing) {
    HelloGate gate;
    size_t count = 0;
    for (int i = 0; i < 1000; ++i) {
        count += gate.admit("alice", "node" + std::to_string(i), 8, kStart) ? 1U : 0U;
    }
    EXPECT_EQ(count, kNewNodeBurst);
    // Those that were here go on, and others too.
    EXPECT_TRUE(gate.admit("alice", "node1", 8, kStart));
    EXPECT_TRUE(gate.admit("bob", "node999", 8, kStart));
    EXPECT_TRUE(gate.admit("alice", "node999", 8, kStart + seconds(1)));
    EXPECT_FALSE(gate.admit("alice", "node998", 8, kStart + seconds(1)));
}

TEST(HelloGate, AFleetIsLetInAtOnce) {
    HelloGate gate;
    for (const size_t limit : {200U, 0U}) {
        for (size_t i = 0; i < 200; ++i) {
            const std::string node = "node" + std::to_string(limit) + "-" + std::to_string(i);
            EXPECT_TRUE(gate.admit("alice", node, limit, kStart));
        }
    }
}

TEST(HelloGate, AUserWithAnyNumberOfSessionsLeavesRoomForTheOthers) {
    HelloGate gate;
    for (const size_t limit : {size_t{0}, size_t{16777216}}) {
        const std::string user = "user" + std::to_string(limit);
        size_t count = 0;
        for (size_t i = 0; i < 2 * kMaxHelloBuckets; ++i) {
            count += gate.admit(user, std::to_string(i), limit, kStart) ? 1U : 0U;
        }
        EXPECT_EQ(count, limit == 0 ? kManyNewNodes : kMaxHelloBucketsOfUser);
        EXPECT_TRUE(gate.admit("bob", "laptop" + user, limit, kStart));
        EXPECT_TRUE(gate.admit(user, "1", limit, kStart)) << "it was here";
    }
    // Entries of a user's nodes are free again after a while.
    EXPECT_TRUE(gate.admit("user16777216", "new", 16777216, kStart + 3 * kNodeRemembered * 1000));
}

TEST(HelloGate, MemoryIsBoundedAndComesBack) {
    HelloGate gate;
    size_t count = 0;
    for (size_t i = 0; i < 2 * kMaxHelloBuckets; ++i) {
        const std::string user = "user" + std::to_string(i % 64);
        count += gate.admit(user, std::to_string(i), 0, kStart) ? 1U : 0U;
    }
    EXPECT_LT(count, kMaxHelloBuckets);
    EXPECT_FALSE(gate.admit("bob", "laptop", 8, kStart));
    EXPECT_TRUE(gate.admit("bob", "laptop", 8, kStart + 2 * kNodeRemembered));
}

}  // namespace
}  // namespace continuo::snapt::links
