// Limits of one user's records and slots, and of a disk that is nearly full: sums stay the same to
// the byte, whatever shares a record.
#include "common/base/random.hpp"
#include "tests/unit/snapt/ledger/accounting_fixture.hpp"

#include <set>

namespace continuo::snapt::ledger {
namespace {

using base::TrafficClass;
using flow::Cause;
using flow::UsageRecord;
namespace record_flag = flow::record_flag;

// All that is summed.
struct Sums {
    int64_t pay_up = 0;
    int64_t inner_up = 0;
    int64_t packets = 0;
    int64_t pre = 0;
    int64_t post = 0;
    bool operator==(const Sums&) const = default;
};

class MergeTest : public LedgerTest {
  protected:
    MergeTest() {
        bounded = options();
        bounded.user_records = 10;
        bounded.live_slots = 4096;
    }
    // A flow of 1000 bytes that has ended.
    void pass_by(Ledger& ledger, uint32_t session, TrafficClass traffic_class, int64_t at_us) {
        auto wanted = request(next_id++, session, at_us);
        wanted.traffic_class = traffic_class;
        flow::LiveSlot* slot = ledger.live().take(wanted);
        ASSERT_NE(slot, nullptr);
        count(*slot, 1000, at_us);
        ledger.live().release(slot, Cause::Closed);
        note(session, 1000);
    }
    // More traffic of an open flow.
    void go_on(flow::LiveSlot& slot, uint64_t bytes, int64_t at_us) {
        count(slot, bytes, at_us);
        note(slot.session_number, bytes);
    }
    void note(uint32_t session, uint64_t bytes) {
        Sums& sums = counted[session];
        sums.inner_up += static_cast<int64_t>(bytes);
        sums.pay_up += static_cast<int64_t>(bytes) - 40;
        sums.packets += 1;
        sums.pre += static_cast<int64_t>(bytes);
        sums.post += static_cast<int64_t>(bytes / 2);
    }
    static std::map<uint32_t, Sums> sums_of(const std::vector<UsageRecord>& records) {
        std::map<uint32_t, Sums> all;
        for (const UsageRecord& record : records) {
            Sums& sums = all[record.session_id[0]];
            sums.pay_up += record.pay_up;
            sums.inner_up += record.inner_up;
            sums.packets += record.pkt_up;
            sums.pre += record.pre;
            sums.post += record.post;
        }
        return all;
    }
    static std::vector<UsageRecord> of_user(std::vector<UsageRecord> records,
                                            const std::string& user) {
        std::erase_if(records, [&](const UsageRecord& record) { return record.user_id != user; });
        return records;
    }
    static size_t merged(const std::vector<UsageRecord>& records) {
        return static_cast<size_t>(
            std::count_if(records.begin(), records.end(), [](const UsageRecord& record) {
                return (record.flags & record_flag::kAggregate) != 0;
            }));
    }

