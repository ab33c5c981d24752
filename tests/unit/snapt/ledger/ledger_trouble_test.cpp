// Ledger: no slots, no room on the disk, a clock that is wrong, a session that nobody knows.
#include "tests/unit/snapt/ledger/accounting_fixture.hpp"

#include <filesystem>
#include <set>

namespace continuo::snapt::ledger {
namespace {

using flow::Cause;
using flow::UsageRecord;
namespace record_flag = flow::record_flag;

TEST_F(LedgerTest, WhenSlotsRunOutFlowsOfASessionAndClassShareOneAndNothingIsLost) {
    auto small = options();
    small.live_slots = 8;
    auto ledger = open(kNoon, small);
    add_session(*ledger, 1, "alice");
    add_session(*ledger, 2, "bob");
    std::set<flow::LiveSlot*> distinct;
    std::vector<flow::LiveSlot*> slots;
    for (uint64_t i = 0; i < 40; ++i) {
        flow::LiveSlot* slot = ledger->live().take(request(i + 1, 1 + i % 2, kNoon));
        ASSERT_NE(slot, nullptr);
        count(*slot, 100, kNoon + 1);
        slots.push_back(slot);
        distinct.insert(slot);
    }
    EXPECT_EQ(distinct.size(), 6U);  // four of their own, one shared for each session
    EXPECT_EQ(ledger->status().shared_flows, 36U);
    for (flow::LiveSlot* slot : slots) {
        ledger->live().release(slot, Cause::Closed);
    }
    ASSERT_TRUE(ledger->tick(kNoon + kSecond));
    EXPECT_EQ(ledger->live().in_use(), 0U);
    int64_t aggregates = 0;
    const auto all = records(1);
    for (const UsageRecord& record : all) {
        aggregates += (record.flags & record_flag::kAggregate) != 0 ? record.pkt_up : 0;
    }
    EXPECT_EQ(aggregates, 36);
    EXPECT_EQ(inner_up(all), 4000);
}

TEST_F(LedgerTest, NoSlotIsGivenWhenNotEvenSharingIsPossible) {
    auto small = options();
    small.live_slots = 2;
    auto ledger = open(kNoon, small);
    ASSERT_NE(ledger->live().take(request(1, 1, kNoon)), nullptr);
    ASSERT_NE(ledger->live().take(request(2, 1, kNoon)), nullptr);
    EXPECT_NE(ledger->live().take(request(3, 1, kNoon)), nullptr);
    EXPECT_EQ(ledger->live().take(request(4, 2, kNoon)), nullptr);
}

TEST_F(LedgerTest, FullDatabaseDelaysRecordsButLosesNone) {
    auto ledger = open(kNoon);
    add_session(*ledger, 1, "alice");
    std::vector<flow::LiveSlot*> slots;
    for (uint64_t i = 1; i <= 200; ++i) {
        slots.push_back(ledger->live().take(request(i, 1, kNoon)));
        count(*slots.back(), 100, kNoon + 1);
    }
    ASSERT_TRUE(ledger->database().execute("PRAGMA max_page_count=1"));
    const auto failed = ledger->tick(kNoon + 60 * kSecond);
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().code, base::Errc::LimitReached);
    EXPECT_EQ(ledger->status().failed_seals, 1U);
    for (flow::LiveSlot* slot : slots) {
        count(*slot, 11, kNoon + 70 * kSecond);
    }
    ledger->live().release(slots[0], Cause::Closed);
    ASSERT_FALSE(ledger->tick(kNoon + 71 * kSecond));
    EXPECT_EQ(ledger->live().in_use(), 200U);
    ASSERT_TRUE(ledger->database().execute("PRAGMA max_page_count=100000"));
    EXPECT_EQ(*ledger->tick(kNoon + 72 * kSecond), 200U);
    const auto all = records(1);
    EXPECT_EQ(inner_up(all), 200 * 111);
    EXPECT_EQ(all[0].flags & record_flag::kLateSeal, record_flag::kLateSeal);
    EXPECT_EQ(ledger->live().in_use(), 199U);
}

TEST_F(LedgerTest, AReserveOfTheDiskIsGivenUpWhenItIsFull) {
    LedgerOptions wanted = options();
    wanted.reserve_bytes = 65'536;
    uint64_t free_bytes = 100'000;
    wanted.free_bytes = [&](const std::string&) { return std::optional(free_bytes); };
    auto ledger = open(kNoon, wanted);
    add_session(*ledger, 1, "alice");
    const auto has_reserve = [this] { return std::filesystem::exists(path(kReserveFileName)); };
    ASSERT_TRUE(ledger->tick(kNoon + kSecond));
    EXPECT_FALSE(has_reserve()) << "there is not as much again beside it";
    free_bytes = 200'000;
    ASSERT_TRUE(ledger->tick(kNoon + 2 * kSecond));
    ASSERT_TRUE(has_reserve());
    EXPECT_EQ(std::filesystem::file_size(path(kReserveFileName)), 65'536U);
    for (uint64_t i = 1; i <= 200; ++i) {
        count(*ledger->live().take(request(i, 1, kNoon)), 100, kNoon + 1);
    }
    free_bytes = 0;
    ASSERT_TRUE(ledger->database().execute("PRAGMA max_page_count=1"));
    EXPECT_FALSE(ledger->tick(kNoon + 60 * kSecond));
    EXPECT_FALSE(has_reserve());
    ASSERT_TRUE(ledger->database().execute("PRAGMA max_page_count=100000"));
    EXPECT_EQ(*ledger->tick(kNoon + 61 * kSecond), 200U);
    EXPECT_FALSE(has_reserve());
    free_bytes = 200'000;
    ASSERT_TRUE(ledger->tick(kNoon + 62 * kSecond));
    EXPECT_TRUE(has_reserve());
    EXPECT_EQ(inner_up(records(1)), 200 * 100);
}

TEST_F(LedgerTest, ClockSetBackSealsAtTheOldTimeAndGoesOnAtTheNew) {
    auto ledger = open(kNoon);
    add_session(*ledger, 1, "alice");
    flow::LiveSlot* slot = ledger->live().take(request(1, 1, kNoon));
    count(*slot, 100, kNoon + 1);
    ASSERT_TRUE(ledger->tick(kNoon + 30 * kSecond));
    const int64_t hour_before = kNoon - 3600 * kSecond;
    EXPECT_EQ(*ledger->tick(hour_before), 1U);
    count(*slot, 200, hour_before + 1);
    EXPECT_EQ(*ledger->tick(hour_before + 60 * kSecond), 1U);
    const auto all = records(1);
    ASSERT_EQ(all.size(), 2U);
    EXPECT_EQ(all[0].t_end, kNoon + 30 * kSecond);
    EXPECT_EQ(all[0].flags & record_flag::kClockStepped, record_flag::kClockStepped);
    EXPECT_EQ(all[1].t_end, hour_before + 60 * kSecond);
    EXPECT_LT(all[1].t_start, all[1].t_end);
    EXPECT_EQ(inner_up(all), 300);
}

TEST_F(LedgerTest, RecordsFromBeforeTheClockWasSynchronisedAreMarked) {
    bool is_synchronised = false;
    LedgerOptions wanted = options();
    wanted.is_clock_synchronised = [&] { return is_synchronised; };
    auto ledger = open(kNoon, wanted);
    add_session(*ledger, 1, "alice");
    flow::LiveSlot* slot = ledger->live().take(request(1, 1, kNoon));
    count(*slot, 100, kNoon + 1);
    is_synchronised = true;
    EXPECT_EQ(*ledger->seal_now(kNoon + 2), 1U);
    count(*slot, 100, kNoon + 3);
    EXPECT_EQ(*ledger->tick(kNoon + 60 * kSecond), 1U);
    is_synchronised = false;  // for a moment
    count(*slot, 100, kNoon + 61 * kSecond);
    EXPECT_EQ(*ledger->seal_now(kNoon + 62 * kSecond), 1U);
    const auto all = records(1);
    ASSERT_EQ(all.size(), 3U);
    EXPECT_EQ(all[0].flags & record_flag::kClockUnsynced, record_flag::kClockUnsynced);
    EXPECT_EQ(all[1].flags & record_flag::kClockUnsynced, record_flag::kClockUnsynced);
    EXPECT_EQ(all[2].flags & record_flag::kClockUnsynced, 0U);
}

TEST_F(LedgerTest, RecordOfAnUnknownSessionIsKeptAndCounted) {
    auto ledger = open(kNoon);
    flow::LiveSlot* slot = ledger->live().take(request(1, 5, kNoon));
    count(*slot, 100, kNoon + 1);
    EXPECT_EQ(*ledger->seal_now(kNoon + 2), 1U);
    EXPECT_EQ(records(1)[0].user_id, "?");
    EXPECT_EQ(ledger->status().orphan_records, 1U);
}

TEST_F(LedgerTest, WhatSlotsHaveCountedGrowsWithOpenAndClosedOnes) {
    auto ledger = open(kNoon);
    add_session(*ledger, 1, "alice");
    const auto counted = [&](base::TrafficClass traffic_class) {
        return ledger->status().counted[base::index_of(traffic_class)].inner_up;
    };
    flow::SlotRequest calls = request(2, 1, kNoon);
    calls.traffic_class = base::TrafficClass::HtLd;
    flow::LiveSlot* bulk = ledger->live().take(request(1, 1, kNoon));
    flow::LiveSlot* call = ledger->live().take(calls);
    count(*bulk, 100, kNoon + 1);
    count(*call, 1000, kNoon + 1);
    ASSERT_TRUE(ledger->tick(kNoon + kSecond));
    EXPECT_EQ(counted(base::TrafficClass::LtHd), 100U);
    EXPECT_EQ(counted(base::TrafficClass::HtLd), 1000U);
    count(*call, 1000, kNoon + 2);
    ledger->live().release(call, Cause::Closed);
    ASSERT_TRUE(ledger->tick(kNoon + 2 * kSecond));
    EXPECT_EQ(counted(base::TrafficClass::HtLd), 2000U);
    count(*bulk, 11, kNoon + 3);
    ASSERT_TRUE(ledger->tick(kNoon + 60 * kSecond));
    EXPECT_EQ(counted(base::TrafficClass::LtHd), 111U) << "sealed or not";
    EXPECT_EQ(counted(base::TrafficClass::HtLd), 2000U) << "its slot is free again";
    const CommitTimes& commits = ledger->status().commits;
    EXPECT_GE(commits.count, 3U) << "the session, two seals";
    EXPECT_GE(commits.within.back(), commits.within.front());
    EXPECT_LE(commits.within.back(), commits.count);
}

}  // namespace
}  // namespace continuo::snapt::ledger
