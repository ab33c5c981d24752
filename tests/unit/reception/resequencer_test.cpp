#include "common/reception/resequencer.hpp"

#include <gtest/gtest.h>

namespace continuo::reception {
namespace {

using base::milliseconds;
using base::TimePoint;

constexpr base::Duration kBound = milliseconds(200);
constexpr uint16_t kBoth = 0x3;

// One flow, packets of which are told by their number.
struct Row {
    Resequencer resequencer;
    flow::Flow flow;
    TimePoint now{base::seconds(10)};
    std::vector<uint16_t> delivered;

    void arrive(uint16_t number,
                uint8_t path,
                uint16_t paths = kBoth,
                uint32_t index = 5,
                base::Duration bound = kBound) {
        const wire::Order::Place place{index, number};
        std::array<uint8_t, 2> payload{};
        base::store_big_endian<uint16_t>(payload.data(), number);
        if (!resequencer.arrive(place, path, paths, bound, now) ||
            !resequencer.hold(place, flow, {}, payload, bound, now)) {
            delivered.push_back(number);
        }
        while (Resequencer::Held* held = resequencer.take(index, now)) {
            deliver(*held);
        }
    }
    void pass(base::Duration span) {
        now += span;
        while (Resequencer::Held* held = resequencer.take_due(now)) {
            deliver(*held);
        }
    }
    void deliver(Resequencer::Held& held) {
        delivered.push_back(base::load_big_endian<uint16_t>(held.payload.data()));
        resequencer.done(held);
    }
};

using Numbers = std::vector<uint16_t>;

TEST(Resequencer, InOrderNothingIsHeld) {
    Row row;
    for (uint16_t number = 0; number < 10; ++number) {
        row.arrive(number, static_cast<uint8_t>(number % 2));
    }
    EXPECT_EQ(row.delivered.size(), 10U);
    EXPECT_EQ(row.resequencer.counters().held, 0U);
    EXPECT_EQ(row.resequencer.next_deadline(), base::kNever);
}

TEST(Resequencer, WhatOvertookWaitsForWhatIsMissing) {
    Row row;
    row.arrive(0, 0);
    row.arrive(2, 0);
    row.arrive(4, 0);
    EXPECT_EQ(row.delivered, (Numbers{0}));
    row.arrive(1, 1);
    EXPECT_EQ(row.delivered, (Numbers{0, 1, 2}));
    row.arrive(3, 1);
    EXPECT_EQ(row.delivered, (Numbers{0, 1, 2, 3, 4}));
    EXPECT_EQ(row.resequencer.held(), 0U);
}

TEST(Resequencer, APacketWaitsNoLongerThanItsBound) {
    Row row;
    row.arrive(0, 0);
    row.arrive(2, 0);
    EXPECT_EQ(row.resequencer.next_deadline(), row.now + kBound);
    row.pass(kBound - milliseconds(1));
    EXPECT_EQ(row.delivered, (Numbers{0}));
    row.pass(milliseconds(1));
    EXPECT_EQ(row.delivered, (Numbers{0, 2}));
    EXPECT_EQ(row.resequencer.counters().timeouts, 1U);
    row.arrive(1, 1);
    EXPECT_EQ(row.delivered, (Numbers{0, 2, 1})) << "late, but not lost";
    EXPECT_EQ(row.resequencer.counters().late, 1U);
}

TEST(Resequencer, OneThatCameInBetweenWaitsNoLongerThanThoseBehindIt) {
    Row row;
    row.arrive(0, 0);
    row.arrive(5, 0);
    row.pass(kBound / 2);
    row.arrive(3, 1);
    row.pass(kBound / 2);
    EXPECT_EQ(row.delivered, (Numbers{0, 3, 5}));
}

TEST(Resequencer, WhatEveryPathHasOvertakenIsNotWaitedFor) {
    Row row;
    row.arrive(0, 0);
    row.arrive(1, 1);
    row.arrive(3, 1);  // 2 may still come by path 0
    EXPECT_EQ(row.delivered, (Numbers{0, 1}));
    row.arrive(4, 0);
    EXPECT_EQ(row.delivered, (Numbers{0, 1, 3, 4}));
    EXPECT_EQ(row.resequencer.counters().given_up, 1U);
}

TEST(Resequencer, APathThatIsUsedNoMoreIsNotWaitedFor) {
    Row row;
    row.arrive(0, 0);
    row.arrive(1, 1);
    row.arrive(3, 0);
    row.arrive(5, 0);
    EXPECT_EQ(row.delivered, (Numbers{0, 1}));
    row.arrive(6, 0, 0x1);
    EXPECT_EQ(row.delivered, (Numbers{0, 1, 3, 5, 6}));
}

TEST(Resequencer, OneFlowDoesNotKeepAnotherWaiting) {
    Row row;
    row.arrive(0, 0);
    row.arrive(2, 0);
    row.arrive(0, 0, kBoth, 6);
    row.arrive(1, 1, kBoth, 6);
    EXPECT_EQ(row.delivered, (Numbers{0, 0, 1}));
}

TEST(Resequencer, WithoutABoundNothingWaits) {
    Row row;
    row.arrive(0, 0, kBoth, 5, {});
    row.arrive(7, 0, kBoth, 5, {});
    row.arrive(3, 1, kBoth, 5, {});
    EXPECT_EQ(row.delivered, (Numbers{0, 7, 3}));
}

TEST(Resequencer, NumbersGoRound) {
    Row row;
    for (uint32_t number = 65530; number < 65550; number += 2) {
        row.arrive(static_cast<uint16_t>(number + 1), 0);
        row.arrive(static_cast<uint16_t>(number), 1);
    }
    ASSERT_EQ(row.delivered.size(), 20U);
    // The first one has nothing to wait for.
    for (size_t i = 3; i < row.delivered.size(); ++i) {
        EXPECT_EQ(row.delivered[i], static_cast<uint16_t>(row.delivered[i - 1] + 1));
    }
}

TEST(Resequencer, ARowThatBeginsAnewIsFollowed) {
    Row row;
    row.arrive(0, 0);
    row.arrive(2, 0);
    row.arrive(30000, 0);
    row.arrive(30001, 1);
    row.arrive(30002, 0);
    row.arrive(30003, 1);
    EXPECT_EQ(row.delivered.size(), 6U);
    EXPECT_EQ(row.resequencer.held(), 0U);
    row.arrive(30005, 0);
    EXPECT_EQ(row.resequencer.held(), 1U);
}

TEST(Resequencer, WhatFindsNoRoomIsDeliveredAndCounted) {
    Row row;
    row.arrive(0, 0);
    for (uint16_t number = 2; number < 2 + Resequencer::kPackets + 10; ++number) {
        row.arrive(number, 0);
    }
    EXPECT_EQ(row.resequencer.held(), Resequencer::kPackets);
    EXPECT_EQ(row.delivered.size(), 11U);
    EXPECT_EQ(row.resequencer.counters().overflows, 10U);
    row.pass(kBound);
    EXPECT_EQ(row.resequencer.held(), 0U);
    EXPECT_EQ(row.delivered.size(), 11U + Resequencer::kPackets);
}

TEST(Resequencer, AnEndedFlowLeavesNothing) {
    Row row;
    row.arrive(0, 0);
    row.arrive(2, 0);
    row.arrive(3, 0);
    EXPECT_EQ(row.resequencer.forget(5), 2U);
    EXPECT_EQ(row.resequencer.held(), 0U);
    row.pass(kBound);
    EXPECT_EQ(row.delivered, (Numbers{0}));
    row.resequencer.trim(row.now + milliseconds(1));
    row.arrive(0, 0);
    row.arrive(2, 0);
    EXPECT_EQ(row.resequencer.held(), 1U) << "memory is made anew";
}

TEST(Resequencer, MoreFlowsThanItKnowsAreDelivered) {
    Row row;
    size_t sent = 0;
    for (uint32_t index = 0; index < 2 * Resequencer::kFlows; ++index) {
        row.arrive(0, 0, kBoth, index);
        row.arrive(2, 0, kBoth, index);
        sent += 2;
    }
    row.pass(kBound);
    EXPECT_EQ(row.delivered.size(), sent);
}

TEST(Resequencer, ALateDatagramDoesNotTellOverWhichPathsIsStripedNow) {
    Row row;
    row.arrive(0, 0, 0x1);
    row.arrive(3, 0, kBoth);
    row.arrive(1, 0, 0x1);
    EXPECT_EQ(row.delivered, (Numbers{0, 1})) << "2 may come by the other path";
    row.arrive(2, 1, kBoth);
    EXPECT_EQ(row.delivered, (Numbers{0, 1, 2, 3}));
}

// The numbers have gone round meanwhile: what it brought last seems to be ahead.
TEST(Resequencer, APathThatWasLeftOutHasOvertakenNothing) {
    Row row;
    row.arrive(0, 1);
    uint16_t number = 1;
    for (; number < 40'000; ++number) {
        row.arrive(number, 0, 0x1);
    }
    row.arrive(static_cast<uint16_t>(number + 1), 0, kBoth);
    EXPECT_EQ(row.resequencer.held(), 1U) << "the other path may bring what is missing";
    row.arrive(number, 1, kBoth);
    EXPECT_EQ(row.resequencer.held(), 0U);
    EXPECT_TRUE(std::is_sorted(row.delivered.begin(), row.delivered.end()));
}

TEST(Resequencer, AFlowThatItsSenderOpenedAnewIsPutInOrderAgain) {
    Row row;
    for (uint16_t number = 0; number < 5000; ++number) {
        row.arrive(number, 0);
    }
    row.pass(base::seconds(60));
    row.delivered.clear();
    row.arrive(0, 0);
    row.arrive(2, 0);
    row.arrive(1, 1);
    EXPECT_EQ(row.delivered, (Numbers{0, 1, 2}));
}

}  // namespace
}  // namespace continuo::reception
