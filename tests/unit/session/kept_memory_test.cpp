// Memory that all sessions of a process use for kept and held packets stays within one budget.
#include "common/reception/resequencer.hpp"
#include "common/session/sent_ring.hpp"

#include <deque>

#include <gtest/gtest.h>

namespace continuo::session {
namespace {

using base::MemoryBudget;
using base::milliseconds;
using base::TimePoint;

constexpr size_t kMebibyte = size_t{1024} * 1024;
const TimePoint kNow{base::seconds(10)};

void push(SentRing& ring, uint64_t sequence) {
    static const std::vector<uint8_t> datagram(1400);
    SentEntry entry;
    entry.sent_at = kNow;
    entry.first_sequence = sequence;
    ring.push(entry, datagram, kNow);
}

TEST(KeptMemory, ManyRingsTogetherTakeNoMoreThanTheirBudget) {
    MemoryBudget budget(4 * kMebibyte);
    {
        std::deque<SentRing> rings;
        for (int i = 0; i < 100; ++i) {
            rings.emplace_back(&budget);
        }
        for (uint64_t sequence = 0; sequence < 1000; ++sequence) {
            for (SentRing& ring : rings) {
                push(ring, sequence);
            }
        }
        size_t bytes = 0;
        for (SentRing& ring : rings) {
            bytes += ring.capacity_bytes();
            ring.mark_due([](const SentEntry&) { return true; });
            ASSERT_GT(ring.entries(), 0U) << "what they got before it was used up they keep";
            EXPECT_LT(ring.entries(), 1000U);
            EXPECT_EQ(ring.next_due().first_sequence, 1000 - ring.entries()) << "the newest";
        }
        EXPECT_LE(bytes, budget.limit_bytes());
        EXPECT_LE(budget.used_bytes(), budget.limit_bytes());
        EXPECT_GE(budget.used_bytes(), bytes) << "and the list of them";
        EXPECT_GT(budget.refusals(), 0U);
    }
    EXPECT_EQ(budget.used_bytes(), 0U);
}

TEST(KeptMemory, ARingGivesBackWhatABurstTookWhileATrickleGoesOn) {
    MemoryBudget budget(4 * kMebibyte);
    SentRing ring(&budget);
    for (uint64_t sequence = 0; sequence < 1000; ++sequence) {
        push(ring, sequence);
    }
    ASSERT_GT(ring.capacity_bytes(), kMebibyte);
    for (uint64_t second = 20; second < 40; ++second) {
        const TimePoint now = kNow + base::seconds(static_cast<int64_t>(second));
        SentEntry entry;
        entry.sent_at = now;
        entry.first_sequence = 1000 + second;
        ring.push(entry, std::vector<uint8_t>(200, static_cast<uint8_t>(second)),
                  now - base::seconds(2));
        ring.release(now - base::seconds(30));
    }
    EXPECT_LE(ring.capacity_bytes(), kMebibyte / 16);
    EXPECT_LT(budget.used_bytes(), kMebibyte / 8);
    ring.mark_due([](const SentEntry&) { return true; });
    uint64_t found = 0;
    for (; ring.has_due(); ++found) {
        SentEntry& entry = ring.next_due();
        EXPECT_EQ(ring.bytes(entry)[199], entry.first_sequence - 1000) << "what it has is whole";
        ring.done(entry, entry.sent_at);
    }
    EXPECT_EQ(found, ring.entries());
}

TEST(KeptMemory, ARingWithoutMemoryKeepsNothingUntilAnotherGivesItsBack) {
    MemoryBudget budget(kMebibyte);
    SentRing first(&budget);
    for (uint64_t sequence = 0; sequence < 1000; ++sequence) {
        push(first, sequence);
    }
    MemoryBudget none(0);
    SentRing poor(&none);
    push(poor, 1);
    EXPECT_EQ(poor.entries(), 0U);
    EXPECT_EQ(poor.capacity_bytes(), 0U);
    EXPECT_FALSE(poor.has_due());
    EXPECT_EQ(none.refusals(), 1U);

    EXPECT_GT(budget.used_bytes(), 0U);
    first.release(kNow + milliseconds(1));
    EXPECT_EQ(budget.used_bytes(), 0U);
    push(first, 1000);
    EXPECT_EQ(first.entries(), 1U);
}

TEST(KeptMemory, AResequencerWithoutMemoryHoldsNothingAndCountsIt) {
    // One has room for its flows and packets, not two.
    MemoryBudget budget(3 * kMebibyte);
    reception::Resequencer rich(&budget);
    reception::Resequencer poor(&budget);
    flow::Flow flow;
    const wire::Order::Place place{1, 5};
    const std::vector<uint8_t> payload(1000);
    const auto waits = [&](reception::Resequencer& resequencer) {
        return resequencer.arrive(place, 0, 3, milliseconds(200), kNow) &&
               resequencer.hold(place, flow, {}, payload, milliseconds(200), kNow);
    };
    EXPECT_TRUE(waits(rich));
    EXPECT_FALSE(waits(poor)) << "it is delivered as it comes";
    EXPECT_EQ(poor.counters().overflows, 1U);
    EXPECT_EQ(poor.held(), 0U);
    EXPECT_LE(budget.used_bytes(), budget.limit_bytes());

    rich.forget(1);
    rich.trim(kNow + milliseconds(1));
    EXPECT_TRUE(waits(poor)) << "the other one has given its memory back";
}

}  // namespace
}  // namespace continuo::session
