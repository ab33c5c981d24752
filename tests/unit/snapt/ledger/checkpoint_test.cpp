// Usage that is left when the machine, and not only the process, stops.
#include "common/base/random.hpp"
#include "tests/unit/snapt/ledger/accounting_fixture.hpp"

namespace continuo::snapt::ledger {
namespace {

using flow::Cause;
using store::Database;
using store::kLedgerFileName;
using store::OpenMode;
namespace record_flag = flow::record_flag;

constexpr uint32_t kUnknowns =
    record_flag::kDelayUnknown | record_flag::kJitterUnknown | record_flag::kLossUnknown;

class CheckpointTest : public LedgerTest {
  protected:
    // As after a loss of power: the live file is of another boot.
    std::unique_ptr<Ledger> open_after_power_loss(int64_t now_us) {
        LedgerOptions rebooted = options();
        rebooted.boot_id = "boot-" + std::to_string(now_us);
        return open(now_us, rebooted);
    }
    std::unique_ptr<Ledger> open_every(uint32_t checkpoint_s) {
        LedgerOptions wanted = options();
        wanted.checkpoint_s = checkpoint_s;
        return open(kNoon, wanted);
    }
};

TEST_F(CheckpointTest, APowerLossCostsWhatWasCountedSince) {
    auto ledger = open(kNoon);
    add_session(*ledger, 1, "alice", 7);
    flow::LiveSlot* slot = ledger->live().take(request(1, 1, kNoon));
    count(*slot, 1000, kNoon + kSecond);
    ASSERT_EQ(*ledger->tick(kNoon + 4 * kSecond), 0U);
    EXPECT_EQ(number("SELECT count(*) FROM open_flow"), 0) << "too early";
    ASSERT_EQ(*ledger->tick(kNoon + 5 * kSecond), 0U);
    count(*slot, 70, kNoon + 6 * kSecond);
    ledger.reset();
    EXPECT_EQ(open_after_power_loss(kNoon + 9 * kSecond)->status().recovered_records, 1U);
    const auto all = records(1);
    ASSERT_EQ(all.size(), 1U);
    EXPECT_EQ(all[0].inner_up, 1000);
    EXPECT_EQ(all[0].user_id, "alice");
    EXPECT_EQ(all[0].cause, Cause::Recovered);
    EXPECT_EQ(all[0].t_start, kNoon);
    EXPECT_EQ(all[0].t_end, kNoon + kSecond);
    EXPECT_EQ(all[0].account_id, 7);
    EXPECT_EQ(all[0].flags & ~kUnknowns, record_flag::kFirst | record_flag::kRecovered |
                                             record_flag::kLast | record_flag::kHasAccount);
}

TEST_F(CheckpointTest, WhatWasSealedBeforeIsNotCountedAgain) {
    auto ledger = open(kNoon);
    add_session(*ledger, 1, "alice");
    flow::LiveSlot* slot = ledger->live().take(request(1, 1, kNoon));
    count(*slot, 1000, kNoon + 1);
    ASSERT_EQ(*ledger->tick(kNoon + 60 * kSecond), 1U);
    count(*slot, 200, kNoon + 61 * kSecond);
    ASSERT_EQ(*ledger->tick(kNoon + 65 * kSecond), 0U);
    ledger.reset();
    ASSERT_TRUE(open_after_power_loss(kNoon + 70 * kSecond));
    const auto all = records(1);
    ASSERT_EQ(all.size(), 2U);
    EXPECT_EQ(all[0].inner_up, 1000);
    EXPECT_EQ(all[1].inner_up, 200);
    EXPECT_EQ(all[1].flags & record_flag::kFirst, 0U);
    EXPECT_EQ(all[1].t_start, kNoon + 60 * kSecond);
}

TEST_F(CheckpointTest, FlowsThatShareARecordAreCountedOnce) {
    LedgerOptions wanted = options();
    wanted.user_records = 1;
    auto ledger = open(kNoon, wanted);
    add_session(*ledger, 1, "alice");
    flow::LiveSlot* longer = ledger->live().take(request(1, 1, kNoon));
    count(*longer, 1000, kNoon + 1);
    for (uint64_t id = 2; id <= 4; ++id) {
        flow::LiveSlot* ends = ledger->live().take(request(id, 1, kNoon));
        count(*ends, 100 * id, kNoon + 1);
        ledger->live().release(ends, Cause::Closed);
    }
    ASSERT_EQ(*ledger->tick(kNoon + 2 * kSecond), 1U) << "the others share one";
    count(*longer, 70, kNoon + 3 * kSecond);
    ASSERT_EQ(*ledger->tick(kNoon + 5 * kSecond), 0U);
    count(*longer, 90, kNoon + 6 * kSecond);
    ledger.reset();
    ASSERT_TRUE(open_after_power_loss(kNoon + 7 * kSecond));
    EXPECT_EQ(inner_up(records(1)), 1000 + 200 + 300 + 400 + 70);
}

TEST_F(CheckpointTest, ItMakesNoDifferenceToRecords) {
    std::vector<std::vector<flow::UsageRecord>> of_runs;
    for (const uint32_t checkpoint_s : {0U, 1U}) {
        auto ledger = open_every(checkpoint_s);
        const int64_t epoch = ledger->status().epoch;
        add_session(*ledger, 1, "alice");
        flow::LiveSlot* longer = ledger->live().take(request(1, 1, kNoon));
        flow::LiveSlot* shorter = ledger->live().take(request(2, 1, kNoon));
        for (int64_t s = 1; s <= 130; ++s) {
            count(*longer, 100 + static_cast<uint64_t>(s), kNoon + s * kSecond - 1);
            if (s < 30) {
                count(*shorter, 50, kNoon + s * kSecond - 1);
            } else if (s == 30) {
                ledger->live().release(shorter, Cause::Closed);
            }
            ASSERT_TRUE(ledger->tick(kNoon + s * kSecond));
        }
        ASSERT_TRUE(ledger->stop(kNoon + 131 * kSecond, Cause::Admin));
        ledger.reset();
        of_runs.push_back(records(epoch));
        std::filesystem::remove(path(kLiveFileName));
    }
    ASSERT_EQ(of_runs[0].size(), of_runs[1].size());
    EXPECT_GE(of_runs[0].size(), 4U);
    for (size_t i = 0; i < of_runs[0].size(); ++i) {
        of_runs[1][i].epoch = of_runs[0][i].epoch;
        EXPECT_EQ(canonical_text(of_runs[0][i]), canonical_text(of_runs[1][i])) << i;
    }
}

TEST_F(CheckpointTest, FlowsThatRestAreNotWritten) {
    auto ledger = open(kNoon);
    add_session(*ledger, 1, "alice");
    flow::LiveSlot* busy = ledger->live().take(request(1, 1, kNoon));
    flow::LiveSlot* resting = ledger->live().take(request(2, 1, kNoon));
    ASSERT_NE(ledger->live().take(request(3, 1, kNoon)), nullptr) << "never counts";
    count(*busy, 100, kNoon + 1);
    count(*resting, 100, kNoon + 1);
    ASSERT_TRUE(ledger->tick(kNoon + 5 * kSecond));
    EXPECT_EQ(ledger->status().last_commit_at_us, kNoon + 5 * kSecond);
    EXPECT_EQ(number("SELECT count(*) FROM open_flow"), 2);
    // A row that is written again would lose this mark.
    auto database = Database::open(path(kLedgerFileName), OpenMode::ReadWrite).value();
    ASSERT_TRUE(database.execute("UPDATE open_flow SET ckpt=sealed"));
    count(*busy, 100, kNoon + 6 * kSecond);
    ASSERT_TRUE(ledger->tick(kNoon + 10 * kSecond));
    EXPECT_EQ(number("SELECT flow_id FROM open_flow WHERE ckpt<>sealed"), 1);
    EXPECT_EQ(number("SELECT count(*) FROM open_flow WHERE ckpt<>sealed"), 1);
    ASSERT_TRUE(ledger->tick(kNoon + 15 * kSecond));
    EXPECT_EQ(ledger->status().last_commit_at_us, kNoon + 10 * kSecond) << "nothing to write";
}

TEST_F(CheckpointTest, RowsOfFlowsThatEndedAreRemoved) {
    auto ledger = open(kNoon);
    add_session(*ledger, 1, "alice");
    flow::LiveSlot* slot = ledger->live().take(request(1, 1, kNoon));
    count(*slot, 100, kNoon + 1);
    ASSERT_TRUE(ledger->tick(kNoon + 5 * kSecond));
    EXPECT_EQ(number("SELECT count(*) FROM open_flow"), 1);
    ledger->live().release(slot, Cause::Closed);
    ASSERT_EQ(*ledger->tick(kNoon + 6 * kSecond), 1U);
    ASSERT_EQ(*ledger->tick(kNoon + 7 * kSecond), 0U);
    EXPECT_EQ(number("SELECT count(*) FROM open_flow"), 0);
}

TEST_F(CheckpointTest, OneThatFailsIsMadeAtTheNextTick) {
    auto ledger = open(kNoon);
    add_session(*ledger, 1, "alice");
    flow::LiveSlot* slot = ledger->live().take(request(1, 1, kNoon));
    count(*slot, 100, kNoon + 1);
    auto other = Database::open(path(kLedgerFileName), OpenMode::ReadWrite).value();
    ASSERT_TRUE(other.execute("CREATE TRIGGER no BEFORE INSERT ON open_flow BEGIN "
                              "SELECT RAISE(ABORT, 'no'); END"));
    EXPECT_FALSE(ledger->tick(kNoon + 5 * kSecond));
    ASSERT_TRUE(other.execute("DROP TRIGGER no"));
    ASSERT_TRUE(ledger->tick(kNoon + 6 * kSecond));
    EXPECT_EQ(number("SELECT count(*) FROM open_flow"), 1);
}

TEST_F(CheckpointTest, AfterAFailedSealAFlowThatWasOnlySavedHasItsFirstRecordStill) {
    auto ledger = open(kNoon);
    add_session(*ledger, 1, "alice");
    flow::LiveSlot* slot = ledger->live().take(request(1, 1, kNoon));
    count(*slot, 100, kNoon + 1);
    ASSERT_TRUE(ledger->tick(kNoon + 5 * kSecond));
    auto other = Database::open(path(kLedgerFileName), OpenMode::ReadWrite).value();
    ASSERT_TRUE(other.execute("CREATE TRIGGER no BEFORE INSERT ON usage_record BEGIN "
                              "SELECT RAISE(ABORT, 'no'); END"));
    EXPECT_FALSE(ledger->tick(kNoon + 60 * kSecond));
    ASSERT_TRUE(other.execute("DROP TRIGGER no"));
    ASSERT_EQ(*ledger->tick(kNoon + 61 * kSecond), 1U);
    ASSERT_TRUE(ledger->stop(kNoon + 62 * kSecond, Cause::Admin));
    const auto all = records(1);
    ASSERT_EQ(all.size(), 1U);
    EXPECT_EQ(all[0].inner_up, 100);
    EXPECT_NE(all[0].flags & record_flag::kFirst, 0U);
}

// Whenever the power goes: at most what came since the last checkpoint is lost, and nothing is
// counted that was not there.
TEST_F(CheckpointTest, AtAnySecondItLosesLessThanItsInterval) {
    constexpr uint32_t kCheckpointS = 3;
    base::SeededRandom random(7);
    int64_t lost_at_most = 0;
    for (int64_t length = 1; length <= 75; length += 2) {
        auto ledger = open_every(kCheckpointS);
        const int64_t epoch = ledger->status().epoch;
        add_session(*ledger, 1, "alice");
        flow::LiveSlot* slot = ledger->live().take(request(1, 1, kNoon));
        std::vector<int64_t> counted_by(static_cast<size_t>(length) + 1, 0);
        for (int64_t s = 1; s <= length; ++s) {
            std::array<uint8_t, 1> draw{};
            random.fill(draw);
            count(*slot, 40U + draw[0], kNoon + s * kSecond - 1);
            counted_by[static_cast<size_t>(s)] =
                counted_by[static_cast<size_t>(s - 1)] + 40 + draw[0];
            ASSERT_TRUE(ledger->tick(kNoon + s * kSecond));
        }
        ledger.reset();
        ASSERT_TRUE(open_after_power_loss(kNoon + length * kSecond + 1 + length));
        const int64_t kept = inner_up(records(epoch));
        EXPECT_LE(kept, counted_by.back());
        const int64_t saved_s = std::max<int64_t>(0, length - int64_t{kCheckpointS} + 1);
        EXPECT_GE(kept, counted_by[static_cast<size_t>(saved_s)]) << length;
        lost_at_most = std::max(lost_at_most, counted_by.back() - kept);
    }
    EXPECT_GT(lost_at_most, 0) << "the live file of the other boot was used";
}

}  // namespace
}  // namespace continuo::snapt::ledger
