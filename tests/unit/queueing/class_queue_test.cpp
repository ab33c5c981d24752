#include "common/queueing/class_queue.hpp"

#include <map>

#include <gtest/gtest.h>

namespace continuo::queueing {
namespace {

struct Fixture {
    packet::PacketPool pool{4096, 8};
    std::array<flow::Flow, 4> flows;

    packet::PacketPtr packet(uint32_t bytes, uint8_t mark) {
        auto packet = pool.take(bytes);
        packet->length = bytes;
        packet->storage[0] = mark;
        return packet;
    }
};

TEST(ClassQueue, KeepsTheOrderOfEachFlow) {
    Fixture f;
    ClassQueue queue(1 << 20);
    for (uint8_t i = 0; i < 50; ++i) {
        queue.push(f.flows[i % 3], f.packet(100 + i, i), {});
    }
    std::map<flow::Flow*, int> last;
    while (!queue.empty()) {
        auto item = queue.take();
        const int mark = item.packet->storage[0];
        EXPECT_TRUE(!last.contains(item.flow) || last[item.flow] < mark);
        last[item.flow] = mark;
    }
    EXPECT_EQ(queue.bytes(), 0U);
    EXPECT_EQ(f.pool.in_use(), 0U);
}

TEST(ClassQueue, SharesBytesFairlyHoweverLongThePacketsAre) {
    Fixture f;
    ClassQueue queue(1 << 20);
    for (int i = 0; i < 200; ++i) {
        queue.push(f.flows[0], f.packet(1500, 0), {});
        queue.push(f.flows[1], f.packet(150, 1), {});
        queue.push(f.flows[1], f.packet(150, 1), {});
    }
    std::array<uint64_t, 2> bytes{};
    while (bytes[0] + bytes[1] < 60'000) {
        const auto item = queue.take();
        bytes[item.packet->storage[0]] += item.packet->length;
    }
    EXPECT_NEAR(static_cast<double>(bytes[0]), static_cast<double>(bytes[1]), 2.0 * kQuantumBytes);
}

TEST(ClassQueue, AKeyStrokeDoesNotWaitBehindADownload) {
    Fixture f;
    ClassQueue queue(1 << 20);
    for (int i = 0; i < 300; ++i) {
        queue.push(f.flows[0], f.packet(1500, 0), {});
    }
    queue.take();
    queue.push(f.flows[1], f.packet(60, 1), {});
    int before = 0;
    while (queue.take().flow != &f.flows[1]) {
        ++before;
    }
    EXPECT_LE(before, 2);
    while (!queue.empty()) {
        queue.take();
    }
}

TEST(ClassQueue, DropsTheNewestOfTheFattestFlowWhenFull) {
    Fixture f;
    ClassQueue queue(20'000);
    size_t dropped = 0;
    for (int i = 0; i < 30; ++i) {
        dropped += queue.push(f.flows[0], f.packet(1500, 0), {});
    }
    EXPECT_GT(dropped, 0U);
    EXPECT_LE(queue.bytes(), 20'000U);
    // The thin flow gets its packet in, at the fat one's cost.
    EXPECT_EQ(queue.push(f.flows[1], f.packet(1000, 1), {}), 1U);
    EXPECT_EQ(f.flows[1].queue.packets, 1U);
    EXPECT_EQ(queue.drop_flow(f.flows[1]), 1U);
}

TEST(ClassQueue, HalvedItKeepsTheOlderHalfOfEachFlow) {
    Fixture f;
    ClassQueue queue(1 << 20);
    for (uint8_t i = 0; i < 10; ++i) {
        queue.push(f.flows[0], f.packet(100, i), {});
    }
    queue.push(f.flows[1], f.packet(100, 100), {});
    EXPECT_EQ(queue.halve(), 5U);
    EXPECT_EQ(queue.packets(), 6U);
    EXPECT_EQ(queue.bytes(), 600U);
    queue.push(f.flows[0], f.packet(100, 10), {});
    std::vector<int> of_first;
    while (!queue.empty()) {
        const auto item = queue.take();
        if (item.flow == &f.flows[0]) {
            of_first.push_back(item.packet->storage[0]);
        }
    }
    EXPECT_EQ(of_first, (std::vector<int>{0, 1, 2, 3, 4, 10}));
    queue.push(f.flows[0], f.packet(100, 0), {});
    queue.push(f.flows[1], f.packet(100, 0), {});
    EXPECT_EQ(queue.halve(), 2U) << "one of each flow";
    EXPECT_TRUE(queue.empty());
    EXPECT_EQ(f.pool.in_use(), 0U);
}

TEST(ClassQueue, PutBackMakesThePacketTheNextOneAndKeepsEachFlowInOrder) {
    Fixture f;
    ClassQueue queue(1 << 20);
    for (uint8_t i = 0; i < 10; ++i) {
        queue.push(f.flows[i % 2], f.packet(1000, i), {});
    }
    std::vector<ClassQueue::Item> taken;
    for (int i = 0; i < 6; ++i) {
        taken.push_back(queue.take());
    }
    while (!taken.empty()) {
        const uint8_t mark = taken.back().packet->storage[0];
        queue.put_back(std::move(taken.back()));
        taken.pop_back();
        EXPECT_EQ(queue.peek()->storage[0], mark);
    }
    EXPECT_EQ(queue.packets(), 10U);
    std::map<flow::Flow*, int> last;
    while (!queue.empty()) {
        const auto item = queue.take();
        const int mark = item.packet->storage[0];
        EXPECT_TRUE(!last.contains(item.flow) || last[item.flow] < mark);
        last[item.flow] = mark;
    }
}

TEST(ClassQueue, MovesAFlowToAnotherClassInOrder) {
    Fixture f;
    ClassQueue from(1 << 20);
    ClassQueue to(1 << 20);
    for (uint8_t i = 0; i < 5; ++i) {
        from.push(f.flows[0], f.packet(100, i), {});
        from.push(f.flows[1], f.packet(100, i), {});
    }
    from.move_flow(f.flows[0], to);
    EXPECT_EQ(from.packets(), 5U);
    EXPECT_EQ(to.packets(), 5U);
    for (uint8_t i = 0; i < 5; ++i) {
        EXPECT_EQ(to.take().packet->storage[0], i);
    }
}

TEST(ClassQueue, KnowsOfEachMovedFlowWhetherItsSenderWaitsForAnswers) {
    Fixture f;
    f.flows[0].tuple.protocol = packet::Protocol::Tcp;
    f.flows[1].tuple.protocol = packet::Protocol::Udp;
    ClassQueue from(1 << 20);
    ClassQueue to(1 << 20);
    from.push(f.flows[0], f.packet(100, 0), {});
    from.move_flow(f.flows[0], to);
    EXPECT_TRUE(to.has_clocked());
    to.take();
    from.push(f.flows[1], f.packet(100, 0), {});
    from.move_flow(f.flows[1], to);
    EXPECT_FALSE(to.has_clocked()) << "what has left is not remembered";
}

}  // namespace
}  // namespace continuo::queueing
