// A state folder of its own for each test, and the shortest way to a ledger with sessions and
// counting flows.
#pragma once

#include "common/flow/counter_values.hpp"
#include "snapt/ledger/ledger.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <unistd.h>

namespace continuo::snapt::ledger {

inline constexpr int64_t kSecond = 1'000'000;
// 2026-11-20 12:00:00 UTC
inline constexpr int64_t kNoon = 1'795'176'000 * kSecond;

class StateFolder : public testing::Test {
  protected:
    StateFolder() {
        // In memory where that is possible: every commit waits for its disk.
        std::string pattern =
            (access("/dev/shm", W_OK) == 0 ? std::string("/dev/shm/") : testing::TempDir()) +
            "continuo-accounting-XXXXXX";
        folder_ = mkdtemp(pattern.data());
    }
    ~StateFolder() override { std::filesystem::remove_all(folder_); }

    std::string path(const std::string& name) const { return folder_ + "/" + name; }
    void write_file(const std::string& name, const std::string& content) const {
        std::ofstream(path(name), std::ios::binary) << content;
    }

    std::string folder_;
};

class LedgerTest : public StateFolder {
  protected:
    LedgerOptions options() const {
        LedgerOptions options;
        options.state_directory = folder_;
        options.snapt_id = "zrh-1";
        options.boot_id = "boot-a";
        options.live_slots = 256;
        return options;
    }
    std::unique_ptr<Ledger> open(int64_t now_us, const LedgerOptions& options) const {
        auto ledger = Ledger::open(options, now_us);
        EXPECT_TRUE(ledger) << ledger.error().where;
        return ledger ? std::move(ledger).value() : nullptr;
    }
    std::unique_ptr<Ledger> open(int64_t now_us) const { return open(now_us, options()); }

    static void add_session(Ledger& ledger,
                            uint32_t number,
                            const std::string& user,
                            int64_t account_id = store::kNoAccount) {
        SessionOpening opening;
        opening.number = number;
        opening.identity.user_id = user;
        opening.identity.account_id = account_id;
        opening.identity.cnapt_id = user + "-laptop";
        opening.identity.session_id.fill(static_cast<uint8_t>(number));
        opening.identity.opened_at_us = kNoon;
        ASSERT_TRUE(ledger.open_sessions({&opening, 1}));
    }
    static flow::SlotRequest request(uint64_t flow_id, uint32_t session, int64_t at_us) {
        flow::SlotRequest request;
        request.flow_id = flow_id;
        request.session_number = session;
        request.protocol = 6;
        request.remote = *base::IpAddress::parse("198.51.100.2");
        request.remote_port = 443;
        request.opened_at_us = at_us;
        return request;
    }
    static void count(flow::LiveSlot& slot, uint64_t bytes, int64_t at_us) {
        flow::count_packets(slot.counters, flow::Direction::Up, 1, bytes, bytes - 40);
        flow::add(slot.counters.pre_up, bytes);
        flow::add(slot.counters.post_up, bytes / 2);
        slot.last_at_us.store(at_us, std::memory_order_relaxed);
    }
    std::vector<flow::UsageRecord> records(int64_t epoch) const {
        auto database =
            store::Database::open(path(store::kLedgerFileName), store::OpenMode::ReadOnly);
        EXPECT_TRUE(database);
        auto all = read_records(*database, epoch);
        EXPECT_TRUE(all) << all.error().where;
        return all ? std::move(all).value() : std::vector<flow::UsageRecord>();
    }
    int64_t number(const char* sql) const {
        auto database =
            store::Database::open(path(store::kLedgerFileName), store::OpenMode::ReadOnly);
        auto statement = database->prepare(sql);
        EXPECT_TRUE(statement) << sql;
        EXPECT_TRUE(*statement->step());
        return statement->integer(0);
    }
    static int64_t inner_up(const std::vector<flow::UsageRecord>& records) {
        int64_t sum = 0;
        for (const auto& record : records) {
            sum += record.inner_up;
        }
        return sum;
    }
};

}  // namespace continuo::snapt::ledger
