// A month of a provider, and a year of one of its users: what `usage`, a page of records, a
// statement and the web page cost on them.
#include "common/base/traffic_class.hpp"
#include "snapt/accounting/account_statement.hpp"
#include "snapt/accounting/plan_store.hpp"
#include "snapt/accounting/record_store.hpp"
#include "snapt/accounting/usage.hpp"
#include "snapt/accounting/usage_booker.hpp"
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
// The year that ends with the month.
constexpr int64_t kYearUs = 365 * 24 * kHourUs;
constexpr int64_t kYearBeginUs = kMonthBeginUs + kMonthUs - kYearUs;
constexpr uint64_t kUsers = 1000;
constexpr uint64_t kMany = 10'000'000;
constexpr uint64_t kRecordsOfAFlow = 3;
constexpr const char* kSettings = "PRAGMA synchronous=OFF; PRAGMA cache_size=-500000;";
// So much of the records is written as a SNAPT does it.
constexpr uint64_t kPart = 20;
// The account whose usage is charged, and asked for by itself.
constexpr int64_t kChargedAccount = 8;
constexpr const char* kChargedUser = "user-7";
// Who has a record in each minute of a year.
constexpr int64_t kYearAccount = 9;
constexpr const char* kYearUser = "user-8";
constexpr uint64_t kYearRecords = 365 * 24 * 60;

std::string ledger_path(const std::string& folder) {
    return folder + "/" + snapt::kLedgerFileName;
}

void make_accounts(Database& database) {
    for (uint64_t user = 0; user < kUsers; ++user) {
        const std::string sql =
            "INSERT INTO account(user_id) VALUES('user-" + std::to_string(user) + "')";
        must(database.execute(sql.c_str()).has_value(), "account");
    }
}

struct Part {
    int64_t epoch = 0;
    uint64_t records = 0;
    int64_t account = 0;  // 0: of all in turn
    int64_t begin_us = kMonthBeginUs;
    int64_t length_us = kMonthUs;
    bool has_sums = true;
};

// Records of a span in the order in which a SNAPT seals them: each minute those of some flows, with
// their sums.
void write_records(Database& database, const Part& part, base::Random& random) {
    auto store = must_have(snapt::RecordStore::open(database), "records");
    snapt::RecordSums sums;
    const auto seal = [&] {
        must(!part.has_sums || store.write(sums).has_value(), "sums");
        sums = {};
    };
    flow::UsageRecord record;
    record.snapt_id = "zrh-1";
    record.epoch = part.epoch;
    record.proto = 6;
    record.active_us = 30 * kSecondUs;
    record.cnapt_id = "laptop";
    const uint64_t minutes = static_cast<uint64_t>(part.length_us / (60 * kSecondUs));
    must(database.execute("BEGIN").has_value(), "begin");
    for (uint64_t i = 0; i < part.records; ++i) {
        record.seq = static_cast<int64_t>(i);
        record.account_id =
            part.account != 0 ? part.account : 1 + static_cast<int64_t>(random.below(kUsers));
        record.user_id = "user-" + std::to_string(record.account_id - 1);
        record.flow_id = static_cast<int64_t>(i / kRecordsOfAFlow);
        record.flags = flow::record_flag::kHasAccount | flow::record_flag::kLossUnknown |
                       (i % kRecordsOfAFlow == 0 ? flow::record_flag::kFirst : 0U);
        record.cls = static_cast<int64_t>(random.below(4));
        const int64_t before = record.t_end;
        record.t_end =
            part.begin_us + static_cast<int64_t>(i * minutes / part.records + 1) * 60 * kSecondUs;
        if (record.t_end != before) {
            seal();
        }
        record.t_start = record.t_end - 60 * kSecondUs;
        record.pay_down = static_cast<int64_t>(random.below(1'000'000));
        record.inner_down = record.pay_down + 4000;
        record.pkt_down = 100;
        record.pre = record.inner_down;
        record.post = record.pre * 9 / 10;
        record.delay_us = 20'000;
        record.delay_src = flow::delay_source::kTunnel;
        record.jitter_us = 1000;
        must(store.insert(record, sums).has_value(), "record");
        if (i % 100'000 == 99'999) {
            seal();
            must(database.execute("COMMIT; BEGIN").has_value(), "commit");
        }
    }
    seal();
    must(database.execute("COMMIT; PRAGMA wal_checkpoint(TRUNCATE);").has_value(), "commit");
}

