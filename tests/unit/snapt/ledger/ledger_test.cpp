#include "common/base/random.hpp"
#include "snapt/ledger/ledger.hpp"
#include "snapt/ledger/usage.hpp"
#include "tests/unit/snapt/ledger/accounting_fixture.hpp"

namespace continuo::snapt::ledger {
namespace {

using flow::Cause;
using flow::UsageRecord;
namespace record_flag = flow::record_flag;

TEST_F(LedgerTest, TotalsOfManySealedIntervalsEqualTheCounters) {
    base::SeededRandom random(5);
    auto ledger = open(kNoon);
    std::map<std::string, int64_t> counted;
    for (uint32_t session = 1; session <= 3; ++session) {
        add_session(*ledger, session, "user" + std::to_string(session));
    }
    struct Live {
        flow::LiveSlot* slot;
        std::string user;
    };
    std::vector<Live> flows;
    uint64_t next_id = 1;
    for (int64_t second = 1; second <= 900; ++second) {
        const int64_t now = kNoon + second * kSecond + static_cast<int64_t>(random.below(50'000));
        if (random.below(3) == 0 && flows.size() < 100) {
            const auto session = static_cast<uint32_t>(1 + random.below(3));
            flow::LiveSlot* slot = ledger->live().take(request(next_id++, session, now));
            ASSERT_NE(slot, nullptr);
            flows.push_back({slot, "user" + std::to_string(session)});
        }
        for (Live& live : flows) {
            if (random.below(4) == 0) {
                const uint64_t bytes = 40 + random.below(1460);
                count(*live.slot, bytes, now);
                counted[live.user] += static_cast<int64_t>(bytes);
            }
        }
        if (random.below(5) == 0 && !flows.empty()) {
            std::swap(flows[random.below(flows.size())], flows.back());
            ledger->live().release(flows.back().slot, Cause::Closed);
            flows.pop_back();
        }
        ASSERT_TRUE(ledger->tick(now));
    }
    ASSERT_TRUE(ledger->stop(kNoon + 901 * kSecond, Cause::Admin));
    ledger.reset();

    std::map<std::string, int64_t> recorded;
    std::map<int64_t, int> firsts;
    std::map<int64_t, int> lasts;
    const auto all = records(1);
    for (size_t i = 0; i < all.size(); ++i) {
        const UsageRecord& record = all[i];
        EXPECT_EQ(record.seq, static_cast<int64_t>(i));
        recorded[record.user_id] += record.inner_up;
        EXPECT_EQ(record.pay_up, record.inner_up - 40 * record.pkt_up);
        EXPECT_EQ(record.pre, record.inner_up);
        EXPECT_LT(record.t_start, record.t_end);
        EXPECT_EQ(record.t_start / (60 * kSecond), (record.t_end - 1) / (60 * kSecond));
        firsts[record.flow_id] += (record.flags & record_flag::kFirst) != 0 ? 1 : 0;
        lasts[record.flow_id] += (record.flags & record_flag::kLast) != 0 ? 1 : 0;
    }
    EXPECT_EQ(recorded, counted);
    EXPECT_GT(all.size(), 300U);
    for (const auto& [flow_id, count] : firsts) {
        EXPECT_EQ(count, 1);
        EXPECT_LE(lasts[flow_id], 1);
    }
}

TEST_F(LedgerTest, EachStartIsAnEpochWithSequenceFromZeroAndRepeatsNothing) {
    for (int64_t epoch = 1; epoch <= 3; ++epoch) {
        auto ledger = open(kNoon);
        EXPECT_EQ(ledger->status().epoch, epoch);
        add_session(*ledger, 1, "alice");
        flow::LiveSlot* slot = ledger->live().take(request(1, 1, kNoon));
        count(*slot, 100, kNoon + 1);
        EXPECT_EQ(*ledger->stop(kNoon + kSecond, Cause::Admin), 1U);
        ledger.reset();
        const auto all = records(epoch);
        ASSERT_EQ(all.size(), 1U);
        EXPECT_EQ(all[0].seq, 0);
        EXPECT_EQ(all[0].cause, Cause::Admin);
        EXPECT_EQ(all[0].flags & record_flag::kLast, record_flag::kLast);
    }
    EXPECT_EQ(number("SELECT count(*) FROM usage_record"), 3);
    EXPECT_EQ(number("SELECT count(*) FROM open_session"), 0);
}

// Those to the node have waited here, too.
TEST_F(LedgerTest, TheDelayOfPacketsDownHasTheQueue) {
    auto ledger = open(kNoon);
    add_session(*ledger, 9, "alice");
    flow::LiveSlot* slot = ledger->live().take(request(77, 9, kNoon + 5 * kSecond));
    flow::count_packets(slot->counters, flow::Direction::Down, 1, 1000, 960);
    flow::count_delay(slot->counters, 3000, 600, 1);
    slot->last_at_us.store(kNoon + 7 * kSecond, std::memory_order_relaxed);
    ledger->live().release(slot, Cause::Idle);
    EXPECT_EQ(*ledger->tick(kNoon + 8 * kSecond), 1U);
    EXPECT_EQ(records(1).at(0).delay_src, flow::delay_source::kTunnel | flow::delay_source::kQueue);
}

TEST_F(LedgerTest, RecordSaysWhoWhatAndWhy) {
    auto with_destinations = options();
    with_destinations.destinations = settings::Destinations::Full;
    auto ledger = open(kNoon, with_destinations);
    add_session(*ledger, 9, "alice");
    ledger->name_app(9, 4, "ssh");
    auto wanted = request(77, 9, kNoon + 5 * kSecond);
    wanted.traffic_class = base::TrafficClass::HtLd;
    wanted.app = 4;
    flow::LiveSlot* slot = ledger->live().take(wanted);
    count(*slot, 1000, kNoon + 7 * kSecond);
    flow::count_delay(slot->counters, 3000, 600, 2);
    flow::count_delay(slot->counters, 6000, 300, 1);
    flow::add(slot->counters.active_us, 1234);
    ledger->live().release(slot, Cause::Idle);
    EXPECT_EQ(*ledger->tick(kNoon + 8 * kSecond), 1U);
    const auto all = records(1);
    ASSERT_EQ(all.size(), 1U);
    const UsageRecord& record = all[0];
    EXPECT_EQ(record.snapt_id, "zrh-1");
    EXPECT_EQ(record.user_id, "alice");
    EXPECT_EQ(record.cnapt_id, "alice-laptop");
    EXPECT_EQ(record.session_id[0], 9);
    EXPECT_EQ(record.flow_id, 77);
    EXPECT_EQ(record.cls, 1);
    EXPECT_EQ(record.proto, 6);
    EXPECT_EQ(record.app, "ssh");
    EXPECT_EQ(record.dport, 443);
    EXPECT_EQ(record.dst, "198.51.100.2");
    EXPECT_EQ(record.t_start, kNoon + 5 * kSecond);
    EXPECT_EQ(record.t_end, kNoon + 7 * kSecond);
    EXPECT_EQ(record.active_us, 1234);
    EXPECT_EQ(record.post, 500);
    EXPECT_EQ(record.delay_us, 4000);
    EXPECT_EQ(record.jitter_us, 500);
    EXPECT_FALSE(record.lost_pkts) << "nobody counts them";
    EXPECT_EQ(record.delay_max_us, 6000);
    EXPECT_EQ(record.delay_src, flow::delay_source::kTunnel);
    EXPECT_EQ(record.cause, Cause::Idle);
    EXPECT_EQ(record.flags, record_flag::kFirst | record_flag::kLast | record_flag::kHasAccount |
                                record_flag::kLossUnknown);
}

TEST_F(LedgerTest, ANameThatFindsNoRoomIsToldAgainAndIsNoEmptyOneMeanwhile) {
    auto ledger = open(kNoon);
    constexpr uint32_t kSessions = kMaxPendingApps / kMaxAppsPerSession;
    for (uint32_t session = 1; session <= kSessions + 1; ++session) {
        add_session(*ledger, session, "alice");
    }
    for (uint32_t i = 0; i < kMaxPendingApps; ++i) {
        ledger->name_app(1 + i % kSessions, static_cast<uint16_t>(1 + i / kSessions), "app");
    }
    const uint32_t session = kSessions + 1;
    uint64_t flow = 1;
    const auto record_app = [&](int64_t at_us) {
        auto wanted = request(flow++, session, at_us);
        wanted.app = 7;
        flow::LiveSlot* slot = ledger->live().take(wanted);
        count(*slot, 1000, at_us + 1);
        ledger->live().release(slot, Cause::Idle);
        EXPECT_EQ(*ledger->tick(at_us + 2), 1U);
        return records(1).back().app;
    };
    ledger->name_app(session, 7, "ssh");
    EXPECT_EQ(record_app(kNoon + kSecond), std::nullopt);
    ledger->name_app(session, 7, "ssh");
    EXPECT_EQ(record_app(kNoon + 2 * kSecond), "ssh");
}

TEST_F(LedgerTest, NoTrafficMakesNoRecordAndGivesTheSlotBack) {
    auto ledger = open(kNoon);
    add_session(*ledger, 1, "alice");
    flow::LiveSlot* slot = ledger->live().take(request(1, 1, kNoon));
    EXPECT_EQ(*ledger->tick(kNoon + 61 * kSecond), 0U);
    count(*slot, 100, kNoon + 62 * kSecond);
    EXPECT_EQ(*ledger->tick(kNoon + 121 * kSecond), 1U);
    EXPECT_EQ(*ledger->tick(kNoon + 181 * kSecond), 0U);
    ledger->live().release(slot, Cause::Closed);
    EXPECT_EQ(ledger->live().in_use(), 1U);
    EXPECT_EQ(*ledger->tick(kNoon + 182 * kSecond), 0U);
    EXPECT_EQ(ledger->live().in_use(), 0U);
    EXPECT_EQ(*ledger->tick(kNoon + 183 * kSecond), 0U);
    EXPECT_EQ(number("SELECT count(*) FROM open_flow"), 0);
}

TEST_F(LedgerTest, FlowThatBeganBehindTheBoundaryIsLeftToTheNextInterval) {
    auto ledger = open(kNoon);
    add_session(*ledger, 1, "alice");
    const int64_t boundary = kNoon + 60 * kSecond;
    flow::LiveSlot* slot = ledger->live().take(request(1, 1, boundary + 10));
    count(*slot, 100, boundary + 20);
    EXPECT_EQ(*ledger->tick(boundary + 100), 0U);
    EXPECT_EQ(*ledger->seal_now(boundary + 200), 1U);
    EXPECT_EQ(records(1)[0].t_start, boundary + 10);
}

TEST_F(LedgerTest, FlowThatClosedJustBehindTheBoundaryDoesNotCrossIt) {
    auto ledger = open(kNoon);
    add_session(*ledger, 1, "alice");
    const int64_t boundary = kNoon + 60 * kSecond;
    flow::LiveSlot* slot = ledger->live().take(request(1, 1, kNoon + 50 * kSecond));
    count(*slot, 100, boundary + 300);
    ledger->live().release(slot, Cause::Closed);
    EXPECT_EQ(*ledger->tick(boundary + 1000), 1U);
    EXPECT_EQ(records(1)[0].t_end, boundary);
}

TEST_F(LedgerTest, SealNowMakesEverythingVisibleAtOnce) {
    auto ledger = open(kNoon);
    add_session(*ledger, 1, "alice");
    flow::LiveSlot* slot = ledger->live().take(request(1, 1, kNoon + 5));
    count(*slot, 100, kNoon + 5);
    EXPECT_EQ(*ledger->seal_now(kNoon + 5), 1U);
    count(*slot, 200, kNoon + 6);
    EXPECT_EQ(*ledger->seal_now(kNoon + 10), 1U);
    EXPECT_EQ(*ledger->seal_now(kNoon + 11), 0U);
    EXPECT_EQ(inner_up(records(1)), 300);
}

// However often a node asks, the others' flows are recorded by the interval only.
TEST_F(LedgerTest, WhatAUserAsksSealsItsOwnFlowsAndNotAllTheTime) {
    auto ledger = open(kNoon);
    add_session(*ledger, 1, "alice");
    add_session(*ledger, 2, "bob");
    flow::LiveSlot* of_alice = ledger->live().take(request(1, 1, kNoon + 5));
    flow::LiveSlot* of_bob = ledger->live().take(request(2, 2, kNoon + 5));
    count(*of_alice, 100, kNoon + 5);
    count(*of_bob, 1000, kNoon + 5);
    EXPECT_EQ(*ledger->seal_for({"alice"}, kNoon + 5), 1U);
    EXPECT_EQ(inner_up(records(1)), 100);
    count(*of_alice, 100, kNoon + 6);
    EXPECT_EQ(*ledger->seal_for({"alice"}, kNoon + 6), 0U) << "it has asked a moment before";
    EXPECT_EQ(*ledger->seal_for({"alice"}, kNoon + 5 + kUserSealIntervalUs), 1U);
    EXPECT_EQ(inner_up(records(1)), 200);
    EXPECT_EQ(*ledger->seal_for({"bob"}, kNoon + 6 + kUserSealIntervalUs), 1U);
    EXPECT_EQ(inner_up(records(1)), 1200);
}

TEST_F(LedgerTest, SessionRowGoesWhenItsLastFlowIsSealedAndLeavesItsOverhead) {
    auto ledger = open(kNoon);
    add_session(*ledger, 1, "alice");
    flow::LiveSlot* slot = ledger->live().take(request(1, 1, kNoon));
    count(*slot, 100, kNoon + 1);
    ledger->close_session(1, {111, 222}, kNoon + 2);
    ASSERT_TRUE(ledger->tick(kNoon + kSecond));
    EXPECT_EQ(number("SELECT count(*) FROM open_session"), 1);
    ledger->live().release(slot, Cause::SessionEnd);
    ASSERT_TRUE(ledger->tick(kNoon + 2 * kSecond));
    EXPECT_EQ(number("SELECT count(*) FROM open_session"), 0);
    EXPECT_EQ(number("SELECT tun_up*1000+tun_down FROM session_record WHERE user_id='alice'"),
              111222);
    EXPECT_EQ(records(1)[0].user_id, "alice");
    EXPECT_EQ(ledger->status().orphan_records, 0U);
}

TEST_F(LedgerTest, CountersBeyondFourGigabytesAreExact) {
    auto ledger = open(kNoon);
    add_session(*ledger, 1, "alice");
    flow::LiveSlot* slot = ledger->live().take(request(1, 1, kNoon));
    count(*slot, (uint64_t{1} << 32) - 1, kNoon + 1);
    ASSERT_TRUE(ledger->seal_now(kNoon + 2));
    count(*slot, (uint64_t{1} << 33) + 5, kNoon + 3);
    ASSERT_TRUE(ledger->seal_now(kNoon + 4));
    EXPECT_EQ(inner_up(records(1)), (int64_t{1} << 32) + (int64_t{1} << 33) + 4);
}

TEST_F(LedgerTest, CanonicalTextIsDecimalFieldsInOrderWithEmptyUnknowns) {
    UsageRecord record;
    record.snapt_id = "zrh-1";
    record.epoch = 7;
    record.seq = 12;
    record.user_id = "alice";
    record.session_id[15] = 0xAB;
    record.cnapt_id = "laptop";
    record.post = -1;
    record.cause = Cause::Idle;
    record.flags = 33;
    EXPECT_EQ(
        canonical_text(record),
        "zrh-1|7|12|alice|000000000000000000000000000000ab|laptop||0|0|0||||0|0|0|0|0|0|0|0|0|0|"
        "-1|||||0||2|33");
    record.account_id = 9;
    EXPECT_TRUE(canonical_text(record).ends_with("|2|33")) << "of a version without accounts";
    record.flags |= record_flag::kHasAccount;
    EXPECT_TRUE(canonical_text(record).ends_with("|2|289|9"));
    record.undelivered = 0;
    EXPECT_TRUE(canonical_text(record).ends_with("|2|289|9|0"));
    record.tun_up = 5;
    record.tun_down = 6;
    EXPECT_TRUE(canonical_text(record).ends_with("|2|289|9|0|5|6"));
}

TEST_F(LedgerTest, WhatWasNotDeliveredHasAColumnOfItsOwn) {
    auto ledger = open(kNoon);
    add_session(*ledger, 1, "alice");
    flow::LiveSlot* const slot = ledger->live().take(request(1, 1, kNoon));
    count(*slot, 100, kNoon + 1);
    flow::add(slot->counters.undelivered_down, 5000);
    ASSERT_TRUE(ledger->seal_now(kNoon + 2));
    flow::add(slot->counters.undelivered_down, 70);  // and nothing else
    ASSERT_TRUE(ledger->seal_now(kNoon + 3));
    const auto all = records(1);
    ASSERT_EQ(all.size(), 2U);
    EXPECT_EQ(all[0].undelivered, 5000);
    EXPECT_EQ(all[0].inner_down, 0);
    EXPECT_EQ(all[1].undelivered, 70);
    EXPECT_EQ(all[1].inner_up, 0);
    EXPECT_EQ(query_usage(ledger->database(), {})->rows[0].undelivered, 5070);
    ASSERT_TRUE(ledger->database().execute("UPDATE usage_record SET undelivered=NULL"));
    EXPECT_FALSE(read_records(ledger->database(), 1)) << "the hash is over it";
}

TEST_F(LedgerTest, WhatTheTunnelCarriesBesidePacketsIsNoFlow) {
    auto ledger = open(kNoon);
    add_session(*ledger, 1, "alice");
    flow::LiveSlot* const slot = ledger->live().take(request(1, 1, kNoon));
    count(*slot, 100, kNoon + 1);
    flow::LiveSlot* const tunnel =
        ledger->live().take(request(flow::kTunnelFlowIdBase + 7, 1, kNoon));
    flow::add(tunnel->counters.tunnel_up, 3000);
    flow::add(tunnel->counters.tunnel_down, 5000);
    ASSERT_TRUE(ledger->seal_now(kNoon + 2));
    flow::add(tunnel->counters.tunnel_down, 60);
    ledger.reset();  // and no stop
    ledger = open(kNoon + kSecond);
    const auto all = records(1);
    ASSERT_EQ(all.size(), 3U);
    EXPECT_EQ(all[0].flags & record_flag::kTunnel, 0U);
    EXPECT_NE(all[1].flags & record_flag::kTunnel, 0U);
    EXPECT_EQ(all[2].tun_down, 60) << "recovered";
    const UsageRow row = query_usage(ledger->database(), {})->rows[0];
    EXPECT_EQ(row.flows, 1);
    EXPECT_EQ(row.tun_up, 3000);
    EXPECT_EQ(row.tun_down, 5060);
    EXPECT_EQ(row.as_sent, row.post + 8060);
    ASSERT_TRUE(ledger->database().execute("UPDATE usage_record SET tun_up=1"));
    EXPECT_FALSE(read_records(ledger->database(), 1)) << "the hash is over it";
}

TEST_F(LedgerTest, RecordsBelongToTheAccountOfTheirSession) {
    auto ledger = open(kNoon);
    add_session(*ledger, 1, "alice", 7);
    add_session(*ledger, 2, "alice", 8);  // who was made again
    count(*ledger->live().take(request(1, 1, kNoon)), 100, kNoon + 1);
    count(*ledger->live().take(request(2, 2, kNoon)), 200, kNoon + 1);
    ledger->close_session(1, {}, kNoon + 2);
    ASSERT_TRUE(ledger->stop(kNoon + 2, Cause::Admin));
    const auto all = records(1);
    ASSERT_EQ(all.size(), 2U);
    EXPECT_EQ(all[0].account_id, 7);
    EXPECT_EQ(all[1].account_id, 8);
    EXPECT_EQ(number("SELECT sum(account_id) FROM session_record"), 15);
    ASSERT_TRUE(ledger->database().execute("UPDATE usage_record SET account_id=8"));
    EXPECT_FALSE(read_records(ledger->database(), 1)) << "the hash is over it";
}

TEST_F(LedgerTest, AlteredRecordIsNoticed) {
    auto ledger = open(kNoon);
    add_session(*ledger, 1, "alice");
    count(*ledger->live().take(request(1, 1, kNoon)), 100, kNoon + 1);
    ASSERT_TRUE(ledger->seal_now(kNoon + 2));
    ASSERT_TRUE(ledger->database().execute("UPDATE usage_record SET pay_up=pay_up-1"));
    EXPECT_FALSE(read_records(ledger->database(), 1));
}

TEST_F(LedgerTest, SecondProcessInTheSameFolderIsRefused) {
    const auto ledger = open(kNoon);
    const auto second = Ledger::open(options(), kNoon);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, base::Errc::InvalidState);
}

TEST_F(LedgerTest, IntervalThatDoesNotDivideAQuarterHourIsRefused) {
    auto odd = options();
    for (const uint32_t interval : {0U, 7U, 901U, 1800U}) {
        odd.interval_s = interval;
        EXPECT_FALSE(Ledger::open(odd, kNoon)) << interval;
    }
}

}  // namespace
}  // namespace continuo::snapt::ledger