    LedgerOptions bounded;
    uint64_t next_id = 1;
    std::map<uint32_t, Sums> counted;  // by session
};

TEST_F(MergeTest, ShortFlowsBeyondTheBoundShareOneRecordAClassAndNothingIsLost) {
    auto ledger = open(kNoon, bounded);
    add_session(*ledger, 1, "alice");
    add_session(*ledger, 2, "alice");
    add_session(*ledger, 3, "bob");
    for (int64_t second = 1; second <= 180; ++second) {
        const int64_t now = kNoon + second * kSecond;
        for (int i = 0; i < 20; ++i) {
            pass_by(*ledger, 1 + static_cast<uint32_t>(i) % 2,
                    i % 4 < 2 ? TrafficClass::LtLd : TrafficClass::HtHd, now - 10);
        }
        if (second % 20 == 0) {
            pass_by(*ledger, 3, TrafficClass::HtHd, now - 5);
        }
        ASSERT_TRUE(ledger->tick(now));
    }
    EXPECT_EQ(ledger->status().merged_flows, 3600U - 30U);
    ASSERT_TRUE(ledger->stop(kNoon + 180 * kSecond, Cause::Admin));
    ledger.reset();
    const auto all = records(1);
    EXPECT_EQ(sums_of(all), counted);
    // Ten of their own in an interval, and one for each class of two sessions.
    EXPECT_EQ(of_user(all, "alice").size(), 3U * (10 + 4));
    EXPECT_EQ(merged(of_user(all, "alice")), 3U * 4);
    EXPECT_EQ(of_user(all, "bob").size(), 9U);
    EXPECT_EQ(merged(of_user(all, "bob")), 0U) << "another user's affair";
    for (const UsageRecord& record : all) {
        EXPECT_LT(record.t_start, record.t_end);
        EXPECT_EQ(record.t_start / (60 * kSecond), (record.t_end - 1) / (60 * kSecond));
    }
    EXPECT_EQ(number("SELECT count(*) FROM open_flow"), 0);
    EXPECT_EQ(number("SELECT count(*) FROM open_session"), 0);
}

TEST_F(MergeTest, AggregateHasOneRecordASessionAndClass) {
    bounded.is_aggregate = true;
    bounded.user_records = 0;
    auto ledger = open(kNoon, bounded);
    add_session(*ledger, 1, "alice");
    add_session(*ledger, 2, "bob");
    flow::LiveSlot* const open_flow = ledger->live().take(request(next_id++, 2, kNoon));
    for (int64_t second = 1; second <= 120; ++second) {
        const int64_t now = kNoon + second * kSecond;
        pass_by(*ledger, 1, TrafficClass::LtLd, now - 10);
        pass_by(*ledger, 1, TrafficClass::HtHd, now - 10);
        go_on(*open_flow, 500, now - 10);
        ASSERT_TRUE(ledger->tick(now));
    }
    EXPECT_FALSE(ledger->status().is_coarse);
    ASSERT_TRUE(ledger->stop(kNoon + 120 * kSecond, Cause::Admin));
    ledger.reset();
    const auto all = records(1);
    EXPECT_EQ(sums_of(all), counted);
    EXPECT_EQ(of_user(all, "alice").size(), 2U * 2);
    EXPECT_EQ(of_user(all, "bob").size(), 2U);
    EXPECT_EQ(merged(all), all.size());
}

// The price goes by the rate of all together, however many they are.
TEST_F(MergeTest, FlowsAtTheSameTimeAreNoLongerActiveThanTheTimeThatPassed) {
    bounded.is_aggregate = true;
    auto ledger = open(kNoon, bounded);
    add_session(*ledger, 1, "alice");
    std::vector<flow::LiveSlot*> slots;
    for (int i = 0; i < 3; ++i) {
        slots.push_back(ledger->live().take(request(next_id++, 1, kNoon)));
        flow::add(slots.back()->counters.active_us, 45 * kSecond);
        go_on(*slots.back(), 500, kNoon + 50 * kSecond);
    }
    ASSERT_TRUE(ledger->stop(kNoon + 60 * kSecond, Cause::Admin));
    ledger.reset();
    const auto all = records(1);
    ASSERT_EQ(all.size(), 1U);
    EXPECT_EQ(all.front().active_us, 60 * kSecond);
}

TEST_F(MergeTest, OpenFlowsBeyondTheBoundShareTooHoweverOftenTheirUserAsks) {
    auto ledger = open(kNoon, bounded);
    add_session(*ledger, 1, "alice");
    std::vector<flow::LiveSlot*> slots;
    for (int i = 0; i < 100; ++i) {
        slots.push_back(ledger->live().take(request(next_id++, 1, kNoon)));
    }
    for (int64_t tenth = 1; tenth <= 1200; ++tenth) {
        const int64_t now = kNoon + tenth * kSecond / 10;
        for (flow::LiveSlot* slot : slots) {
            go_on(*slot, 100 + static_cast<uint64_t>(tenth), now);
        }
        if (tenth % 10 == 0) {
            ASSERT_TRUE(ledger->tick(now));
        }
        ASSERT_TRUE(ledger->seal_for({"alice"}, now));
    }
    EXPECT_LE(records(1).size(), 2U * 11 + 10);
    ASSERT_TRUE(ledger->stop(kNoon + 121 * kSecond, Cause::Admin));
    ledger.reset();
    EXPECT_EQ(sums_of(records(1)), counted);
}

TEST_F(MergeTest, TheOperatorSeesWhatIsMergedAtOnce) {
    auto ledger = open(kNoon, bounded);
    add_session(*ledger, 1, "alice");
    for (int i = 0; i < 15; ++i) {
        pass_by(*ledger, 1, TrafficClass::LtLd, kNoon + 1);
    }
    ASSERT_TRUE(ledger->tick(kNoon + kSecond));
    EXPECT_EQ(inner_up(records(1)), 10'000);
    ASSERT_TRUE(ledger->seal_now(kNoon + 2 * kSecond));
    EXPECT_EQ(sums_of(records(1)), counted);
}

TEST_F(MergeTest, ACommitThatFailsMergesNothingTwice) {
    auto ledger = open(kNoon, bounded);
    add_session(*ledger, 1, "alice");
    for (int64_t second = 1; second <= 30; ++second) {
        for (int i = 0; i < 40; ++i) {
            pass_by(*ledger, 1, TrafficClass::LtLd, kNoon + second * kSecond - 1);
        }
        const bool is_full = second % 3 == 1;
        ASSERT_TRUE(ledger->database().execute(is_full ? "PRAGMA max_page_count=1"
                                                       : "PRAGMA max_page_count=100000"));
        static_cast<void>(ledger->tick(kNoon + second * kSecond));
    }
    EXPECT_GT(ledger->status().failed_seals, 0U);
    ASSERT_TRUE(ledger->stop(kNoon + 31 * kSecond, Cause::Admin));
    ledger.reset();
    EXPECT_EQ(sums_of(records(1)), counted);
}

// The machine has stopped: what was committed is all there is, and all of it is there.
TEST_F(MergeTest, WhatWasMergedIsRecoveredAfterAPowerLossAndAfterACrash) {
    for (const char* boot_id : {"boot-b", "boot-a"}) {
        SCOPED_TRACE(boot_id);
        int64_t epoch = 0;
        counted.clear();
        {
            auto ledger = open(kNoon, bounded);
            epoch = ledger->status().epoch;
            add_session(*ledger, 1, "alice");
            for (int i = 0; i < 50; ++i) {
                pass_by(*ledger, 1, i % 2 == 0 ? TrafficClass::LtLd : TrafficClass::HtLd,
                        kNoon + 1);
            }
            ASSERT_TRUE(ledger->tick(kNoon + kSecond));
            EXPECT_EQ(records(epoch).size(), 10U);
        }
        auto rebooted = bounded;
        rebooted.boot_id = boot_id;
        auto ledger = open(kNoon + 2 * kSecond, rebooted);
        EXPECT_EQ(ledger->status().recovered_records, 2U);
        const auto all = records(epoch);
        EXPECT_EQ(sums_of(all), counted);
        EXPECT_EQ(of_user(all, "alice").size(), 12U);
        EXPECT_EQ(merged(all), 2U);
    }
}

TEST_F(MergeTest, NearlyFullDiskMergesAllFlowsBeforeAnythingIsRefused) {
    uint64_t free_bytes = 300;
    bounded.user_records = 0;
    bounded.min_free_bytes = 200;
    bounded.free_bytes = [&](const std::string& folder) {
        EXPECT_EQ(folder, folder_);
        return std::optional(free_bytes);
    };
    auto ledger = open(kNoon, bounded);
    add_session(*ledger, 1, "alice");
    add_session(*ledger, 2, "bob");
    const auto a_minute = [&](int64_t minute) {
        for (int64_t second = 1; second <= 60; ++second) {
            const int64_t now = kNoon + (60 * minute + second) * kSecond;
            pass_by(*ledger, 1, TrafficClass::LtLd, now - 1);
            pass_by(*ledger, 2, TrafficClass::HtHd, now - 1);
            ASSERT_TRUE(ledger->tick(now));
        }
    };
    a_minute(0);
    EXPECT_EQ(records(1).size(), 120U);
    free_bytes = 199;
    a_minute(1);
    EXPECT_EQ(records(1).size(), 122U);
    EXPECT_TRUE(ledger->status().is_coarse);
    EXPECT_EQ(ledger->status().free_bytes, 199U);
    EXPECT_EQ(number("SELECT count(*) FROM event WHERE kind='disk_low'"), 1);
    free_bytes = 249;  // not enough to begin anew
    a_minute(2);
    EXPECT_EQ(records(1).size(), 124U);
    free_bytes = 250;
    a_minute(3);
    EXPECT_FALSE(ledger->status().is_coarse);
    EXPECT_EQ(records(1).size(), 244U);
    EXPECT_EQ(sums_of(records(1)), counted);
}

TEST_F(MergeTest, FreeDiskIsThatOfTheFolder) {
    EXPECT_GT(free_disk_bytes(folder_).value_or(0), 0U);
    EXPECT_FALSE(free_disk_bytes(folder_ + "/nowhere"));
}

TEST_F(MergeTest, AUserHasItsShareOfTheSlotsAndTheOthersHaveTheirs) {
    bounded.live_slots = 128;
    bounded.user_slots = 16;
    auto ledger = open(kNoon, bounded);
    add_session(*ledger, 1, "alice");
    add_session(*ledger, 2, "alice");
    add_session(*ledger, 3, "bob");
    std::set<flow::LiveSlot*> of_alice;
    std::vector<flow::LiveSlot*> slots;
    for (uint32_t i = 0; i < 1000; ++i) {
        slots.push_back(ledger->live().take(request(next_id++, 1 + i % 2, kNoon)));
        go_on(*slots.back(), 100, kNoon + 1);
        of_alice.insert(slots.back());
    }
    EXPECT_EQ(of_alice.size(), 16U + 2);
    std::set<flow::LiveSlot*> of_bob;
    for (uint32_t i = 0; i < 16; ++i) {
        of_bob.insert(ledger->live().take(request(next_id++, 3, kNoon)));
    }
    EXPECT_EQ(of_bob.size(), 16U);
    for (flow::LiveSlot* slot : slots) {
        ledger->live().release(slot, Cause::Closed);
    }
    ASSERT_TRUE(ledger->tick(kNoon + kSecond));
    EXPECT_EQ(ledger->live().in_use(), 16U) << "bob's";
    of_alice.clear();
    for (uint32_t i = 0; i < 16; ++i) {
        of_alice.insert(ledger->live().take(request(next_id++, 1, kNoon + kSecond)));
    }
    EXPECT_EQ(of_alice.size(), 16U) << "what was given back it has again";
    ASSERT_TRUE(ledger->seal_now(kNoon + 2 * kSecond));
    EXPECT_EQ(inner_up(of_user(records(1), "alice")), 100'000);
}

// A flow whose class changes with every packet, and one that ends with every packet.
TEST_F(MergeTest, FlowsThatComeAndGoTakeFewSlotsUntilTheLedgerHasSeenThem) {
    bounded.live_slots = 100'000;
    auto ledger = open(kNoon, bounded);
    add_session(*ledger, 1, "alice");
    constexpr uint32_t kChanges = 40'000;
    for (uint32_t i = 0; i < kChanges; ++i) {
        pass_by(*ledger, 1, i % 2 == 0 ? TrafficClass::LtLd : TrafficClass::HtHd, kNoon + 1);
    }
    EXPECT_LE(ledger->live().in_use(), kMaxUnsealedSlots + 2);
    ASSERT_TRUE(ledger->tick(kNoon + kSecond));
    EXPECT_EQ(ledger->live().in_use(), 0U);
    ASSERT_TRUE(ledger->stop(kNoon + 2 * kSecond, Cause::Admin));
    ledger.reset();
    EXPECT_EQ(sums_of(records(1)), counted);
    EXPECT_EQ(records(1).size(), 12U);
}

TEST_F(MergeTest, ManyUsersAndIntervalsInAnyOrderAddUp) {
    base::SeededRandom random(3);
    bounded.user_records = 3;
    bounded.user_slots = 20;
    bounded.live_slots = 200;
    auto ledger = open(kNoon, bounded);
    for (uint32_t session = 1; session <= 6; ++session) {
        add_session(*ledger, session, "user" + std::to_string(session % 3));
    }
    std::vector<flow::LiveSlot*> open_flows;
    int64_t now = kNoon;
    for (int step = 0; step < 3000; ++step) {
        now += static_cast<int64_t>(random.below(300'000));
        const auto session = static_cast<uint32_t>(1 + random.below(6));
        switch (random.below(8)) {
        case 0:
            static_cast<void>(ledger->seal_for({"user" + std::to_string(random.below(3))}, now));
            break;
        case 1:
            ASSERT_TRUE(ledger->tick(now));
            break;
        case 2:
            if (!open_flows.empty()) {
                std::swap(open_flows[random.below(open_flows.size())], open_flows.back());
                ledger->live().release(open_flows.back(), Cause::Idle);
                open_flows.pop_back();
            }
            break;
        case 3:
            open_flows.push_back(ledger->live().take(request(next_id++, session, now)));
            ASSERT_NE(open_flows.back(), nullptr);
            break;
        case 4:
            pass_by(*ledger, session, TrafficClass::LtHd, now);
            break;
        default:
            if (!open_flows.empty()) {
                go_on(*open_flows[random.below(open_flows.size())], 40 + random.below(1460), now);
            }
        }
    }
    ASSERT_TRUE(ledger->stop(now + kSecond, Cause::Admin));
    ledger.reset();
    const auto all = records(1);
    EXPECT_EQ(sums_of(all), counted);
    for (size_t i = 0; i < all.size(); ++i) {
        ASSERT_EQ(all[i].seq, static_cast<int64_t>(i));
    }
}

}  // namespace
}  // namespace continuo::snapt::ledger