double seconds_since(std::chrono::steady_clock::time_point began) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

void book_month(Database& database) {
    std::string plan =
        "[plan]\nname = \"month\"\ndelay_unknown_ms = 100\np_max_denarii_per_vu = 1\n";
    for (const base::TrafficClass traffic_class : base::kAllTrafficClasses) {
        plan += "[plan.class.";
        plan += base::token(traffic_class);
        plan += "]\nx_kbps = [0, 64]\nd_ms = [0, 100]\nu = [[0, 0], [0.01, 0.005]]\nk_x = 10\n";
    }
    const auto added = must_have(snapt::add_plan(database, "month", plan, kMonthBeginUs), "plan");
    must(snapt::use_plan(database, {kChargedAccount, added.plan.plan_id, kMonthBeginUs},
                         kMonthBeginUs, "root")
             .has_value(),
         "plan in use");
    snapt::UsageBooker booker(database);
    size_t entries = 0;
    for (snapt::Booked some;
         (some = must_have(booker.step(kMonthBeginUs + kMonthUs, snapt::kBookAll), "booking"))
             .has_more;) {
        entries += some.entries;
    }
    must(entries > 0, "nothing is booked");
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

// The questions, each three times.
class Questions {
  public:
    explicit Questions(Database& database) : database_(database) {}

    double usage(const std::vector<snapt::UsageKey>& by, const char* user = nullptr) {
        snapt::UsageQuery query;
        query.by = by;
        query.zone = "Europe/Zurich";
        if (user != nullptr) {
            query.user = user;
        }
        return seconds_of([&] { ask(query); });
    }
    // The year, in the user's zone.
    double year(const std::vector<snapt::UsageKey>& by) {
        snapt::UsageQuery query;
        query.by = by;
        query.zone = "Europe/Zurich";
        query.user = kYearUser;
        query.from_us = kYearBeginUs - kHourUs;
        query.to_us = kYearBeginUs + kYearUs - kHourUs;
        return seconds_of([&] { ask(query); });
    }
    double statement() {
        return seconds_of([&] {
            const auto month = must_have(
                snapt::account_statement(database_, kChargedAccount, "2026-11", "Europe/Zurich"),
                "statement");
            must(month.total.records > 0, "an empty statement");
        });
    }
    // The web page asks for this when it opens: the days and the users of the zone's month.
    double web_page() {
        return seconds_of([&] {
            snapt::UsageQuery query;
            query.zone = "Europe/Zurich";
            query.from_us = kMonthBeginUs - kHourUs;
            query.to_us = kMonthBeginUs + kMonthUs - kHourUs;
            query.by = {snapt::UsageKey::Day, snapt::UsageKey::Class};
            ask(query);
            query.by = {snapt::UsageKey::User};
            ask(query);
        });
    }
    double page_behind(int64_t seq) {
        return seconds_of([&] {
            uint64_t seen = 0;
            const snapt::RecordPlace after{"zrh-1", 3, seq};
            must(snapt::visit_records_of(
                     database_, {}, 1000, [&seen](const flow::UsageRecord&) { return ++seen > 0; },
                     after)
                     .has_value(),
                 "page");
            must(seen > 0, "an empty page");
        });
    }

  private:
    void ask(const snapt::UsageQuery& query) {
        must(!must_have(snapt::query_usage(database_, query), "usage").rows.empty(), "no rows");
    }

    Database& database_;
};

// One account's records, and their charges. Then those of all: a part of them as a SNAPT writes
// them, the others without sums, which are made at last as an older database gets them.
void make_month(const std::string& folder, uint64_t records, base::Random& random) {
    auto database = must_have(Database::open(ledger_path(folder), OpenMode::Renew), "ledger");
    must(database.execute(kSettings).has_value(), "settings");
    make_accounts(database);
    const uint64_t charged = std::min<uint64_t>(records, 4 * 30 * 24 * 4);
    write_records(database, {1, charged, kChargedAccount}, random);
    book_month(database);
    const uint64_t part = records / kPart;
    auto began = std::chrono::steady_clock::now();
    write_records(database, {2, part}, random);
    const double written = seconds_since(began);
    Part rest{3, records - part};
    rest.has_sums = false;
    write_records(database, rest, random);
    must(database
             .execute(
                 "DROP TABLE usage_sum; DROP TRIGGER usage_is_subtracted; DROP TRIGGER "
                 "charge_is_summed; DROP TABLE snapt_price; ALTER TABLE event DROP COLUMN mono; "
                 "PRAGMA user_version=11")
             .has_value(),
         "an older version");
    began = std::chrono::steady_clock::now();
    must_have(Database::open(ledger_path(folder), OpenMode::Renew), "renewal");
    std::printf("\"record_us\": %.1f, \"renewed_s\": %.1f, ",
                written / static_cast<double>(part) * 1e6, seconds_since(began));
}

void ask_about_month(const std::string& folder, uint64_t records) {
    auto database = must_have(Database::open(ledger_path(folder), OpenMode::ReadOnly), "ledger");
    using enum snapt::UsageKey;
    Questions questions(database);
    std::printf("\"usage_s\": %.3f, \"by_user_s\": %.3f, \"by_day_s\": %.3f, ", questions.usage({}),
                questions.usage({User}), questions.usage({Day}));
    std::printf("\"of_user_s\": %.4f, \"days_of_user_s\": %.4f, \"statement_s\": %.3f, ",
                questions.usage({Month}, kChargedUser), questions.usage({Day, Class}, kChargedUser),
                questions.statement());
    std::printf("\"web_page_s\": %.3f, \"page_s\": %.4f, ", questions.web_page(),
                questions.page_behind(static_cast<int64_t>(records / 2)));
}

// After the questions about the month alone.
void make_year(const std::string& folder, uint64_t records, base::Random& random) {
    auto database = must_have(Database::open(ledger_path(folder), OpenMode::Renew), "ledger");
    must(database.execute(kSettings).has_value(), "settings");
    Part year;
    year.epoch = 4;
    year.records = std::min(records, kYearRecords);
    year.account = kYearAccount;
    year.begin_us = kYearBeginUs;
    year.length_us = kYearUs;
    write_records(database, year, random);
    std::printf("\"year_records\": %llu, ", static_cast<unsigned long long>(year.records));
}

void ask_about_year(const std::string& folder) {
    auto database = must_have(Database::open(ledger_path(folder), OpenMode::ReadOnly), "ledger");
    using enum snapt::UsageKey;
    Questions questions(database);
    std::printf("\"year_s\": %.4f, \"months_of_year_s\": %.4f, \"days_of_year_s\": %.4f}\n",
                questions.year({}), questions.year({Month}), questions.year({Day, Class}));
}

}  // namespace

void run_month(const Settings& settings) {
    const TrialFolder folder(settings);
    const uint64_t records = settings.rounds != 0 ? settings.rounds : kMany;
    base::SeededRandom random(settings.seed);
    std::printf("{\"records\": %llu, ", static_cast<unsigned long long>(records));
    make_month(folder.path(), records, random);
    ask_about_month(folder.path(), records);
    make_year(folder.path(), records, random);
    ask_about_year(folder.path());
}

}  // namespace continuo::bench
