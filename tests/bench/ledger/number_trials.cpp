// Numbers and times at their limits.
#include "snapt/ledger/record_store.hpp"
#include "snapt/ledger/usage.hpp"
#include "snapt/store/time_zone.hpp"
#include "tests/bench/ledger/trial.hpp"

#include <cstdio>

namespace continuo::bench {

using snapt::ledger::Ledger;
using snapt::store::Database;
using snapt::store::OpenMode;

namespace {

Database database_of(const std::string& folder) {
    return must_have(
        Database::open(folder + "/" + snapt::store::kLedgerFileName, OpenMode::ReadWrite),
        "ledger");
}

}  // namespace

// Counters that pass 2^32 and 2^53 between two seals, and in one packet's distance of them.
void run_wrap(const Settings& settings) {
    const TrialFolder folder(settings);
    base::SeededRandom random(settings.seed);
    uint64_t counted = 0;
    {
        auto ledger =
            must_have(Ledger::open(ledger_options(folder.path(), "boot"), kNoonUs), "start");
        open_session(*ledger, 1, "alice", kNoonUs);
        int64_t now_us = kNoonUs;
        uint64_t id = 1;
        for (const int bits : {32, 53}) {
            flow::LiveSlot* slot = ledger->live().take(slot_request(id++, 1, now_us));
            uint64_t sum = (uint64_t{1} << static_cast<unsigned>(bits)) - 3000;
            count(*slot, sum, now_us);
            for (int i = 0; i < 10; ++i) {
                must(ledger->seal_now(now_us += kSecondUs).has_value(), "seal");
                const uint64_t bytes = 1 + random.below(1500);
                count(*slot, bytes, now_us);
                sum += bytes;
            }
            counted += sum;
        }
    }
    must_have(Ledger::open(ledger_options(folder.path(), "boot"), kNoonUs + kHourUs), "recovery")
        .reset();
    must(recorded_bytes(folder.path()) == counted, "records differ from what was counted");
    auto database = database_of(folder.path());
    const auto rows = must_have(snapt::ledger::query_usage(database, {}), "usage").rows;
    must(rows.size() == 1 && static_cast<uint64_t>(rows[0].payload_up) == counted,
         "usage differs from what was counted");
    must_verify(folder.path());
    std::printf("{\"bytes\": %llu}\n", static_cast<unsigned long long>(counted));
}

namespace {

int64_t number_of(Database& database, const std::string& sql) {
    auto statement = must_have(database.prepare(sql.c_str()), sql);
    must(must_have(statement.step(), sql), sql);
    return statement.integer(0);
}

}  // namespace

// The wall clock is set by up to an hour, this way and that, while flows count: each step is noted,
// and no record crosses a quarter of an hour.
void run_clock(const Settings& settings) {
    const uint64_t rounds = settings.rounds != 0 ? settings.rounds : 100;
    base::SeededRandom random(settings.seed);
    uint64_t steps = 0;
    for (uint64_t round = 0; round < rounds; ++round) {
        const TrialFolder folder(settings);
        auto options = ledger_options(folder.path(), "boot");
        host::Clocks clocks{kNoonUs, kHourUs};
        int64_t& now_us = clocks.utc_us;
        options.clocks = [&clocks] { return std::optional(clocks); };
        auto ledger = must_have(Ledger::open(options, now_us), "start");
        open_session(*ledger, 1, "alice", now_us);
        Load load(*ledger, 1, random);
        uint64_t counted = 0;
        int64_t steps_of_round = 0;
        for (int second = 0; second < 300; ++second) {
            clocks.boot_us += kSecondUs;
            now_us += kSecondUs;
            counted += load.step(now_us);
            if (random.below(30) == 0) {
                // More than half a second.
                const int64_t by_us = kSecondUs + static_cast<int64_t>(random.below(kHourUs));
                now_us += random.below(2) == 0 ? by_us : -by_us;
                ++steps_of_round;
            }
            must(ledger->tick(now_us).has_value(), "seal");
        }
        must(ledger->stop(now_us, flow::Cause::Admin).has_value(), "the last seal fails");
        must(static_cast<int64_t>(ledger->status().clock_steps) == steps_of_round,
             "a step was not seen");
        steps += static_cast<uint64_t>(steps_of_round);
        ledger.reset();
        must(recorded_bytes(folder.path()) == counted, "records differ from what was counted");
        must_verify(folder.path());
        auto database = database_of(folder.path());
        must(number_of(database, "SELECT count(*) FROM usage_record WHERE t_start>=t_end") == 0,
             "a record ends before it begins");
        must(number_of(database, "SELECT count(*) FROM usage_record WHERE t_start/900000000<>"
                                 "(t_end-1)/900000000") == 0,
             "a record crosses a quarter of an hour");
        must(number_of(database, "SELECT count(*) FROM event WHERE kind='clock_step' AND mono IS "
                                 "NOT NULL") == steps_of_round,
             "a step has no event");
        must(number_of(database, "SELECT count(*) FROM usage_record WHERE flags & 16") > 0 ||
                 steps_of_round == 0,
             "no record is marked");
    }
    std::printf("{\"clock_steps\": %llu}\n", static_cast<unsigned long long>(steps));
}

namespace {

// A flow that counts 1000 bytes in each quarter of an hour from `from` until `to`.
void count_quarters(const std::string& folder, int64_t from_us, int64_t to_us) {
    auto ledger = must_have(Ledger::open(ledger_options(folder, "boot"), from_us), "start");
    open_session(*ledger, 1, "alice", from_us);
    flow::LiveSlot* slot = ledger->live().take(slot_request(1, 1, from_us));
    constexpr int64_t kQuarter = kHourUs / 4;
    for (int64_t at_us = from_us; at_us < to_us; at_us += kQuarter) {
        count(*slot, 1000, at_us + kQuarter / 2);
        must(ledger->tick(at_us + kQuarter).has_value(), "seal");
    }
    must(ledger->stop(to_us, flow::Cause::Admin).has_value(), "the last seal fails");
}

struct ZoneCase {
    const char* zone;
    const char* from;  // local
    const char* to;
    int64_t quarters[3];  // of the three days
};

}  // namespace

// Days of 23, 24 and 25 hours, and borders that are at three quarters of an hour of UTC.
void run_zones(const Settings& settings) {
    constexpr ZoneCase kCases[] = {
        {"Europe/Zurich", "2026-03-28", "2026-03-31", {96, 92, 96}},
        {"Europe/Zurich", "2026-10-24", "2026-10-27", {96, 100, 96}},
        {"Asia/Kathmandu", "2026-10-24", "2026-10-27", {96, 96, 96}},
    };
    for (const ZoneCase& one : kCases) {
        const TrialFolder folder(settings);
        const auto zone = must_have(snapt::store::TimeZone::load(one.zone), one.zone);
        count_quarters(folder.path(), zone.parse_time_us(one.from).value(),
                       zone.parse_time_us(one.to).value());
        auto database = database_of(folder.path());
        snapt::ledger::UsageQuery query;
        query.by = {snapt::ledger::UsageKey::Day};
        query.zone = one.zone;
        const auto rows = must_have(snapt::ledger::query_usage(database, query), "usage").rows;
        must(rows.size() == 3, std::string(one.zone) + ": not three days");
        for (size_t day = 0; day < rows.size(); ++day) {
            must(rows[day].payload_up == one.quarters[day] * 1000,
                 std::string(one.zone) + ": " + rows[day].day.value_or("") + " has " +
                     std::to_string(rows[day].payload_up) + " bytes");
        }
        must_verify(folder.path());
    }
    std::printf("{\"days\": %zu}\n", 3 * std::size(kCases));
}

}  // namespace continuo::bench
