#include "snapt/accounting/usage.hpp"

#include <algorithm>
#include <array>
#include <limits>

namespace continuo::snapt {
namespace {

using base::Errc;
using base::Error;
using base::Result;

struct KeyName {
    UsageKey key;
    std::string_view name;
    std::string_view column;
};
// A record is booked at its last microsecond: t_end itself may be the next day's first.
constexpr std::array<KeyName, 6> kKeys = {{{UsageKey::User, "user", "user_id"},
                                           {UsageKey::Class, "class", "cls"},
                                           {UsageKey::Snapt, "snapt", "snapt_id"},
                                           {UsageKey::Day, "day", "zone_day(t_end-1)"},
                                           {UsageKey::Month, "month", "zone_month(t_end-1)"},
                                           {UsageKey::App, "app", "app"}}};

std::string sql_of(const UsageQuery& query) {
    std::string sql = "SELECT ";
    std::string numbers;
    for (size_t i = 0; i < query.by.size(); ++i) {
        sql += kKeys[static_cast<size_t>(query.by[i])].column;
        sql += ", ";
        numbers += (i == 0 ? "" : ",") + std::to_string(i + 1);
    }
    sql += "count(DISTINCT epoch||'/'||flow_id||'/'||snapt_id)";
    for (const char* column : {"pay_up", "pay_down", "inner_up", "inner_down", "pre", "post"}) {
        sql += std::string(", coalesce(sum(") + column + "),0)";
    }
    sql += " FROM usage_record WHERE t_end>?1 AND t_end<=?2 AND (?3 IS NULL OR user_id=?3)";
    if (!query.by.empty()) {
        sql += " GROUP BY " + numbers + " ORDER BY " + numbers;
    }
    return sql;
}

void read_key(const Statement& statement, int column, UsageKey key, UsageRow& row) {
    switch (key) {
    case UsageKey::User:
        row.user = statement.text(column);
        break;
    case UsageKey::Class:
        row.traffic_class = static_cast<base::TrafficClass>(statement.integer(column));
        break;
    case UsageKey::Snapt:
        row.snapt = statement.text(column);
        break;
    case UsageKey::Day:
        row.day = statement.text(column);
        break;
    case UsageKey::Month:
        row.month = statement.text(column);
        break;
    case UsageKey::App:
        row.app = statement.optional_text(column);
        break;
    }
}

UsageRow row_of(const Statement& statement, const std::vector<UsageKey>& by) {
    UsageRow row;
    int column = 0;
    for (const UsageKey key : by) {
        read_key(statement, column++, key, row);
    }
    for (int64_t* sum : {&row.flows, &row.payload_up, &row.payload_down, &row.inner_up,
                         &row.inner_down, &row.pre, &row.post}) {
        *sum = statement.integer(column++);
    }
    row.saved = row.pre - row.post;
    if (row.pre > 0) {
        row.saved_percent = 100.0 * static_cast<double>(row.saved) / static_cast<double>(row.pre);
    }
    return row;
}

}  // namespace

std::optional<UsageKey> parse_usage_key(std::string_view text) {
    const auto* found = std::find_if(kKeys.begin(), kKeys.end(),
                                     [&](const KeyName& key) { return key.name == text; });
    return found == kKeys.end() ? std::nullopt : std::optional(found->key);
}

std::string_view to_string(UsageKey key) {
    return kKeys[static_cast<size_t>(key)].name;
}

Result<UsageReport> query_usage(Database& database, const UsageQuery& query) {
    for (auto key = query.by.begin(); key != query.by.end(); ++key) {
        if (std::find(query.by.begin(), key, *key) != key) {
            return Error{Errc::InvalidConfig, "a usage key is named twice", 0};
        }
    }
    const TimeZone zone = CTN_TRY(TimeZone::load(query.zone));
    CTN_TRY(database.set_zone(zone));
    UsageReport report{query.from_us, query.to_us, query.zone, {}};
    Statement select = CTN_TRY(database.prepare(sql_of(query).c_str()));
    select.bind(1, query.from_us.value_or(std::numeric_limits<int64_t>::min()))
        .bind(2, query.to_us.value_or(std::numeric_limits<int64_t>::max()))
        .bind(3, query.user);
    while (CTN_TRY(select.step())) {
        report.rows.push_back(row_of(select, query.by));
    }
    return report;
}

}  // namespace continuo::snapt
