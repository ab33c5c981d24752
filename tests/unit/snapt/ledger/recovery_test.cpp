#include "common/base/random.hpp"
#include "snapt/ledger/new_ledger.hpp"
#include "snapt/store/snapt_prices.hpp"
#include "snapt/store/user_store.hpp"
#include "tests/bench/ledger/faulty_vfs.hpp"
#include "tests/unit/snapt/ledger/accounting_fixture.hpp"

#include <csignal>
#include <sstream>

#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace continuo::snapt::ledger {
namespace {

using flow::Cause;
using flow::UsageRecord;
using store::Database;
using store::kLedgerFileName;
using store::OpenMode;
using store::UserStore;
namespace record_flag = flow::record_flag;

constexpr uint32_t kUnknowns =
    record_flag::kDelayUnknown | record_flag::kJitterUnknown | record_flag::kLossUnknown;

// Runs `body` in a child process that ends without any clean-up, as after a crash.
template <typename Body>
void crash_after(Body&& body) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        body();
        _exit(testing::Test::HasFailure() ? 1 : 0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

using RecoveryTest = LedgerTest;

// A run keeps its price, and what is recovered of it is of that run.
TEST_F(RecoveryTest, APriceHoldsFromItsRunOn) {
    LedgerOptions dear = options();
    dear.price_permille = 1250;
    open(kNoon).reset();
    open(kNoon + 1, dear).reset();
    crash_after([&] {
        auto ledger = open(kNoon + 2, dear);
        add_session(*ledger, 1, "alice");
        count(*ledger->live().take(request(1, 1, kNoon)), 1000, kNoon + 3);
    });
    open(kNoon + 4).reset();
    EXPECT_EQ(records(3).size(), 1U);
    auto database = Database::open(path(kLedgerFileName), OpenMode::ReadOnly).value();
    const auto prices = store::SnaptPrices::load(database).value();
    EXPECT_EQ(prices.multiplier("zrh-1", 1), 1);
    EXPECT_EQ(prices.multiplier("zrh-1", 2), 1.25);
    EXPECT_EQ(prices.multiplier("zrh-1", 3), 1.25);
    EXPECT_EQ(prices.multiplier("zrh-1", 4), 1);
    EXPECT_EQ(prices.multiplier("zrh-1", 99), 1);
    EXPECT_EQ(prices.multiplier("zrh", 3), 1);
    EXPECT_EQ(prices.multiplier("zrh-2", 3), 1);
}

TEST_F(RecoveryTest, WhatWasCountedButNotSealedIsRecoveredExactlyInTheOldEpoch) {
    crash_after([&] {
        auto ledger = open(kNoon);
        add_session(*ledger, 1, "alice");
        ledger->name_app(1, 3, "curl");
        auto wanted = request(1, 1, kNoon);
        wanted.app = 3;
        flow::LiveSlot* partly = ledger->live().take(wanted);
        flow::LiveSlot* closed = ledger->live().take(request(2, 1, kNoon));
        count(*partly, 1000, kNoon + 1);
        EXPECT_EQ(*ledger->tick(kNoon + 60 * kSecond), 1U);
        count(*partly, 234, kNoon + 61 * kSecond);
        count(*closed, 50, kNoon + 62 * kSecond);
        ledger->live().release(closed, Cause::Closed);
        static_cast<void>(ledger.release());
    });
    auto ledger = open(kNoon + 90 * kSecond);
    EXPECT_EQ(ledger->status().epoch, 2);
    EXPECT_EQ(ledger->status().recovered_records, 2U);
    const auto all = records(1);
    ASSERT_EQ(all.size(), 3U);
    EXPECT_EQ(inner_up(all), 1284);
    EXPECT_EQ(all[1].seq, 1);
    EXPECT_EQ(all[1].inner_up, 234);
    EXPECT_EQ(all[1].user_id, "alice");
    EXPECT_EQ(all[1].app, "curl");
    EXPECT_EQ(all[1].cause, Cause::Recovered);
    EXPECT_EQ(all[1].flags & ~kUnknowns,
              record_flag::kRecovered | record_flag::kLast | record_flag::kHasAccount);
    EXPECT_EQ(all[1].t_start, kNoon + 60 * kSecond);
    EXPECT_EQ(all[1].t_end, kNoon + 61 * kSecond);
    EXPECT_EQ(all[2].flags & record_flag::kFirst, record_flag::kFirst);
    EXPECT_EQ(number("SELECT count(*) FROM open_flow"), 0);
    ledger.reset();
    // The next start has nothing left to recover.
    EXPECT_EQ(open(kNoon + 91 * kSecond)->status().recovered_records, 0U);
    EXPECT_EQ(records(1).size(), 3U);
}

// One flow was opened, the other sealed by a clock that was then set back by an hour.
TEST_F(RecoveryTest, NothingIsRecordedInTheFutureAfterAStepBack) {
    const int64_t old_us = kNoon + 3600 * kSecond;
    crash_after([&] {
        auto ledger = open(old_us);
        add_session(*ledger, 1, "alice");
        flow::LiveSlot* sealed = ledger->live().take(request(1, 1, old_us));
        flow::LiveSlot* opened = ledger->live().take(request(2, 1, old_us));
        count(*sealed, 50, old_us + kSecond);
        EXPECT_EQ(*ledger->seal_now(old_us + 2 * kSecond), 1U);
        for (flow::LiveSlot* slot : {sealed, opened}) {
            count(*slot, 100, kNoon + kSecond);
            flow::add(slot->counters.active_us, 5 * kSecond);
        }
        static_cast<void>(ledger.release());
    });
    const int64_t now_us = kNoon + 2 * kSecond;
    EXPECT_EQ(open(now_us)->status().recovered_records, 2U);
    const auto all = records(1);
    ASSERT_EQ(all.size(), 3U);
    for (size_t i = 1; i < all.size(); ++i) {
        EXPECT_LE(all[i].t_end, now_us) << i;
        EXPECT_LT(all[i].t_start, all[i].t_end) << i;
        EXPECT_EQ(all[i].active_us, 5 * kSecond) << i;
    }
}

TEST_F(RecoveryTest, ClosedAndSealedFlowIsNotCountedAgainWhenItsSlotWasNotYetFree) {
    crash_after([&] {
        auto ledger = open(kNoon);
        add_session(*ledger, 1, "alice");
        flow::LiveSlot* slot = ledger->live().take(request(1, 1, kNoon));
        count(*slot, 100, kNoon + 1);
        ledger->live().release(slot, Cause::Closed);
        EXPECT_EQ(*ledger->tick(kNoon + kSecond), 1U);
        // As if the process had died between the commit and giving the slot back.
        slot->state.store(flow::SlotState::Closed);
        static_cast<void>(ledger.release());
    });
    EXPECT_EQ(open(kNoon + 2 * kSecond)->status().recovered_records, 0U);
    EXPECT_EQ(inner_up(records(1)), 100);
}

// A user that is removed and made again while the process is down.
TEST_F(RecoveryTest, WhatIsRecoveredIsTheAccountsThatHadTheSession) {
    base::SeededRandom random(1);
    crash_after([&] {
        auto ledger = open(kNoon);
        const auto alice = UserStore::open(folder_).value()->add("alice", {}, kNoon, random);
        add_session(*ledger, 1, "alice", alice->account_id);
        count(*ledger->live().take(request(1, 1, kNoon)), 100, kNoon + 1);
        static_cast<void>(ledger.release());
    });
    const int64_t former = number("SELECT account_id FROM user");
    const auto users = UserStore::open(folder_).value();
    ASSERT_TRUE(users->remove("alice", kNoon + 2));
    EXPECT_NE(users->add("alice", {}, kNoon + 3, random)->account_id, former);
    EXPECT_EQ(open(kNoon + 4)->status().recovered_records, 1U);
    EXPECT_EQ(records(1)[0].account_id, former);
    EXPECT_EQ(number("SELECT account_id FROM session_record"), former);
}

TEST_F(RecoveryTest, AfterCleanStopNothingIsRecovered) {
    auto ledger = open(kNoon);
    add_session(*ledger, 1, "alice");
    count(*ledger->live().take(request(1, 1, kNoon)), 100, kNoon + 1);
    ASSERT_TRUE(ledger->stop(kNoon + 2, Cause::Admin));
    ledger.reset();
    EXPECT_EQ(open(kNoon + 3)->status().recovered_records, 0U);
    EXPECT_EQ(inner_up(records(1)), 100);
}

TEST_F(RecoveryTest, LiveFileOfAnotherBootIsNotTrusted) {
    crash_after([&] {
        auto ledger = open(kNoon);
        add_session(*ledger, 1, "alice");
        flow::LiveSlot* slot = ledger->live().take(request(1, 1, kNoon));
        count(*slot, 100, kNoon + 1);
        EXPECT_EQ(*ledger->seal_now(kNoon + 2), 1U);
        count(*slot, 900, kNoon + 3);
        static_cast<void>(ledger.release());
    });
    auto rebooted = options();
    rebooted.boot_id = "boot-b";
    const auto ledger = open(kNoon + 4, rebooted);
    EXPECT_EQ(ledger->status().recovered_records, 0U);
    EXPECT_EQ(inner_up(records(1)), 100);
    EXPECT_EQ(number("SELECT count(*) FROM event WHERE kind='live_file_unusable'"), 1);
}

TEST_F(RecoveryTest, ForeignOrShortLiveFileIsReplaced) {
    for (const std::string& content :
         {std::string(), std::string("not a live file"), std::string(100'000, 'x')}) {
        write_file(kLiveFileName, content);
        const auto ledger = open(kNoon);
        ASSERT_NE(ledger, nullptr);
        EXPECT_EQ(ledger->status().recovered_records, 0U);
        EXPECT_NE(ledger->live().take(request(1, 1, kNoon)), nullptr);
    }
    // A good header with slots missing.
    { const auto ledger = open(kNoon); }
    std::filesystem::resize_file(path(kLiveFileName), kLiveHeaderBytes + 1000);
    EXPECT_NE(open(kNoon), nullptr);
}

// The traffic that the child is about to count and has counted, as a byte-counting sink would see
// it.
struct Sink {
    std::atomic<uint64_t> before{0};
    std::atomic<uint64_t> after{0};
};

TEST_F(RecoveryTest, KilledAtAnyMomentItNeverCountsTwiceAndLosesAtMostOnePacket) {
    void* shared =
        mmap(nullptr, sizeof(Sink), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(shared, MAP_FAILED);
    base::SeededRandom random(99);
    for (int64_t epoch = 1; epoch <= 25; ++epoch) {
        SCOPED_TRACE(epoch);
        Sink* sink = new (shared) Sink;
        auto with = options();
        with.user_records = epoch % 2 == 0 ? 3 : 0;  // with and without flows that share a record
        const pid_t child = fork();
        ASSERT_GE(child, 0);
        if (child == 0) {
            auto ledger = open(kNoon, with);
            add_session(*ledger, 1, "alice");
            uint64_t next_id = 1;
            std::vector<flow::LiveSlot*> slots(5, nullptr);
            for (int64_t now = kNoon;; now += 20'000) {
                flow::LiveSlot*& slot = slots[random.below(slots.size())];
                if (slot == nullptr) {
                    slot = ledger->live().take(request(next_id++, 1, now));
                }
                sink->before += 100;
                flow::add(slot->counters.inner_up, 100);
                sink->after += 100;
                if (random.below(10) == 0) {
                    ledger->live().release(slot, Cause::Closed);
                    slot = nullptr;
                }
                if (random.below(4) == 0) {
                    static_cast<void>(ledger->tick(now));
                }
            }
        }
        const uint64_t target = 100 + random.below(20'000);
        while (sink->after.load() < target) {
            int status = 0;
            ASSERT_EQ(waitpid(child, &status, WNOHANG), 0) << "child ended by itself";
            sched_yield();
        }
        kill(child, SIGKILL);
        ASSERT_EQ(waitpid(child, nullptr, 0), child);
        ASSERT_NE(open(kNoon), nullptr);
        const auto all = records(2 * epoch - 1);
        EXPECT_GE(inner_up(all), static_cast<int64_t>(sink->after.load()));
        EXPECT_LE(inner_up(all), static_cast<int64_t>(sink->before.load()));
        for (size_t i = 0; i < all.size(); ++i) {
            ASSERT_EQ(all[i].seq, static_cast<int64_t>(i));
        }
    }
    munmap(shared, sizeof(Sink));
}

TEST_F(RecoveryTest, ADamagedDatabaseGivesWayToANewOne) {
    base::SeededRandom random(1);
    {
        auto ledger = open(kNoon);
        add_session(*ledger, 1, "alice");
        count(*ledger->live().take(request(1, 1, kNoon)), 100, kNoon + 1);
        ASSERT_TRUE(UserStore::open(folder_).value()->add("alice", {}, kNoon, random));
        EXPECT_EQ(set_damaged_ledger_aside(folder_, kNoon).error().code, base::Errc::InvalidState);
        ASSERT_TRUE(ledger->seal_now(kNoon + 2));
    }
    EXPECT_FALSE(*set_damaged_ledger_aside(folder_, kNoon + 3 * kSecond)) << "it is good";
    const int64_t former = number("SELECT account_id FROM user");
    std::filesystem::remove(path("ledger.db-wal"));
    const auto bytes = std::filesystem::file_size(path(kLedgerFileName));
    std::filesystem::resize_file(path(kLedgerFileName), bytes / 2);
    EXPECT_EQ(Ledger::open(options(), kNoon + 4 * kSecond).error().code, base::Errc::Malformed);
    const auto aside = set_damaged_ledger_aside(folder_, kNoon + 5 * kSecond);
    ASSERT_TRUE(aside) << aside.error().where;
    ASSERT_TRUE(*aside);
    EXPECT_EQ(std::filesystem::file_size(**aside), bytes / 2) << "as it was";
    {
        const auto ledger = open(kNoon + 6 * kSecond);
        EXPECT_EQ(ledger->status().epoch, kNoon / kSecond + 6);
        EXPECT_EQ(ledger->status().recovered_records, 0U) << "nobody knows what had been sealed";
    }
    const auto users = UserStore::open(folder_).value();
    EXPECT_TRUE(users->list(kNoon)->empty());
    EXPECT_GT(users->add("alice", {}, kNoon, random)->account_id, former);
    EXPECT_FALSE(*set_damaged_ledger_aside(folder_, kNoon + 7 * kSecond));
}

TEST_F(RecoveryTest, WithoutADatabaseNoneIsDamaged) {
    EXPECT_FALSE(*set_damaged_ledger_aside(folder_, kNoon));
    EXPECT_FALSE(std::filesystem::exists(path(kLedgerFileName)));
}

// Records of the former database have keys of those epochs.
TEST_F(RecoveryTest, AnEpochBeginsBeyondThatOfTheLiveFile) {
    for (const bool is_empty : {false, true}) {
        int64_t last = 0;
        for (int i = 0; i < 3; ++i) {
            last = open(kNoon)->status().epoch;
        }
        for (const char* part : {"", "-wal", "-shm"}) {
            std::filesystem::remove(path(std::string(kLedgerFileName) + part));
        }
        if (is_empty) {
            write_file(kLedgerFileName, "");
            std::filesystem::resize_file(path(kLiveFileName), kLiveHeaderBytes);
        }
        EXPECT_FALSE(*set_damaged_ledger_aside(folder_, kNoon)) << "it is new";
        EXPECT_EQ(open(kNoon)->status().epoch, last + 1) << is_empty;
    }
}

TEST_F(RecoveryTest, ADatabaseOfANewerVersionIsNotDamaged) {
    ASSERT_NE(open(kNoon), nullptr);
    {
        auto database = Database::open(path(kLedgerFileName), OpenMode::ReadWrite).value();
        ASSERT_TRUE(database.execute("PRAGMA user_version=1000"));
    }
    const auto aside = set_damaged_ledger_aside(folder_, kNoon + 5 * kSecond);
    ASSERT_FALSE(aside);
    EXPECT_EQ(aside.error().code, base::Errc::Unsupported);
    EXPECT_TRUE(std::filesystem::exists(path(kLedgerFileName)));
}

TEST_F(RecoveryTest, ADatabaseWithoutAVersionIsDamaged) {
    ASSERT_NE(open(kNoon), nullptr);
    {
        auto database = Database::open(path(kLedgerFileName), OpenMode::ReadWrite).value();
        ASSERT_TRUE(database.execute("PRAGMA user_version=0"));
    }
    EXPECT_EQ(Ledger::open(options(), kNoon).error().code, base::Errc::Malformed);
    EXPECT_TRUE(*set_damaged_ledger_aside(folder_, kNoon + 5 * kSecond));
    EXPECT_NE(open(kNoon), nullptr);
}

// Else epochs might come twice.
TEST_F(RecoveryTest, ALiveFileThatCannotBeReadIsNotTakenForNone) {
    ASSERT_NE(open(kNoon), nullptr);
    std::filesystem::remove(path(kLiveFileName));
    std::filesystem::create_symlink("/proc/self/mem", path(kLiveFileName));  // EIO
    EXPECT_EQ(Ledger::open(options(), kNoon).error().code, base::Errc::System);
    std::filesystem::remove(path(kLiveFileName));
    EXPECT_NE(open(kNoon), nullptr);
}

// SQLite says of a page that it could not read that the database is damaged.
TEST_F(RecoveryTest, ADiskThatCannotBeReadIsNoDamage) {
    ASSERT_NE(open(kNoon), nullptr);
    bench::faulty_vfs::install();
    const auto pages = std::filesystem::file_size(path(kLedgerFileName)) / 4096;
    size_t refused = 0;
    for (uint64_t first = 0; first < pages; ++first) {
        bench::faulty_vfs::fail_reads(path(kLedgerFileName), first * 4096);
        const auto aside = set_damaged_ledger_aside(folder_, kNoon + 5 * kSecond);
        bench::faulty_vfs::fail_reads("", 0);
        ASSERT_FALSE(aside && *aside) << "page " << first << " of " << pages;
        refused += aside ? 0U : 1U;
    }
    EXPECT_GT(refused, 3U);
    bench::faulty_vfs::remove();
    EXPECT_NE(open(kNoon), nullptr);
}

TEST_F(StateFolder, UnusableDatabaseIsAClearErrorAndNeverACrash) {
    LedgerOptions options;
    options.state_directory = folder_;
    options.snapt_id = "zrh-1";
    options.live_slots = 16;
    const auto error_with = [&](const std::string& content) {
        write_file(kLedgerFileName, content);
        const auto ledger = Ledger::open(options, kNoon);
        EXPECT_FALSE(ledger);
        return ledger ? base::Error{} : ledger.error();
    };
    EXPECT_EQ(error_with(std::string(5000, 'x')).code, base::Errc::Malformed);
    EXPECT_EQ(error_with("SQLite format 3").code, base::Errc::Malformed);

    std::filesystem::remove(path(kLedgerFileName));
    ASSERT_TRUE(Ledger::open(options, kNoon));
    std::filesystem::remove(path("ledger.db-wal"));
    std::ifstream file(path(kLedgerFileName), std::ios::binary);
    std::ostringstream content;
    content << file.rdbuf();
    const std::string good = content.str();
    base::SeededRandom random(1);
    for (int round = 0; round < 60; ++round) {
        std::string bad = good;
        const size_t at = 100 + random.below(bad.size() - 600);
        for (size_t i = 0; i < 500; ++i) {
            bad[at + i] = static_cast<char>(random.below(256));
        }
        write_file(kLedgerFileName, bad);
        const auto ledger = Ledger::open(options, kNoon);  // may work: not every page is read
        EXPECT_TRUE(ledger || !ledger.error().where.empty());
    }
    for (const size_t size : {99U, 1000U, 4096U, 9000U}) {
        error_with(good.substr(0, size));
    }
    options.state_directory = path("nowhere");
    EXPECT_EQ(Ledger::open(options, kNoon).error().code, base::Errc::System);
}

TEST_F(StateFolder, DatabaseOfAnotherProgramOrANewerVersionIsLeftAlone) {
    const std::string file = path(kLedgerFileName);
    {
        auto database = Database::open(file, OpenMode::ReadWrite);
        ASSERT_TRUE(database->execute("PRAGMA user_version=99"));
    }
    EXPECT_EQ(Database::open(file, OpenMode::ReadWrite).error().code, base::Errc::Unsupported);
    {
        auto database = Database::open(path("other.db"), OpenMode::ReadWrite);
        ASSERT_TRUE(database->execute("PRAGMA application_id=7"));
    }
    EXPECT_EQ(Database::open(path("other.db"), OpenMode::ReadWrite).error().code,
              base::Errc::Malformed);
    EXPECT_EQ(Database::open(path("none.db"), OpenMode::ReadOnly).error().code, base::Errc::System);
}

TEST_F(StateFolder, ReadOnlyDatabaseRefusesToWriteWithASentence) {
    ASSERT_TRUE(Database::open(path(kLedgerFileName), OpenMode::ReadWrite));
    auto database = Database::open(path(kLedgerFileName), OpenMode::ReadOnly);
    ASSERT_TRUE(database);
    const auto result = database->execute("DELETE FROM user");
    ASSERT_FALSE(result);
    EXPECT_NE(result.error().where.find("cannot be written"), std::string_view::npos);
}

TEST_F(StateFolder, DatabaseIsReadableByItsOwnerOnly) {
    ASSERT_TRUE(Database::open(path(kLedgerFileName), OpenMode::ReadWrite));
    const auto permissions = std::filesystem::status(path(kLedgerFileName)).permissions();
    EXPECT_EQ(permissions & std::filesystem::perms::all,
              std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

}  // namespace
}  // namespace continuo::snapt::ledger
