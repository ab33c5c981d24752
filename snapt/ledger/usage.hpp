// Usage: sums of usage records (usage_sums.hpp has most of them) by user, class, SNAPT, day, month
// or application, for `snapt usage` and `cnapt usage`. Seal first (Accountant::usage does), so that
// live flows are included.
#pragma once

#include "common/base/result.hpp"
#include "common/base/traffic_class.hpp"
#include "snapt/store/account.hpp"
#include "snapt/store/database.hpp"
#include "snapt/store/time_zone.hpp"

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace continuo::snapt::ledger {

enum class UsageKey : uint8_t { User, Class, Snapt, Day, Month, App };

std::optional<UsageKey> parse_usage_key(std::string_view text);  // "user", "class", …
std::string_view to_string(UsageKey key);

struct UsageQuery {
    std::vector<UsageKey> by;         // each at most once; empty: one row with everything
    std::optional<int64_t> from_us;   // UTC, inclusive
    std::optional<int64_t> to_us;     // exclusive
    std::string zone = "UTC";         // in which days and months begin
    std::optional<std::string> user;  // only of accounts of this name
    bool is_own = false;              // the user's own question, about `account_id` only
    int64_t account_id = store::kNoAccount;
};

inline constexpr size_t kMaxUsageRows = 20'000;

struct UsageLimits {
    size_t rows = kMaxUsageRows;
    std::function<bool()> give_up;  // called at intervals; true: it takes too long
};

// Fields as in the JSON of `usage`. A key that was not requested is empty; so is `app` of flows
// without one. By user there is a row per account; a user's own question omits the account.
struct UsageRow {
    std::optional<std::string> user;
    std::optional<int64_t> account_id;
    std::optional<std::string> removed;  // the day in the query's zone; empty: the account exists
    std::optional<base::TrafficClass> traffic_class;
    std::optional<std::string> snapt;
    std::optional<std::string> day;    // "2026-11-01"
    std::optional<std::string> month;  // "2026-11"
    std::optional<std::string> app;
    int64_t flows = 0;  // begun in the group: their first record is in it
    int64_t payload_up = 0;
    int64_t payload_down = 0;
    int64_t inner_up = 0;
    int64_t inner_down = 0;
    int64_t pre = 0;
    int64_t post = 0;
    int64_t undelivered = 0;              // inner bytes down, not in any other sum
    int64_t tun_up = 0;                   // outer bytes of control, padding, copies and repeats
    int64_t tun_down = 0;                 // the same
    int64_t as_sent = 0;                  // post and both: everything that the tunnel carried
    int64_t saved = 0;                    // pre - post; may be negative
    std::optional<double> saved_percent;  // in percent of pre
    // Booked so far; unknown if no plan was ever in use, by app, and in a span that does not begin
    // and end with a quarter of an hour.
    std::optional<int64_t> gross_ud;
    std::optional<int64_t> discount_ud;
    std::optional<int64_t> net_ud;
    // The account's balance now, by user alone; empty without bookings.
    std::optional<int64_t> balance_ud;
};

struct UsageReport {
    std::optional<int64_t> from_us;
    std::optional<int64_t> to_us;
    std::string zone;
    std::vector<UsageRow> rows;  // ordered by the keys
    // The price here now, in permille of the plan's. Nothing where only records are read.
    std::optional<uint32_t> price_permille{};
};

// NotFound for an unknown zone, InvalidConfig for a repeated key, LimitReached beyond `limits`.
base::Result<UsageReport>
query_usage(store::Database& database, const UsageQuery& query, const UsageLimits& limits = {});
// Like query_usage(): reads sums, and uses the users' index for a question about one.
std::string usage_sql(const UsageQuery& query);

// The records of a query: SQL from FROM on, without grouping, and its parameters, which are the
// statement's only ones.
std::string usage_source_sql(const UsageQuery& query);
// The same, using only the index of the records' keys.
std::string usage_scan_sql(const UsageQuery& query);
void bind_usage(store::Statement& statement, const UsageQuery& query);

}  // namespace continuo::snapt::ledger
