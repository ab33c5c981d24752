// A month of a provider: what `usage` and a page of records cost on it.
#include "snapt/accounting/record_store.hpp"
#include "snapt/accounting/usage.hpp"
#include "tests/bench/ledger/trial.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <functional>

namespace continuo::bench {

using snapt::Database;
using snapt::OpenMode;

namespace {

constexpr int64_t kMonthUs = 30 * 24 * kHourUs;
// 2026-11-01 00:00:00 UTC
constexpr int64_t kMonthBeginUs = 1'793'491'200 * kSecondUs;
constexpr uint64_t kUsers = 1000;
constexpr uint64_t kMany = 10'000'000;
constexpr uint64_t kRecordsOfAFlow = 3;

// The records of a month in the order in which a SNAPT seals them: each minute of some flows.
void write_month(const std::string& folder, uint64_t records, base::Random& random) {
    auto database = must_have(
        Database::open(folder + "/" + snapt::kLedgerFileName, OpenMode::ReadWrite), "ledger");
    must(database.execute("PRAGMA synchronous=OFF; PRAGMA cache_size=-500000;").has_value(),
         "settings");
    for (uint64_t user = 0; user < kUsers; ++user) {
        const std::string sql =
            "INSERT INTO account(user_id) VALUES('user-" + std::to_string(user) + "')";
        must(database.execute(sql.c_str()).has_value(), "account");
    }
    auto store = must_have(snapt::RecordStore::open(database), "records");
    flow::UsageRecord record;
    record.snapt_id = "zrh-1";
    record.epoch = 1;
    record.proto = 6;
    record.active_us = 30 * kSecondUs;
    record.flags = flow::record_flag::kHasAccount | flow::record_flag::kLossUnknown;
    const uint64_t minutes = static_cast<uint64_t>(kMonthUs / (60 * kSecondUs));
    must(database.execute("BEGIN").has_value(), "begin");
    for (uint64_t i = 0; i < records; ++i) {
        const uint64_t user = random.below(kUsers);
        record.seq = static_cast<int64_t>(i);
        record.user_id = "user-" + std::to_string(user);
        record.account_id = static_cast<int64_t>(user + 1);
        record.cnapt_id = "laptop";
        record.flow_id = static_cast<int64_t>(i / kRecordsOfAFlow);
        record.cls = static_cast<int64_t>(random.below(4));
        record.t_end =
            kMonthBeginUs + static_cast<int64_t>(i * minutes / records + 1) * 60 * kSecondUs;
        record.t_start = record.t_end - 60 * kSecondUs;
        record.pay_down = static_cast<int64_t>(random.below(1'000'000));
        record.inner_down = record.pay_down + 4000;
        record.pkt_down = 100;
        record.pre = record.inner_down;
        record.post = record.pre * 9 / 10;
        record.delay_us = 20'000;
        record.delay_src = flow::delay_source::kTunnel;
        record.jitter_us = 1000;
        must(store.insert(record).has_value(), "record");
        if (i % 100'000 == 99'999) {
            must(database.execute("COMMIT; BEGIN").has_value(), "commit");
        }
    }
    must(database.execute("COMMIT; PRAGMA wal_checkpoint(TRUNCATE);").has_value(), "commit");
}

// The median of three.
double seconds_of(const std::function<void()>& ask) {
    std::array<double, 3> took{};
    for (double& one : took) {
        const auto began = std::chrono::steady_clock::now();
        ask();
        one = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    }
    std::sort(took.begin(), took.end());
    return took[1];
}

}  // namespace

void run_month(const Settings& settings) {
    const TrialFolder folder(settings);
    const uint64_t records = settings.rounds != 0 ? settings.rounds : kMany;
    base::SeededRandom random(settings.seed);
    const auto began = std::chrono::steady_clock::now();
    write_month(folder.path(), records, random);
    const double written =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    auto database = must_have(
        Database::open(folder.path() + "/" + snapt::kLedgerFileName, OpenMode::ReadOnly), "ledger");
    const auto usage = [&database](const std::vector<snapt::UsageKey>& by, const char* user) {
        snapt::UsageQuery query;
        query.by = by;
        query.zone = "Europe/Zurich";
        if (user != nullptr) {
            query.user = user;
        }
        return seconds_of([&] {
            must(!must_have(snapt::query_usage(database, query), "usage").rows.empty(), "no rows");
        });
    };
    const double of_all = usage({}, nullptr);
    const double by_user = usage({snapt::UsageKey::User}, nullptr);
    const double by_day = usage({snapt::UsageKey::Day}, nullptr);
    const double of_user = usage({snapt::UsageKey::Month}, "user-7");
    const double page = seconds_of([&] {
        uint64_t seen = 0;
        const snapt::RecordPlace after{"zrh-1", 1, static_cast<int64_t>(records / 2)};
        must(
            snapt::visit_records_of(
                database, {}, 1000, [&seen](const flow::UsageRecord&) { return ++seen > 0; }, after)
                .has_value(),
            "page");
        must(seen > 0, "an empty page");
    });
    std::printf("{\"records\": %llu, \"written_s\": %.1f, \"usage_s\": %.3f, \"by_user_s\": %.3f, "
                "\"by_day_s\": %.3f, \"of_user_s\": %.4f, \"page_s\": %.4f}\n",
                static_cast<unsigned long long>(records), written, of_all, by_user, by_day, of_user,
                page);
}

}  // namespace continuo::bench
