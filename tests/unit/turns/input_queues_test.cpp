#include "common/turns/frame_backlog.hpp"
#include "common/turns/input_queues.hpp"

#include <string>

#include <gtest/gtest.h>

namespace continuo::turns {
namespace {

class Queues : public testing::Test {
  protected:
    ~Queues() override {
        for (InputQueue* queue : {&first_, &second_, &small_}) {
            queues_.clear(*queue);
        }
    }
    // `mark` is its first byte. False: dropped.
    bool push(InputQueue& queue, char mark, size_t bytes = 100, uint16_t segment_bytes = 0) {
        const size_t datagrams = segment_bytes == 0 ? 1 : bytes / segment_bytes;
        if (!queues_.admit(queue, bytes, datagrams)) {
            return false;
        }
        Input input;
        input.packet = queues_.take(bytes);
        if (input.packet == nullptr) {
            return false;
        }
        input.packet->length = static_cast<uint32_t>(bytes);
        input.packet->storage[0] = static_cast<uint8_t>(mark);
        input.segment_bytes = segment_bytes;
        queues_.push(queue, std::move(input));
        return true;
    }
    std::string take_all(InputQueue& queue) {
        std::string marks;
        while (Input* input = queue.front()) {
            marks += static_cast<char>(input->packet->storage[0]);
            queues_.pop(queue);
        }
        return marks;
    }

