#include "common/reception/ack_ledger.hpp"

#include <map>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace continuo::reception {
namespace {

using base::Duration;
using base::kNever;
using base::milliseconds;
using base::seconds;
using base::TimePoint;
using base::TrafficClass;

constexpr TimePoint kBegin{seconds(1000)};
constexpr TrafficClass kBulk = TrafficClass::HtHd;

AckLedger::Arrival arrival(uint32_t number, uint32_t bytes = 1400) {
    AckLedger::Arrival result;
    result.traffic_class = kBulk;
    result.number = number;
    result.outer_bytes = bytes;
    result.has_packets = true;
    return result;
}

std::vector<AckBlock> build(const AckLedger& ledger, TimePoint now) {
    std::vector<AckBlock> blocks(base::kTrafficClasses);
    blocks.resize(ledger.build(blocks, now));
    return blocks;
}

std::vector<AckRange> ranges_of(const AckBlock& block) {
    return {block.ranges.begin(),
            block.ranges.begin() + static_cast<std::ptrdiff_t>(block.range_count)};
}

class AckLedgerTest : public testing::Test {
  protected:
    AckLedgerTest() { ledger_.set_rtt(milliseconds(40)); }

    // Sends what is to be told; gives the first block.
    std::vector<AckRange> tell(uint64_t id) {
        const auto blocks = build(ledger_, now_);
        ledger_.on_sent(blocks, id, 60, true, now_);
        return blocks.empty() ? std::vector<AckRange>{} : ranges_of(blocks[0]);
    }

