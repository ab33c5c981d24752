#include "common/packet/packet.hpp"

#include <set>

#include <gtest/gtest.h>

namespace continuo::packet {
namespace {

TEST(PacketPool, GivesTheSmallestFittingBuffer) {
    PacketPool pool(4, 4);
    EXPECT_EQ(pool.take(0)->capacity, kSmallBufferBytes);
    EXPECT_EQ(pool.take(2048)->capacity, kSmallBufferBytes);
    EXPECT_EQ(pool.take(2049)->capacity, kLargeBufferBytes);
    EXPECT_EQ(pool.take(kLargeBufferBytes)->capacity, kLargeBufferBytes);
    EXPECT_EQ(pool.take(kLargeBufferBytes + 1), nullptr);
    EXPECT_EQ(pool.in_use(), 0U);
}

TEST(PacketPool, StopsAtEachLimitAndRecovers) {
    PacketPool pool(100, 10);
    std::vector<PacketPtr> taken;
    for (size_t i = 0; i < 100; ++i) {
        taken.push_back(pool.take(100));
        ASSERT_NE(taken.back(), nullptr) << i;
    }
    EXPECT_EQ(pool.take(100), nullptr);
    for (size_t i = 0; i < 10; ++i) {
        taken.push_back(pool.take(3000));
        ASSERT_NE(taken.back(), nullptr) << i;
    }
    EXPECT_EQ(pool.take(3000), nullptr);
    EXPECT_EQ(pool.in_use(), 110U);
    taken.erase(taken.begin());
    EXPECT_NE(pool.take(100), nullptr);
    taken.clear();
    EXPECT_EQ(pool.in_use(), 0U);
}

TEST(PacketPool, ReusesMemoryAndForgetsTheOldPacket) {
    PacketPool pool(1, 0);
    PacketPtr packet = pool.take(1);
    const uint8_t* storage = packet->storage;
    packet->length = 7;
    packet->offload.gso = GsoType::Udp;
    packet->queued_at = base::TimePoint(base::seconds(3));
    packet->next = packet.get();
    packet.reset();
    packet = pool.take(1);
    ASSERT_NE(packet, nullptr);
    EXPECT_EQ(packet->storage, storage);
    EXPECT_EQ(packet->length, 0U);
    EXPECT_EQ(packet->offload.gso, GsoType::None);
    EXPECT_EQ(packet->queued_at, base::TimePoint{});
    EXPECT_EQ(packet->next, nullptr);
}

// A reader moves the packet's first byte up behind virtio_net_hdr; the buffer must still go back to
// its own size.
TEST(PacketPool, MovedUpPacketGoesBackToItsOwnSize) {
    PacketPool pool(1, 1);
    for (const size_t wanted : {size_t{1}, kLargeBufferBytes}) {
        PacketPtr packet = pool.take(wanted);
        const uint8_t* storage = packet->storage;
        const uint32_t capacity = packet->capacity;
        // The rest of a large one may be as long as a small one.
        const auto moved = static_cast<uint32_t>(wanted == 1 ? 10 : capacity - kSmallBufferBytes);
        packet->storage += moved;
        packet->capacity -= moved;
        packet.reset();
        packet = pool.take(wanted);
        ASSERT_NE(packet, nullptr) << wanted;
        EXPECT_EQ(packet->storage, storage);
        EXPECT_EQ(packet->capacity, capacity);
    }
    PacketPool small_only(1, 0);
    PacketPtr packet = small_only.take(1);
    packet->storage += 10;
    packet->capacity -= 10;
    packet.reset();
    EXPECT_EQ(small_only.take(kLargeBufferBytes), nullptr) << "2 KiB must not pass for 64 KiB";
}

TEST(PacketPool, BuffersDoNotOverlap) {
    PacketPool pool(200, 20);
    std::vector<PacketPtr> taken;
    for (size_t i = 0; i < 220; ++i) {
        taken.push_back(pool.take(i < 200 ? 1 : 60000));
        ASSERT_NE(taken.back(), nullptr);
        const base::MutableByteView buffer = taken.back()->buffer();
        std::fill(buffer.begin(), buffer.end(), static_cast<uint8_t>(i));
    }
    for (size_t i = 0; i < 220; ++i) {
        for (const uint8_t byte : taken[i]->buffer()) {
            ASSERT_EQ(byte, static_cast<uint8_t>(i));
        }
    }
}

TEST(PacketPoolDeathTest, MustOutliveItsPackets) {
    EXPECT_DEATH(
        {
            PacketPtr packet;
            PacketPool pool(1, 1);
            packet = pool.take(1);
        },
        "in_use_ == 0");
}

}  // namespace
}  // namespace continuo::packet
