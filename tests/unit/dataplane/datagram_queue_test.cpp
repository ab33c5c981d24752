#include "common/dataplane/datagram_queue.hpp"

#include <numeric>
#include <thread>

#include <gtest/gtest.h>

namespace continuo::dataplane {
namespace {

using base::TrafficClass;
using Datagrams = std::vector<std::vector<uint8_t>>;

Datagrams pull_all(DatagramQueue& queue, DatagramQueue::Pulled* pulled = nullptr) {
    Datagrams all;
    const auto result = queue.pull([&](base::MutableByteView datagram) {
        all.emplace_back(datagram.begin(), datagram.end());
        return true;
    });
    if (pulled != nullptr) {
        *pulled = result;
    }
    return all;
}

std::vector<uint8_t> datagram_of(TrafficClass traffic_class, size_t bytes) {
    std::vector<uint8_t> datagram(bytes);
    datagram[0] = static_cast<uint8_t>(base::index_of(traffic_class));
    return datagram;
}

TEST(DatagramQueue, CutsARunIntoItsDatagrams) {
    DatagramQueue queue;
    std::vector<uint8_t> run(10);
    std::iota(run.begin(), run.end(), uint8_t{0});
    EXPECT_TRUE(queue.push(run, 4).is_taken);
    EXPECT_EQ(pull_all(queue), (Datagrams{{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9}}));
    EXPECT_TRUE(pull_all(queue).empty());
}

TEST(DatagramQueue, WakesOnceForWhatIsNotKnown) {
    DatagramQueue queue;
    const std::vector<uint8_t> one(100);
    EXPECT_TRUE(queue.push(one, 0).wants_wake);
    EXPECT_FALSE(queue.push(one, 0).wants_wake);
    EXPECT_EQ(pull_all(queue).size(), 2U);
    EXPECT_TRUE(queue.push(one, 0).wants_wake) << "all was pulled";
    queue.pull([](base::MutableByteView) { return false; });
    EXPECT_FALSE(queue.push(one, 0).wants_wake) << "who refused comes again by itself";
    EXPECT_EQ(pull_all(queue).size(), 2U);
}

TEST(DatagramQueue, IsFullAtItsLimitAndTellsOfRoomOnce) {
    DatagramQueue queue;
    const std::vector<uint8_t> one = datagram_of(TrafficClass::LtLd, 1000);
    size_t taken = 0;
    while (queue.push(one, 0).is_taken) {
        ++taken;
    }
    EXPECT_EQ(taken, (DatagramQueue::kLimitBytes + 1001) / 1002);
    EXPECT_EQ(queue.room_bytes(), 0U);
    DatagramQueue::Pulled pulled;
    EXPECT_EQ(pull_all(queue, &pulled).size(), taken);
    EXPECT_TRUE(pulled.tells_room);
    EXPECT_EQ(queue.room_bytes(), DatagramQueue::kLimitBytes);
    EXPECT_TRUE(queue.push(one, 0).is_taken);
    pull_all(queue, &pulled);
    EXPECT_FALSE(pulled.tells_room) << "there was no lack of it";
}

TEST(DatagramQueue, ARefusedDatagramComesAgainInItsOrder) {
    DatagramQueue queue;
    for (uint8_t i = 0; i < 4; ++i) {
        queue.push(std::vector<uint8_t>{0, i}, 0);
    }
    int left = 2;
    const auto first = queue.pull([&](base::MutableByteView) { return left-- > 0; });
    EXPECT_TRUE(first.has_more);
    EXPECT_EQ(pull_all(queue), (Datagrams{{0, 2}, {0, 3}}));
}

TEST(DatagramQueue, LowDelayOvertakesWhatIsStillThere) {
    DatagramQueue queue;
    const auto bulk = datagram_of(TrafficClass::HtHd, 10);
    const auto voice = datagram_of(TrafficClass::HtLd, 20);
    queue.push(bulk, 0);
    queue.push(bulk, 0);
    int left = 1;
    queue.pull([&](base::MutableByteView) { return left-- > 0; });
    queue.push(voice, 0);
    EXPECT_EQ(pull_all(queue), (Datagrams{voice, bulk})) << "one was on its way already";
}

TEST(DatagramQueue, FullOfBulkItStillTakesLowDelayForAWhile) {
    DatagramQueue queue;
    const auto bulk = datagram_of(TrafficClass::LtHd, 1000);
    while (queue.push(bulk, 0).is_taken) {
    }
    EXPECT_LE(queue.room_bytes(), DatagramQueue::kReservedBytes);
    EXPECT_GE(queue.room_bytes(), DatagramQueue::kReservedBytes - 1002);
    const auto voice = datagram_of(TrafficClass::LtLd, 1000);
    int taken = 0;
    while (queue.push(voice, 0).is_taken) {
        ++taken;
    }
    EXPECT_GE(taken, 15);
    EXPECT_EQ(queue.room_bytes(), 0U);
    DatagramQueue::Pulled pulled;
    pull_all(queue, &pulled);
    EXPECT_EQ(pulled.refused, 2U) << "counted";
    pull_all(queue, &pulled);
    EXPECT_EQ(pulled.refused, 0U);
}

TEST(DatagramQueue, WhoCouldNotBeToldIsToldAgain) {
    DatagramQueue queue;
    const auto one = datagram_of(TrafficClass::LtLd, 1000);
    EXPECT_TRUE(queue.push(one, 0).wants_wake);
    queue.on_wake_failed();
    EXPECT_TRUE(queue.push(one, 0).wants_wake);
    while (queue.push(one, 0).is_taken) {
    }
    DatagramQueue::Pulled pulled;
    pull_all(queue, &pulled);
    ASSERT_TRUE(pulled.tells_room);
    queue.on_room_untold();
    pull_all(queue, &pulled);
    EXPECT_TRUE(pulled.tells_room);
}

TEST(DatagramQueue, WhatIsClearedMakesRoomThatIsTold) {
    DatagramQueue queue;
    const auto one = datagram_of(TrafficClass::LtLd, 1000);
    EXPECT_FALSE(queue.clear());
    while (queue.push(one, 0).is_taken) {
    }
    EXPECT_TRUE(queue.clear());
    EXPECT_TRUE(pull_all(queue).empty());
    EXPECT_TRUE(queue.push(one, 0).wants_wake);
}

TEST(DatagramQueue, NothingIsLostOrTurnedRoundBetweenThreads) {
    constexpr uint32_t kCount = 200'000;
    DatagramQueue queue;
    uint32_t next = 0;
    bool in_order = true;
    std::thread puller([&] {
        while (next < kCount) {
            queue.pull([&](base::MutableByteView datagram) {
                in_order = in_order && base::load_big_endian<uint32_t>(&datagram[1]) == next;
                ++next;
                return true;
            });
        }
    });
    for (uint32_t i = 0; i < kCount;) {
        std::array<uint8_t, 5> bytes{};  // of one class
        base::store_big_endian(&bytes[1], i);
        i += queue.push(bytes, 0).is_taken ? 1U : 0U;
    }
    puller.join();
    EXPECT_TRUE(in_order);
    EXPECT_EQ(next, kCount);
}

}  // namespace
}  // namespace continuo::dataplane