    TimePoint now_ = kBegin;
    AckLedger ledger_;
};

TEST_F(AckLedgerTest, WithoutARoundTripTheLongestIntervalHolds) {
    AckLedger ledger;
    ledger.set_rtt({});
    EXPECT_EQ(ledger.interval(now_), AckLedger::kLongestFloor);
}

// Where not all classes fit one datagram, the others are still to be told.
TEST_F(AckLedgerTest, WhatWasLeftOutIsStillDue) {
    for (uint32_t number = 0; number < 4; ++number) {
        ledger_.on_datagram(arrival(number), now_);
    }
    AckLedger::Arrival thin = arrival(0, 100);
    thin.traffic_class = TrafficClass::LtLd;
    ledger_.on_datagram(thin, now_);
    const auto blocks = build(ledger_, now_);
    ASSERT_EQ(blocks.size(), 2U);
    ledger_.on_sent(std::span(blocks).first(1), 1, 60, false, now_);
    now_ += milliseconds(30);
    EXPECT_TRUE(ledger_.wants(false, now_));
    ledger_.on_sent(build(ledger_, now_), 2, 60, true, now_);
    EXPECT_FALSE(ledger_.wants(false, now_ + seconds(10)));
}

TEST_F(AckLedgerTest, TheNewestRangesAreToldAnewForAMove) {
    for (const uint32_t number : {0U, 1U, 3U}) {
        ledger_.on_datagram(arrival(number), now_);
    }
    tell(1);
    ledger_.on_acknowledged(1, 1);
    EXPECT_TRUE(build(ledger_, now_).empty());
    std::vector<AckBlock> blocks(base::kTrafficClasses);
    ASSERT_EQ(ledger_.build_newest(blocks, kBegin, now_), 1U);
    EXPECT_EQ(ranges_of(blocks[0]), (std::vector<AckRange>{{3, 3}, {0, 1}}));
    EXPECT_EQ(ledger_.build_newest(blocks, now_ + milliseconds(1), now_ + seconds(1)), 0U)
        << "nothing came since";
}

AckLedger::Arrival ping(uint32_t number) {
    AckLedger::Arrival result = arrival(number, 60);
    result.has_packets = false;
    result.is_asked = true;
    return result;
}

// The asking end would take a path without an answer for dead.
TEST_F(AckLedgerTest, APingIsAnsweredWithoutCredit) {
    ledger_.on_sent({}, 1000, 500, true, now_);
    const int64_t before = ledger_.credit_bytes();
    ASSERT_LT(before, 0);
    for (uint32_t number = 0; number < 100; ++number) {
        ledger_.on_datagram(ping(number), now_);
        EXPECT_EQ(ledger_.deadline(), now_ + milliseconds(10)) << number;
        now_ += milliseconds(10);
        ASSERT_TRUE(ledger_.wants(false, now_)) << number;
        tell(number);
        EXPECT_FALSE(ledger_.wants(false, now_ + seconds(10)));
        now_ += milliseconds(10);
    }
    EXPECT_GE(ledger_.credit_bytes(), before) << "other acknowledgements need not wait for it";
}

TEST_F(AckLedgerTest, PingsThatComeTogetherHaveOneAnswer) {
    uint32_t answers = 0;
    for (uint32_t number = 0; number < 1000; ++number) {
        ledger_.on_datagram(ping(number), now_);
        if (ledger_.wants(false, now_)) {
            tell(answers++);
        }
        now_ += milliseconds(1);
    }
    EXPECT_GE(answers, 90U);
    EXPECT_LE(answers, 100U) << "a quarter of the round trip apart";
}

// Many gaps, and a number that comes late: all of it would be told again for each PING.
TEST_F(AckLedgerTest, WithoutCreditAPingIsToldFewRanges) {
    for (uint32_t number = 1000; number < 1400; number += 2) {
        ledger_.on_datagram(arrival(number), now_);
    }
    ledger_.on_sent(build(ledger_, now_), 1000, 5000, true, now_);
    const int64_t debt = ledger_.credit_bytes();
    ASSERT_LT(debt, 0);
    for (uint32_t number = 100; number < 200; number += 2) {
        now_ += milliseconds(10);
        AckLedger::Arrival late = ping(number);
        late.traffic_class = TrafficClass::LtLd;
        ledger_.on_datagram(late, now_);
        ledger_.on_datagram(arrival(number), now_);
        now_ += milliseconds(10);
        ASSERT_TRUE(ledger_.wants(false, now_));
        const auto blocks = build(ledger_, now_);
        ASSERT_EQ(blocks.size(), 2U);
        for (const AckBlock& block : blocks) {
            const bool is_asked = block.traffic_class == TrafficClass::LtLd;
            const size_t known = is_asked ? (number - 100) / 2 + 1 : 200;
            EXPECT_EQ(block.range_count, std::min(known, AckLedger::kNewestRanges));
            EXPECT_EQ(block.highest(), is_asked ? number : 1398U);
        }
        ledger_.on_sent(blocks, number, 80, true, now_);
        EXPECT_FALSE(ledger_.wants(false, now_ + seconds(10))) << "the rest is not paid for";
    }
    EXPECT_LT(ledger_.credit_bytes(), 0);
    // Ranges that only PINGs were told are told with the next ACK that is paid for.
    ledger_.on_datagram(arrival(1400, 1'000'000), now_);
    size_t ranges = 0;
    for (const AckBlock& block : build(ledger_, now_ + seconds(1))) {
        ranges += block.range_count;
    }
    EXPECT_EQ(ranges, 50U + 50U + 201U);
}

// A packet a second that nobody answers makes a PING each time, an hour long.
TEST_F(AckLedgerTest, AnswersToPingsLeaveNoDebt) {
    uint32_t number = 0;
    for (uint32_t second = 0; second < 3600; ++second, now_ += seconds(1)) {
        ledger_.on_datagram(arrival(number++, 110), now_);
        AckLedger::Arrival asked = ping(second);
        asked.traffic_class = TrafficClass::LtLd;
        ledger_.on_datagram(asked, now_);
        const base::TimePoint due = ledger_.deadline();
        ASSERT_LE(due, now_ + milliseconds(25));
        ledger_.on_sent(build(ledger_, due), number, 90, true, due);
    }
    EXPECT_GE(ledger_.credit_bytes(), -90);
}

TEST_F(AckLedgerTest, ThinTrafficIsToldOnlyBesideOtherDatagrams) {
    ledger_.on_datagram(arrival(0, 100), now_);
    EXPECT_EQ(ledger_.deadline(), kNever);
    EXPECT_FALSE(ledger_.wants(false, now_ + seconds(60)));
    EXPECT_TRUE(ledger_.wants(true, now_));
    tell(1);
    ledger_.on_datagram(arrival(1, 100), now_);
    EXPECT_FALSE(ledger_.wants(true, now_ + AckLedger::kLazyInterval - milliseconds(1)));
    EXPECT_TRUE(ledger_.wants(true, now_ + AckLedger::kLazyInterval));
}

TEST_F(AckLedgerTest, WithoutPacketsNothingIsDue) {
    AckLedger::Arrival frames = arrival(0);
    frames.has_packets = false;
    ledger_.on_datagram(frames, now_);
    EXPECT_FALSE(ledger_.wants(true, now_ + seconds(60)));
    // But it is told with the next.
    ledger_.on_datagram(arrival(1), now_);
    EXPECT_EQ(tell(1), (std::vector<AckRange>{{0, 1}}));
}

TEST_F(AckLedgerTest, OwedBytesAreToldAfterAQuarterOfTheRoundTrip) {
    ledger_.on_datagram(arrival(0), now_);
    EXPECT_EQ(ledger_.deadline(), kNever);
    ledger_.on_datagram(arrival(1), now_);
    ledger_.on_datagram(arrival(2), now_);
    EXPECT_EQ(ledger_.deadline(), now_ + milliseconds(10));
    now_ = ledger_.deadline();
    tell(1);
    EXPECT_EQ(ledger_.deadline(), kNever);
    for (uint32_t i = 3; i < 10; ++i) {
        ledger_.on_datagram(arrival(i), now_ + milliseconds(1));
    }
    EXPECT_EQ(ledger_.deadline(), now_ + milliseconds(11));
    ledger_.set_rtt(milliseconds(600));
    EXPECT_EQ(ledger_.deadline(), now_ + milliseconds(26)) << "25 ms at most";
}

TEST_F(AckLedgerTest, APingIsAnsweredAndManyDatagramsAreToldAtOnce) {
    AckLedger::Arrival ping = arrival(0, 60);
    ping.has_packets = false;
    ping.is_asked = true;
    ledger_.on_datagram(ping, now_);
    EXPECT_EQ(ledger_.deadline(), now_ + milliseconds(10));
    tell(1);
    for (uint32_t i = 1; i <= AckLedger::kEveryDatagrams; ++i) {
        ledger_.on_datagram(arrival(i), now_);
    }
    EXPECT_TRUE(ledger_.wants(false, now_));
}

// 64 kbit/s are 8000 bytes a second, of which 160 may be acknowledgements.
TEST_F(AckLedgerTest, OnAThinLinkTheIntervalGrowsUntilTheBudgetHolds) {
    int64_t told_bytes = 0;
    int64_t bytes = 0;
    uint32_t number = 0;
    for (; now_ < kBegin + seconds(60); now_ += milliseconds(175)) {
        ledger_.on_datagram(arrival(number++), now_);
        bytes += 1400;
        if (ledger_.wants(false, now_)) {
            ledger_.on_sent(build(ledger_, now_), number, AckLedger::kAloneBytes, true, now_);
            told_bytes += AckLedger::kAloneBytes;
        }
    }
    EXPECT_NEAR(static_cast<double>(base::to_ms(ledger_.interval(now_))), 362, 30);
    EXPECT_LE(told_bytes, bytes / 50 + 300) << "the credit at the start is 300";
    EXPECT_GE(told_bytes, bytes / 100);
    // A second later nothing is known of the rate any more.
    EXPECT_EQ(ledger_.interval(now_ + seconds(3)), milliseconds(10));
}

TEST_F(AckLedgerTest, WithoutCreditNothingIsTold) {
    ledger_.on_datagram(arrival(0), now_);
    ledger_.on_datagram(arrival(1), now_);
    ledger_.on_datagram(arrival(2), now_);
    ledger_.on_sent(build(ledger_, now_), 1, 3000, true, now_);
    ledger_.on_datagram(arrival(3, 5000), now_);
    EXPECT_FALSE(ledger_.wants(true, now_ + seconds(60)));
    EXPECT_EQ(ledger_.deadline(), kNever);
}

TEST_F(AckLedgerTest, ARangeIsRepeatedThreeTimesOrUntilItsAcknowledgementArrived) {
    ledger_.on_datagram(arrival(0), now_);
    EXPECT_EQ(tell(1), (std::vector<AckRange>{{0, 0}}));
    ledger_.on_datagram(arrival(2), now_);
    EXPECT_EQ(tell(2), (std::vector<AckRange>{{2, 2}, {0, 0}}));
    ledger_.on_datagram(arrival(4), now_);
    EXPECT_EQ(tell(3), (std::vector<AckRange>{{4, 4}, {2, 2}, {0, 0}}));
    ledger_.on_datagram(arrival(6), now_);
    EXPECT_EQ(tell(4), (std::vector<AckRange>{{6, 6}, {4, 4}, {2, 2}})) << "three carried 0";
    ledger_.on_acknowledged(3, 3);
    ledger_.on_datagram(arrival(8), now_);
    EXPECT_EQ(tell(5), (std::vector<AckRange>{{8, 8}, {6, 6}}));
}

// It came after the ACK had left, which therefore did not tell it.
TEST_F(AckLedgerTest, WhatFillsAGapLaterIsToldAlthoughAnAckBeyondItArrived) {
    ledger_.on_datagram(arrival(0), now_);
    ledger_.on_datagram(arrival(2), now_);
    tell(1);
    ledger_.on_datagram(arrival(1), now_);
    ledger_.on_acknowledged(1, 1);
    EXPECT_EQ(tell(2), (std::vector<AckRange>{{1, 2}}));
    EXPECT_EQ(tell(3), (std::vector<AckRange>{{1, 2}}));
    EXPECT_EQ(tell(4), (std::vector<AckRange>{{1, 2}}));
    EXPECT_TRUE(tell(5).empty());
}

TEST_F(AckLedgerTest, RangesOfBothKindsAdjoin) {
    for (uint32_t i = 0; i < 10; ++i) {
        AckLedger::Arrival next = arrival(i);
        next.kind = i == 3 || i == 4 || i == 9 ? AckKind::Received : AckKind::Applied;
        ledger_.on_datagram(next, now_);
    }
    EXPECT_EQ(tell(1), (std::vector<AckRange>{{9, 9, AckKind::Received},
                                              {5, 8, AckKind::Applied},
                                              {3, 4, AckKind::Received},
                                              {0, 2, AckKind::Applied}}));
}

TEST_F(AckLedgerTest, TheDelayIsThatOfTheHighestNumber) {
    ledger_.on_datagram(arrival(5), now_);
    now_ += milliseconds(7);
    ledger_.on_datagram(arrival(4), now_);
    const auto blocks = build(ledger_, now_ + milliseconds(3));
    ASSERT_EQ(blocks.size(), 1U);
    EXPECT_EQ(blocks[0].highest(), 5U);
    EXPECT_EQ(blocks[0].delay, milliseconds(10));
}

// Loss and disorder both ways: all that came is told in an ACK that arrives, in its own kind, and
// nothing else is, as long as no more than two ACKs in a row are lost.
TEST_F(AckLedgerTest, WhatCameIsToldAndNothingElse) {
    std::mt19937 random(11);
    std::map<uint32_t, AckKind> came;
    std::map<uint32_t, AckKind> told;
    std::vector<uint32_t> pending;
    uint32_t next = 0;
    uint64_t id = 0;
    int lost_in_a_row = 0;
    std::vector<uint64_t> arrived;
    for (int round = 0; round < 3000; ++round) {
        now_ += milliseconds(10);
        for (uint32_t i = random() % 8; i > 0; --i) {
            if (random() % 10 != 0) {
                pending.push_back(next);
            }
            ++next;
        }
        while (!pending.empty() && random() % 8 != 0) {
            const size_t at = random() % pending.size();
            AckLedger::Arrival one = arrival(pending[at]);
            one.kind = random() % 20 == 0 ? AckKind::Received : AckKind::Applied;
            came[one.number] = one.kind;
            ledger_.on_datagram(one, now_);
            pending.erase(pending.begin() + static_cast<std::ptrdiff_t>(at));
        }
        const auto ranges = tell(++id);
        const bool is_lost = lost_in_a_row < 2 && random() % 3 == 0;
        lost_in_a_row = is_lost ? lost_in_a_row + 1 : 0;
        if (is_lost) {
            continue;
        }
        for (const AckRange& range : ranges) {
            for (uint32_t number = range.first; number <= range.last; ++number) {
                ASSERT_TRUE(came.contains(number)) << number;
                ASSERT_EQ(came[number], range.kind) << number;
                told[number] = range.kind;
            }
        }
        arrived.push_back(id);
        if (random() % 2 == 0) {
            ledger_.on_acknowledged(
                arrived[arrived.size() - 1 - random() % std::min<size_t>(arrived.size(), 4)],
                arrived[arrived.size() - 1 - random() % std::min<size_t>(arrived.size(), 4)]);
        }
    }
    for (int i = 0; i < 3; ++i) {
        for (const AckRange& range : tell(++id)) {
            for (uint32_t number = range.first; number <= range.last; ++number) {
                told[number] = range.kind;
            }
        }
    }
    EXPECT_EQ(told, came);
}

}  // namespace
}  // namespace continuo::reception
