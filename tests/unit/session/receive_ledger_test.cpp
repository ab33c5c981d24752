#include "common/base/random.hpp"
#include "common/session/receive_ledger.hpp"
#include "common/wire/frame.hpp"

#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace continuo::session {
namespace {

using base::Duration;
using base::kNever;
using base::milliseconds;
using base::TimePoint;

constexpr TimePoint kStart{base::seconds(1000)};
constexpr uint16_t kSpace = 0x0100;
constexpr uint16_t kOtherSpace = 0x0108;

TimePoint at_ms(int ms) {
    return kStart + milliseconds(ms);
}

std::vector<AckContent> build(ReceiveLedger& ledger, TimePoint now, size_t frames = 64) {
    std::vector<AckContent> out(frames);
    out.resize(ledger.build(out, now));
    return out;
}

std::set<uint64_t> numbers_in(const std::vector<AckContent>& frames) {
    std::set<uint64_t> numbers;
    for (const AckContent& frame : frames) {
        for (size_t i = 0; i < frame.run_count; ++i) {
            for (uint64_t number = frame.runs[i].first; number <= frame.runs[i].last; ++number) {
                numbers.insert(number);
            }
        }
    }
    return numbers;
}

// With all the credit there can be.
ReceiveLedger rich() {
    ReceiveLedger ledger;
    ledger.on_outer_bytes(size_t{1} << 20);
    return ledger;
}

TEST(ReceiveLedger, WithoutStatefulDatagramsNothingIsEverDue) {
    ReceiveLedger ledger = rich();
    ledger.on_stateless(kSpace, 3);
    EXPECT_FALSE(ledger.is_pending());
    EXPECT_EQ(ledger.next_deadline(), kNever);
    EXPECT_FALSE(ledger.want_ack(at_ms(100000), true));
    EXPECT_FALSE(ledger.want_ack(at_ms(100000), false));
    EXPECT_TRUE(build(ledger, at_ms(100000)).empty());
}

TEST(ReceiveLedger, UrgentIsDueAtOnceAndThen20MsAfterTheLast) {
    ReceiveLedger ledger = rich();
    ledger.on_accepted(kSpace, 0, true, at_ms(0));
    EXPECT_EQ(ledger.next_deadline(), at_ms(0));
    EXPECT_TRUE(ledger.want_ack(at_ms(0), false));
    ASSERT_EQ(build(ledger, at_ms(0)).size(), 1U);
    EXPECT_FALSE(ledger.is_pending());
    ledger.on_accepted(kSpace, 1, true, at_ms(5));
    EXPECT_EQ(ledger.next_deadline(), at_ms(20));
    EXPECT_FALSE(ledger.want_ack(at_ms(19), false));
    EXPECT_TRUE(ledger.want_ack(at_ms(20), false));
}

TEST(ReceiveLedger, UrgentWaits100MsForReverseDataWhileThereIsAny) {
    ReceiveLedger ledger = rich();
    EXPECT_FALSE(ledger.want_ack(at_ms(0), true));
    ledger.on_accepted(kSpace, 0, true, at_ms(30));
    EXPECT_EQ(ledger.next_deadline(), at_ms(130));
    EXPECT_FALSE(ledger.want_ack(at_ms(129), false));
    EXPECT_TRUE(ledger.want_ack(at_ms(130), false));
    EXPECT_TRUE(ledger.want_ack(at_ms(31), true));
    build(ledger, at_ms(31));
    ledger.on_accepted(kSpace, 1, true, at_ms(32));
    EXPECT_FALSE(ledger.want_ack(at_ms(50), true));
    EXPECT_TRUE(ledger.want_ack(at_ms(51), true));
}

TEST(ReceiveLedger, NothingUrgentWaitsHalfASecondForReverseDataAndASecondAlone) {
    ReceiveLedger ledger = rich();
    ledger.on_accepted(kSpace, 0, false, at_ms(0));
    ledger.on_accepted(kSpace, 1, false, at_ms(400));
    EXPECT_EQ(ledger.next_deadline(), at_ms(1000));
    EXPECT_FALSE(ledger.want_ack(at_ms(499), true));
    EXPECT_TRUE(ledger.want_ack(at_ms(500), true));
    EXPECT_FALSE(ledger.want_ack(at_ms(999), false));
    EXPECT_TRUE(ledger.want_ack(at_ms(1000), false));
    ledger.on_accepted(kSpace, 2, true, at_ms(401));
    EXPECT_TRUE(ledger.want_ack(at_ms(401), true));
}

TEST(ReceiveLedger, TwoThousandAndFortyEightWaitingAreDueAtOnce) {
    ReceiveLedger ledger = rich();
    ledger.on_accepted(kSpace, 0, true, at_ms(0));
    build(ledger, at_ms(0));
    for (uint64_t number = 1; number < kAckEveryDatagrams; ++number) {
        ledger.on_accepted(kSpace, number, false, at_ms(1));
    }
    EXPECT_FALSE(ledger.want_ack(at_ms(1), false));
    ledger.on_accepted(kSpace, kAckEveryDatagrams, false, at_ms(1));
    EXPECT_TRUE(ledger.want_ack(at_ms(1), false));
    EXPECT_LE(ledger.next_deadline(), at_ms(1));
    const auto frames = build(ledger, at_ms(1));
    ASSERT_EQ(frames.size(), 1U);
    EXPECT_EQ(frames[0].highest(), kAckEveryDatagrams);
    EXPECT_FALSE(ledger.want_ack(at_ms(1), false));
}

TEST(ReceiveLedger, CreditStartsAt300EarnsTwoPercentAndIsCappedAt3000) {
    ReceiveLedger ledger;
    EXPECT_EQ(ledger.credit_bytes(), 300);
    ledger.on_outer_bytes(1000);
    EXPECT_EQ(ledger.credit_bytes(), 320);
    for (int i = 0; i < 50; ++i) {
        ledger.on_outer_bytes(1);
    }
    EXPECT_EQ(ledger.credit_bytes(), 321);
    ledger.on_ack_sent(100);
    EXPECT_EQ(ledger.credit_bytes(), 221);
    for (int i = 0; i < 1000; ++i) {
        ledger.on_outer_bytes(1400);
    }
    EXPECT_EQ(ledger.credit_bytes(), 3000);
    ledger.on_outer_bytes(std::numeric_limits<size_t>::max());
    EXPECT_EQ(ledger.credit_bytes(), 3000);
}

TEST(ReceiveLedger, WithoutCreditNothingIsDueUntilBytesArrive) {
    ReceiveLedger ledger;
    ledger.on_ack_sent(300);
    ledger.on_accepted(kSpace, 0, true, at_ms(0));
    EXPECT_FALSE(ledger.want_ack(at_ms(0), true));
    EXPECT_FALSE(ledger.want_ack(at_ms(5000), false));
    EXPECT_EQ(ledger.next_deadline(), kNever);
    ledger.on_outer_bytes(300);  // 6 bytes: enough to ride
    EXPECT_TRUE(ledger.want_ack(at_ms(5000), true));
    EXPECT_FALSE(ledger.want_ack(at_ms(5000), false));
    ledger.on_outer_bytes(2500);  // 56: enough alone
    EXPECT_TRUE(ledger.want_ack(at_ms(6000), false));
    EXPECT_NE(ledger.next_deadline(), kNever);
}

TEST(ReceiveLedger, AcknowledgementsNeverCostMoreThanTwoPercentOverTime) {
    ReceiveLedger ledger;
    uint64_t sent_bytes = 0;
    uint64_t received_bytes = 0;
    for (int ms = 0; ms < 60000; ms += 10) {
        ledger.on_outer_bytes(120);
        received_bytes += 120;
        ledger.on_accepted(kSpace, static_cast<uint64_t>(ms) / 10, true, at_ms(ms));
        if (ledger.want_ack(at_ms(ms), false)) {
            size_t bytes = kAloneBytes;
            for (const AckContent& frame : build(ledger, at_ms(ms))) {
                bytes += frame.wire_bytes();
            }
            ledger.on_ack_sent(bytes);
            sent_bytes += bytes;
        }
    }
    EXPECT_GT(sent_bytes, received_bytes / 100);
    EXPECT_LE(sent_bytes, received_bytes / 50 + 300 + 60);
}

TEST(ReceiveLedger, InOrderIsOneRunAndCheap) {
    ReceiveLedger ledger = rich();
    for (uint64_t number = 0; number < 100; ++number) {
        ledger.on_accepted(kSpace, number, false, at_ms(0));
    }
    const auto frames = build(ledger, at_ms(1000));
    ASSERT_EQ(frames.size(), 1U);
    EXPECT_EQ(frames[0].space, kSpace);
    EXPECT_EQ(frames[0].run_count, 1);
    EXPECT_EQ(frames[0].runs[0].first, 0U);
    EXPECT_EQ(frames[0].runs[0].last, 99U);
    EXPECT_EQ(frames[0].wire_bytes(), static_cast<size_t>(kAckFrameBytes - 1));
}

TEST(ReceiveLedger, StatelessDatagramsFillTheRunsOfSpacesThatHaveStatefulOnes) {
    ReceiveLedger ledger = rich();
    for (uint64_t number = 0; number < 50; number += 2) {
        ledger.on_accepted(kSpace, number, false, at_ms(0));
        ledger.on_stateless(kSpace, number + 1);
    }
    const auto frames = build(ledger, at_ms(1000));
    ASSERT_EQ(frames.size(), 1U);
    EXPECT_EQ(frames[0].run_count, 1);
    EXPECT_EQ(frames[0].highest(), 49U);
}

TEST(ReceiveLedger, RunsAreNewestFirstWithGapsAndFitTheFrame) {
    ReceiveLedger ledger = rich();
    for (const uint64_t number :
         {uint64_t{3}, uint64_t{4}, uint64_t{9}, uint64_t{11}, uint64_t{12}}) {
        ledger.on_accepted(kSpace, number, false, at_ms(0));
    }
    const auto frames = build(ledger, at_ms(1000));
    ASSERT_EQ(frames.size(), 1U);
    ASSERT_EQ(frames[0].run_count, 3);
    EXPECT_EQ(frames[0].runs[0].first, 11U);
    EXPECT_EQ(frames[0].runs[0].last, 12U);
    EXPECT_EQ(frames[0].runs[1].first, 9U);
    EXPECT_EQ(frames[0].runs[1].last, 9U);
    EXPECT_EQ(frames[0].runs[2].first, 3U);
    EXPECT_EQ(frames[0].runs[2].last, 4U);
}

TEST(ReceiveLedger, MoreThanTwelveRunsContinueInFurtherFramesThatTheWireTakes) {
    ReceiveLedger ledger = rich();
    std::set<uint64_t> accepted;
    base::SeededRandom random(1);
    for (uint64_t number = 0; number < 3000; ++number) {
        if (random.below(10) > 0) {
            ledger.on_accepted(kSpace, number, false, at_ms(0));
            accepted.insert(number);
        }
    }
    ASSERT_TRUE(ledger.want_ack(at_ms(0), true));
    const auto frames = build(ledger, at_ms(0));
    EXPECT_GT(frames.size(), 20U);
    EXPECT_EQ(numbers_in(frames), accepted);
    EXPECT_EQ(frames[0].highest(), *accepted.rbegin());
    for (const AckContent& frame : frames) {
        wire::Ack ack;
        ack.space = wire::space_from_number(frame.space);
        for (size_t i = 0; i < frame.run_count; ++i) {
            EXPECT_TRUE(ack.add({static_cast<uint32_t>(frame.runs[i].first),
                                 static_cast<uint32_t>(frame.runs[i].last)}));
        }
        EXPECT_EQ(ack.size(), frame.wire_bytes());
    }
}

TEST(ReceiveLedger, FurtherFramesStopAtRoomAndCredit) {
    for (const bool by_room : {true, false}) {
        ReceiveLedger ledger;
        for (uint64_t number = 0; number < 400; number += 2) {
            ledger.on_accepted(kSpace, number, true, at_ms(0));
        }
        ASSERT_TRUE(ledger.want_ack(at_ms(0), true));
        if (by_room) {
            ledger.on_outer_bytes(size_t{1} << 20);
        }
        std::array<AckContent, 64> out;
        const size_t room = by_room ? 70 : std::numeric_limits<size_t>::max();
        const size_t count = ledger.build(out, at_ms(0), room);
        size_t bytes = 0;
        for (size_t i = 0; i < count; ++i) {
            bytes += out[i].wire_bytes();
        }
        EXPECT_GE(count, 2U);
        EXPECT_LE(bytes, by_room ? 70U : 300U + 40U);
        EXPECT_EQ(out[0].highest(), 398U);
    }
}

TEST(ReceiveLedger, WhatFitsNowhereStaysPending) {
    ReceiveLedger ledger = rich();
    ledger.on_accepted(kSpace, 0, true, at_ms(0));
    std::array<AckContent, 4> out;
    EXPECT_EQ(ledger.build(out, at_ms(0), 3), 0U);
    EXPECT_EQ(ledger.build({}, at_ms(0)), 0U);
    EXPECT_TRUE(ledger.want_ack(at_ms(0), false));
    EXPECT_EQ(ledger.build(out, at_ms(0), 20), 1U);
    EXPECT_FALSE(ledger.is_pending());
}

TEST(ReceiveLedger, SpacesThatDidNotFitComeNextAndInTurn) {
    ReceiveLedger ledger = rich();
    ledger.on_accepted(kSpace, 7, true, at_ms(0));
    ledger.on_accepted(kOtherSpace, 8, true, at_ms(0));
    const auto first = build(ledger, at_ms(0), 1);
    ASSERT_EQ(first.size(), 1U);
    EXPECT_TRUE(ledger.is_pending());
    EXPECT_EQ(ledger.next_deadline(), at_ms(20));
    ledger.on_accepted(first[0].space, 9, true, at_ms(1));
    const auto second = build(ledger, at_ms(20), 1);
    ASSERT_EQ(second.size(), 1U);
    EXPECT_NE(second[0].space, first[0].space);
}

TEST(ReceiveLedger, ALostAckIsRepairedByTheNext) {
    ReceiveLedger ledger = rich();
    ledger.on_accepted(kSpace, 0, true, at_ms(0));
    ledger.on_accepted(kSpace, 2, true, at_ms(0));
    build(ledger, at_ms(0));
    ledger.on_accepted(kSpace, 5, true, at_ms(30));
    EXPECT_EQ(numbers_in(build(ledger, at_ms(30))), (std::set<uint64_t>{0, 2, 5}));
}

TEST(ReceiveLedger, EveryNumberIsRepeatedEightTimesAndThenNoLonger) {
    ReceiveLedger ledger = rich();
    std::array<int, 400> times{};
    for (uint64_t number = 0; number < times.size(); ++number) {
        const TimePoint now = at_ms(static_cast<int>(number) * 30);
        ledger.on_accepted(kSpace, number, true, now);
        for (const uint64_t told : numbers_in(build(ledger, now))) {
            ++times[told];
        }
    }
    for (size_t number = 0; number + 2 * kAckRepeats < times.size(); ++number) {
        EXPECT_GE(times[number], static_cast<int>(kAckRepeats)) << number;
        EXPECT_LE(times[number], static_cast<int>(2 * kAckRepeats)) << number;
    }
}

TEST(ReceiveLedger, ALatecomerIsStillTold) {
    ReceiveLedger ledger = rich();
    for (uint64_t number = 0; number < 1000; ++number) {
        if (number != 500) {
            ledger.on_accepted(kSpace, number, true, at_ms(static_cast<int>(number) * 20));
            build(ledger, at_ms(static_cast<int>(number) * 20));
        }
    }
    ledger.on_accepted(kSpace, 500, true, at_ms(30000));
    EXPECT_TRUE(numbers_in(build(ledger, at_ms(30000))).contains(500));
}

TEST(ReceiveLedger, NothingFurtherBackThanAnAckReachesIsTold) {
    ReceiveLedger ledger = rich();
    ledger.on_accepted(kSpace, 0, true, at_ms(0));
    ledger.on_accepted(kSpace, wire::kAckReach, true, at_ms(0));
    EXPECT_EQ(numbers_in(build(ledger, at_ms(0))), (std::set<uint64_t>{wire::kAckReach}));
    ledger.on_accepted(kSpace, 0, true, at_ms(30));
    EXPECT_EQ(numbers_in(build(ledger, at_ms(30))), (std::set<uint64_t>{wire::kAckReach}));
}

// 900 000 datagrams a second: 10 Gbit/s of full ones, 2 % lost, 5 % a little late.
TEST(ReceiveLedger, AtTenGigabitsEveryAcceptedNumberIsTold) {
    ReceiveLedger ledger;
    base::SeededRandom random(9);
    std::set<uint64_t> untold;
    std::vector<uint64_t> late;
    for (uint64_t number = 0; number < 200000; ++number) {
        const TimePoint now = kStart + Duration(number * 1111);
        std::vector<uint64_t> arrivals;
        const uint64_t luck = random.below(100);
        if (luck < 5) {
            late.push_back(number);
        } else if (luck >= 7) {
            arrivals.push_back(number);
        }
        if (arrivals.empty() && late.size() > 20) {
            arrivals.swap(late);
        }
        for (const uint64_t arrived : arrivals) {
            ledger.on_outer_bytes(1400);
            ledger.on_accepted(kSpace, arrived, false, now);
            untold.insert(arrived);
        }
        if (ledger.want_ack(now, false)) {
            size_t bytes = kAloneBytes;
            for (const AckContent& frame : build(ledger, now, 64)) {
                bytes += frame.wire_bytes();
                for (size_t i = 0; i < frame.run_count; ++i) {
                    untold.erase(untold.lower_bound(frame.runs[i].first),
                                 untold.upper_bound(frame.runs[i].last));
                }
            }
            EXPECT_LE(bytes, 1400U);
            ledger.on_ack_sent(bytes);
        }
    }
    EXPECT_LE(untold.size(), kAckEveryDatagrams);
    EXPECT_TRUE(untold.empty() || *untold.begin() > 200000 - 2 * kAckEveryDatagrams);
}

TEST(ReceiveLedger, SpacesAreLimitedAndRefusedOnesCounted) {
    ReceiveLedger ledger = rich();
    for (uint16_t space = 0; space < kMaxLedgerSpaces + 5; ++space) {
        ledger.on_accepted(space, 1, true, at_ms(0));
    }
    EXPECT_EQ(ledger.refused_spaces(), 5U);
    EXPECT_EQ(build(ledger, at_ms(0), 1000).size(), kMaxLedgerSpaces);
}

}  // namespace
}  // namespace continuo::session
