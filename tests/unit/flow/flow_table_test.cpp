#include "common/base/random.hpp"
#include "common/flow/counter_values.hpp"
#include "common/flow/flow_table.hpp"

#include <set>
#include <unordered_map>

#include <gtest/gtest.h>

namespace continuo::flow {
namespace {

using base::IpAddress;
using base::seconds;
using base::TimePoint;
using packet::FiveTuple;
using packet::Protocol;

constexpr TimePoint kStart{std::chrono::hours(30)};

FiveTuple tuple_of(uint32_t number) {
    FiveTuple tuple;
    tuple.protocol = number % 3 == 0 ? Protocol::Udp : Protocol::Tcp;
    if (number % 5 == 0) {
        tuple.local = *IpAddress::parse("2001:db8::2");
        tuple.remote = *IpAddress::parse("2001:db8:9::1");
        tuple.remote.octets[15] = static_cast<uint8_t>(number >> 8);
    } else {
        tuple.local = *IpAddress::parse("192.0.2.2");
        tuple.remote = IpAddress::v4(0xC6336400U + (number >> 8) % 256);
    }
    tuple.local_port = static_cast<uint16_t>(number);
    tuple.remote_port = 443;
    return tuple;
}

struct TupleHash {
    size_t operator()(const FiveTuple& tuple) const {
        return std::hash<IpAddress>{}(tuple.remote) * 31 + tuple.local_port;
    }
};

TEST(FlowTable, FindsWhatWasCreatedAndOnlyThat) {
    HeapSlots slots(10);
    FlowTable table(10, slots);
    Flow* flow = table.create(tuple_of(1), base::TrafficClass::HtLd, kStart, {5, 9, 77});
    ASSERT_NE(flow, nullptr);
    EXPECT_EQ(table.find(tuple_of(1)), flow);
    EXPECT_EQ(table.find(tuple_of(2)), nullptr);
    EXPECT_EQ(flow->state, FlowState::Opening);
    EXPECT_EQ(flow->index, 77U);
    EXPECT_EQ(flow->app, 9);
    EXPECT_EQ(flow->owner, nullptr);
    EXPECT_EQ(flow->counters->session_number, 5U);
    EXPECT_EQ(flow->counters->remote_port, 443);
    EXPECT_EQ(flow->counters->flow_id, flow->id.value());
    table.erase(*flow);
    EXPECT_EQ(table.find(tuple_of(1)), nullptr);
    EXPECT_EQ(slots.in_use(), 0U);
}

TEST(FlowTable, FullTableRefusesAndCounts) {
    HeapSlots slots(10);
    base::DropCounters drops;
    FlowTable table(2, slots, {.drops = &drops});
    ASSERT_NE(table.create(tuple_of(1), base::TrafficClass::LtLd, kStart), nullptr);
    ASSERT_NE(table.create(tuple_of(2), base::TrafficClass::LtLd, kStart), nullptr);
    EXPECT_EQ(table.create(tuple_of(3), base::TrafficClass::LtLd, kStart), nullptr);
    EXPECT_EQ(table.limit_hits(), 1U);
    EXPECT_EQ(drops.count(base::DropReason::FlowLimit), 1U);
    table.erase(*table.find(tuple_of(1)));
    EXPECT_NE(table.create(tuple_of(3), base::TrafficClass::LtLd, kStart), nullptr);
}

TEST(FlowTable, FlowIsNotMadeWithoutASlot) {
    HeapSlots slots(1);
    FlowTable table(10, slots);
    ASSERT_NE(table.create(tuple_of(1), base::TrafficClass::LtLd, kStart), nullptr);
    EXPECT_EQ(table.create(tuple_of(2), base::TrafficClass::LtLd, kStart), nullptr);
    EXPECT_EQ(table.limit_hits(), 1U);
    EXPECT_EQ(table.size(), 1U);
    EXPECT_EQ(table.find(tuple_of(2)), nullptr);
}

TEST(FlowTable, AgreesWithAnUnorderedMapUnderRandomUse) {
    base::SeededRandom random(42);
    HeapSlots slots(3000);
    FlowTable table(3000, slots, {.hash_seed = random.u64()});
    std::unordered_map<FiveTuple, Flow*, TupleHash> oracle;
    std::set<uint64_t> ids;
    for (int step = 0; step < 200'000; ++step) {
        const FiveTuple tuple = tuple_of(static_cast<uint32_t>(random.below(5000)));
        Flow* found = table.find(tuple);
        const auto known = oracle.find(tuple);
        ASSERT_EQ(found, known == oracle.end() ? nullptr : known->second);
        if (found != nullptr && random.below(2) == 0) {
            table.erase(*found);
            oracle.erase(known);
        } else if (found == nullptr) {
            Flow* flow = table.create(tuple, base::TrafficClass::LtHd, kStart);
            ASSERT_EQ(flow == nullptr, oracle.size() == 3000);
            if (flow != nullptr) {
                ASSERT_TRUE(ids.insert(flow->id.value()).second);
                oracle.emplace(tuple, flow);
            }
        }
        ASSERT_EQ(table.size(), oracle.size());
    }
    size_t seen = 0;
    table.for_each([&](Flow& flow) {
        ++seen;
        EXPECT_EQ(oracle.at(flow.tuple), &flow);
    });
    EXPECT_EQ(seen, oracle.size());
    EXPECT_EQ(slots.in_use(), oracle.size());
}

TEST(FlowTable, SnapshotInPiecesSeesEachLastingFlowOnceWhileOthersComeAndGo) {
    HeapSlots slots(2000);
    FlowTable table(2000, slots);
    for (uint32_t i = 0; i < 1000; ++i) {
        ASSERT_NE(table.create(tuple_of(i), base::TrafficClass::LtHd, kStart), nullptr);
    }
    std::map<uint16_t, int> seen;
    uint32_t next = 1000;
    for (size_t cursor = 0; cursor != FlowTable::kEnd;) {
        cursor = table.visit(cursor, 37, [&](Flow& flow) { ++seen[flow.tuple.local_port]; });
        table.erase(*table.find(tuple_of(next - 1000)));
        ASSERT_NE(table.create(tuple_of(next++), base::TrafficClass::LtHd, kStart), nullptr);
    }
    for (uint32_t i = next - 1000; i < 1000; ++i) {
        EXPECT_EQ(seen[static_cast<uint16_t>(i)], 1);
    }
}

TEST(FlowTable, VisitorMayEraseTheFlowItSees) {
    HeapSlots slots(300);
    FlowTable table(300, slots);
    for (uint32_t i = 0; i < 300; ++i) {
        ASSERT_NE(table.create(tuple_of(i), base::TrafficClass::LtHd, kStart), nullptr);
    }
    table.for_each([&](Flow& flow) {
        if (flow.tuple.local_port % 2 == 0) {
            table.erase(flow, Cause::SessionEnd);
        }
    });
    EXPECT_EQ(table.size(), 150U);
}

TEST(FlowTable, ReclassifiedFlowCountsInASlotOfItsOwnClassWithItsOwnId) {
    HeapSlots slots(10);
    FlowTable table(10, slots);
    Flow* flow = table.create(tuple_of(1), base::TrafficClass::LtHd, kStart, {3});
    count_packets(flow->counters->counters, Direction::Up, 1, 100, 60);
    ASSERT_TRUE(table.reclassify(*flow, base::TrafficClass::HtHd, kStart + seconds(2)));
    EXPECT_EQ(flow->traffic_class, base::TrafficClass::HtHd);
    EXPECT_EQ(flow->counters->traffic_class, static_cast<uint8_t>(base::TrafficClass::HtHd));
    EXPECT_NE(flow->counters->flow_id, flow->id.value());
    EXPECT_EQ(flow->counters->session_number, 3U);
    EXPECT_EQ(value(flow->counters->counters.inner_up), 0U);
    EXPECT_EQ(value(slots.released_totals(base::TrafficClass::LtHd).inner_up), 100U);
    // The next flow's id is not the one of the new slot.
    Flow* other = table.create(tuple_of(2), base::TrafficClass::LtHd, kStart);
    EXPECT_NE(other->counters->flow_id, flow->counters->flow_id);
}

TEST(FlowTable, AFlowKeepsItsNumberWhateverItsClass) {
    HeapSlots slots(10);
    FlowTable table(10, slots);
    Flow* flow = table.create(tuple_of(1), base::TrafficClass::LtHd, kStart);
    std::set<uint64_t> ids = {flow->counters->flow_id};
    std::set<uint64_t> numbers = {flow_number(flow->counters->flow_id)};
    for (uint64_t i = 0; i <= kMostClassChanges; ++i) {
        EXPECT_EQ(numbers.size(), 1U) << i;
        const auto next = i % 2 == 0 ? base::TrafficClass::HtHd : base::TrafficClass::LtHd;
        ASSERT_TRUE(table.reclassify(*flow, next, kStart));
        EXPECT_TRUE(ids.insert(flow->counters->flow_id).second) << i;
        EXPECT_LT(flow->counters->flow_id, kTunnelFlowIdBase);
        numbers.insert(flow_number(flow->counters->flow_id));
    }
    EXPECT_EQ(numbers.size(), 2U) << "beyond that it goes on as another";
}

TEST(FlowTable, ReclassifyWithoutRoomKeepsTheClass) {
    HeapSlots slots(1);
    FlowTable table(10, slots);
    Flow* flow = table.create(tuple_of(1), base::TrafficClass::LtHd, kStart);
    EXPECT_FALSE(table.reclassify(*flow, base::TrafficClass::HtHd, kStart));
    EXPECT_EQ(flow->traffic_class, base::TrafficClass::LtHd);
    EXPECT_EQ(flow->counters->traffic_class, static_cast<uint8_t>(base::TrafficClass::LtHd));
}

TEST(FlowTable, SlotTimesAreUtcByTheOffset) {
    HeapSlots slots(10);
    FlowTable table(10, slots);
    table.set_utc_offset_us(1'790'000'000'000'000);
    Flow* flow = table.create(tuple_of(3), base::TrafficClass::LtHd, TimePoint(seconds(5)));
    EXPECT_EQ(flow->counters->opened_at_us, 1'790'000'005'000'000);
    packet::PacketSummary summary;
    table.on_packet(*flow, Direction::Down, summary, TimePoint(seconds(7)));
    EXPECT_EQ(flow->counters->last_at_us.load(), 1'790'000'007'000'000);
}

TEST(FlowTable, MemoryOfAFlowIsBelowItsBound) {
    EXPECT_LE(sizeof(Flow) + sizeof(Flow*), 512U);
    RecordProperty("flow_bytes", static_cast<int>(sizeof(Flow)));
}

}  // namespace
}  // namespace continuo::flow