    static constexpr size_t kSmall = 8;
    static constexpr size_t kLarge = 4;
    InputQueues queues_{kSmall, kLarge};
    InputQueue first_;
    InputQueue second_;
    InputQueue small_{2 * packet::kSmallBufferBytes};
};

TEST_F(Queues, EachKeepsItsOrder) {
    push(first_, 'a');
    push(second_, 'x');
    push(first_, 'b');
    push(first_, 'c', 30'000);
    EXPECT_EQ(first_.bytes(), 2 * packet::kSmallBufferBytes + 30'000);
    EXPECT_EQ(take_all(first_), "abc");
    EXPECT_EQ(take_all(second_), "x");
    EXPECT_EQ(first_.bytes(), 0U);
    EXPECT_TRUE(first_.is_empty());
}

TEST_F(Queues, WhatOverflowsIsTheSendersOwn) {
    EXPECT_TRUE(push(small_, 'a'));
    EXPECT_TRUE(push(small_, 'b'));
    EXPECT_FALSE(push(small_, 'c'));
    EXPECT_FALSE(push(small_, 'd', 3'000, 1'000));
    EXPECT_EQ(small_.dropped(), 4U) << "datagrams, not runs";
    EXPECT_TRUE(push(first_, 'x'));
    EXPECT_EQ(first_.dropped(), 0U);
    EXPECT_EQ(take_all(small_), "ab");
    EXPECT_TRUE(push(small_, 'e'));
}

TEST_F(Queues, WhenBuffersRunOutTheLongestLosesTheNewerHalf) {
    push(second_, 'x');
    for (char mark = 'a'; mark < 'a' + static_cast<char>(kSmall) - 1; ++mark) {
        EXPECT_TRUE(push(first_, mark));
    }
    EXPECT_TRUE(push(second_, 'y'));
    EXPECT_EQ(first_.dropped(), 4U);
    EXPECT_EQ(second_.dropped(), 0U);
    EXPECT_EQ(take_all(first_), "abc");
    EXPECT_EQ(take_all(second_), "xy");
}

TEST_F(Queues, ASingleLongRunGivesWayToo) {
    for (size_t i = 0; i < kLarge; ++i) {
        InputQueue& queue = i == 0 ? first_ : second_;
        EXPECT_TRUE(push(queue, 'a', 3'000, 1'000));
    }
    EXPECT_TRUE(push(first_, 'b', 3'000, 1'000));
    EXPECT_TRUE(push(first_, 'c', 3'000, 1'000));
    EXPECT_EQ(second_.dropped(), 6U);
    EXPECT_EQ(take_all(first_), "abc");
}

// A long buffer for two datagrams.
TEST_F(Queues, ARunCountsAsLongAsItIs) {
    EXPECT_TRUE(push(small_, 'a', 2'800, 1'400));
    EXPECT_FALSE(push(small_, 'b', 2'800, 1'400));
    EXPECT_EQ(small_.bytes(), 2'800U);
    EXPECT_EQ(take_all(small_), "a");
    EXPECT_EQ(small_.bytes(), 0U);
}

// Only buffers of the wanted size count, whoever holds more of the other.
TEST_F(Queues, WhoHoldsNoneOfThoseThatRanOutLosesNothing) {
    for (char mark = 'a'; mark < 'a' + static_cast<char>(kLarge); ++mark) {
        EXPECT_TRUE(push(first_, mark, 60'000, 1'000));
    }
    EXPECT_TRUE(push(first_, 'x'));
    for (size_t i = 0; i < kSmall - 1; ++i) {
        EXPECT_TRUE(push(second_, static_cast<char>('1' + i)));
    }
    EXPECT_TRUE(push(second_, '8'));
    EXPECT_EQ(first_.dropped(), 0U) << "its buffers are long ones";
    EXPECT_EQ(second_.dropped(), 4U);
    EXPECT_TRUE(push(second_, '9', 3'000, 1'000));
    EXPECT_EQ(first_.dropped(), 120U);
    EXPECT_EQ(take_all(first_), "abx") << "what is short has a buffer that is not wanted";
    EXPECT_EQ(take_all(second_), "12389");
}

TEST_F(Queues, WhatIsDoneOfARunCountsNoMore) {
    push(first_, 'a', 3'000, 1'000);
    first_.front()->done_bytes = 1'000;
    EXPECT_EQ(first_.front()->datagrams(), 2U);
    push(first_, 'b');
    EXPECT_EQ(queues_.clear(first_), 3U);
}

TEST_F(Queues, TheFrontMovesToAnotherQueueAsItIs) {
    push(first_, 'a', 3'000, 1'000);
    first_.front()->done_bytes = 1'000;
    push(first_, 'b');
    push(second_, 'x');
    queues_.move_front(first_, second_);
    EXPECT_EQ(first_.bytes(), packet::kSmallBufferBytes);
    EXPECT_EQ(first_.size(), 1U);
    EXPECT_EQ(second_.bytes(), packet::kSmallBufferBytes + 3'000);
    EXPECT_EQ(second_.size(), 2U);
    queues_.move_front(first_, second_);
    EXPECT_TRUE(first_.is_empty());
    EXPECT_EQ(take_all(second_), "xab");
    push(first_, 'c');
    EXPECT_EQ(take_all(first_), "c");
}

TEST_F(Queues, WhatFindsNoRoomInTheOtherQueueIsDroppedThere) {
    push(small_, 'x', 3'000, 1'000);
    push(first_, 'a', 3'000, 1'000);
    first_.front()->done_bytes = 1'000;
    push(first_, 'b', 2'000, 500);
    queues_.move_front(first_, small_);
    EXPECT_EQ(small_.dropped(), 2U) << "of which one was done";
    EXPECT_EQ(first_.dropped(), 0U);
    EXPECT_EQ(take_all(first_), "b");
    EXPECT_EQ(take_all(small_), "x");
}

TEST(FrameBacklog, GivesWhatItTookAndItsMemoryBack) {
    base::MemoryBudget budget(FrameBacklog::kLimitBytes);
    FrameBacklog backlog(&budget);
    packet::FiveTuple tuple;
    tuple.local_port = 7;
    const std::vector<uint8_t> frame{1, 2, 3};
    for (uint32_t i = 1; i <= 2; ++i) {
        EXPECT_TRUE(backlog.push(frame, {&tuple, i, 10 * i, i}, tuple));
    }
    EXPECT_EQ(backlog.packets(), 3U);
    EXPECT_EQ(budget.used_bytes(), FrameBacklog::kFirstBytes);
    for (uint32_t i = 1; i <= 2; ++i) {
        EXPECT_FALSE(backlog.is_empty());
        backlog.pop(
            [&](base::ByteView bytes, const packet::FrameInfo& info, const packet::FiveTuple& of) {
                EXPECT_EQ(std::vector<uint8_t>(bytes.begin(), bytes.end()), frame);
                EXPECT_EQ(info.owner, nullptr) << "it may have ended";
                EXPECT_EQ(info.packets, i);
                EXPECT_EQ(info.inner_bytes, 10U * i);
                EXPECT_EQ(of, tuple);
            });
    }
    EXPECT_TRUE(backlog.is_empty());
    EXPECT_EQ(backlog.packets(), 0U);
    EXPECT_EQ(budget.used_bytes(), 0U);
}

TEST(FrameBacklog, TakesMemoryAsItNeedsIt) {
    base::MemoryBudget budget(4 * FrameBacklog::kFirstBytes);
    FrameBacklog backlog(&budget);
    const std::vector<uint8_t> frame(FrameBacklog::kFirstBytes - 1'000);
    EXPECT_TRUE(backlog.push(frame, {}, {}));
    EXPECT_EQ(budget.used_bytes(), FrameBacklog::kFirstBytes);
    EXPECT_TRUE(backlog.push(frame, {}, {}));
    EXPECT_EQ(budget.used_bytes(), 2 * FrameBacklog::kFirstBytes);
    FrameBacklog other(&budget);
    EXPECT_TRUE(other.push(frame, {}, {}));
    EXPECT_FALSE(backlog.push(frame, {}, {})) << "no memory";
}

TEST(FrameBacklog, HasRoomForAllThatWasHeldForItsOrder) {
    FrameBacklog backlog;
    const std::vector<uint8_t> frame(packet::kVnetHeaderBytes + 120 +
                                     reception::Resequencer::kPacketBytes);
    for (size_t i = 0; i < reception::Resequencer::kPackets; ++i) {
        ASSERT_TRUE(backlog.push(frame, {}, {})) << i;
    }
    EXPECT_FALSE(backlog.push(frame, {}, {}));
}

TEST(FrameBacklog, HasLimits) {
    base::MemoryBudget budget(FrameBacklog::kLimitBytes);
    FrameBacklog full(&budget);
    const std::vector<uint8_t> frame(10'000);
    size_t taken = 0;
    while (full.push(frame, {}, {})) {
        ++taken;
    }
    EXPECT_GT(taken, FrameBacklog::kLimitBytes / frame.size() * 9 / 10);
    EXPECT_LE(taken, FrameBacklog::kLimitBytes / frame.size());
    FrameBacklog other(&budget);
    EXPECT_FALSE(other.push(frame, {}, {})) << "no memory";
}

}  // namespace
}  // namespace continuo::turns
