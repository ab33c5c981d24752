#include "snapt/accounting/usage.hpp"

#include "common/flow/accounting_record.hpp"
#include "common/flow/slot_source.hpp"
#include "snapt/accounting/charges.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <map>

namespace continuo::snapt {
namespace {

using base::Errc;
using base::Error;
using base::Result;

struct KeyName {
    UsageKey key;
    std::string_view name;
    std::string_view column;
    std::string_view of_charge;  // the same of a charge, which has no application
};
// A record is booked at its last microsecond: t_end itself may be the first of the next day.
constexpr std::array<KeyName, 6> kKeys = {
    {{UsageKey::User, "user", "user_id, account_id", "a.user_id, c.account_id"},
     {UsageKey::Class, "class", "cls", "c.cls"},
     {UsageKey::Snapt, "snapt", "snapt_id", "c.snapt_id"},
     {UsageKey::Day, "day", "zone_day(t_end-1)", "zone_day(c.quarter*900000000)"},
     {UsageKey::Month, "month", "zone_month(t_end-1)", "zone_month(c.quarter*900000000)"},
     {UsageKey::App, "app", "app", ""}}};
static_assert(kQuarterUs == 900'000'000);

constexpr Error kTooManyRows{Errc::LimitReached,
                             "too many rows: narrow by --from and --to, or group by less", 0};
constexpr Error kTooLong{Errc::LimitReached,
                         "too many records: narrow by --from and --to, or by --user", 0};

// Records without an account belong to sessions that were never opened.
constexpr const char* kAccountsOfName =
    " account_id IN (SELECT account_id FROM account WHERE user_id=?3 UNION ALL SELECT 0) AND";

constexpr int columns_of(UsageKey key) {
    return key == UsageKey::User ? 2 : 1;
}

// SQLite calls it while this lives.
class GiveUp {
  public:
    GiveUp(Database& database, const std::function<bool()>& asked) : database_(database) {
        database_.set_give_up(asked ? &asked : nullptr);
    }
    GiveUp(const GiveUp&) = delete;
    GiveUp& operator=(const GiveUp&) = delete;
    ~GiveUp() { database_.set_give_up(nullptr); }

  private:
    Database& database_;
};

}  // namespace

std::string usage_source_sql(const UsageQuery& query) {
    std::string sql = query.user
                          ? " FROM usage_record INDEXED BY usage_account_time WHERE user_id=?3 AND"
                          : " FROM usage_record WHERE";
    if (query.user) {
        sql += query.is_own ? " account_id=?4 AND" : kAccountsOfName;
    }
    return sql + " t_end>?1 AND t_end<=?2";
}

std::string usage_scan_sql(const UsageQuery& query) {
    std::string sql = " FROM usage_record WHERE";
    if (query.user) {
        sql += " +user_id=?3 AND";
        sql += query.is_own ? " +account_id=?4 AND" : "";
    }
    return sql + " +t_end>?1 AND +t_end<=?2";
}

void bind_usage(Statement& statement, const UsageQuery& query) {
    statement.bind(1, query.from_us.value_or(std::numeric_limits<int64_t>::min()))
        .bind(2, query.to_us.value_or(std::numeric_limits<int64_t>::max()));
    if (query.user) {
        statement.bind(3, query.user);
    }
    if (query.user && query.is_own) {
        statement.bind(4, query.account_id);
    }
}

std::string usage_sql(const UsageQuery& query) {
    // A flow counts once, whatever classes it has had.
    const std::string number_bits =
        std::to_string(static_cast<int64_t>(flow::flow_number(~uint64_t{0})));
    std::string sql = "SELECT ";
    std::string numbers;
    size_t columns = 0;
    for (const UsageKey key : query.by) {
        sql += kKeys[static_cast<size_t>(key)].column;
        sql += ", ";
        for (int i = 0; i < columns_of(key); ++i) {
            numbers += (columns == 0 ? "" : ",") + std::to_string(columns + 1);
            ++columns;
        }
    }
    static_assert(flow::record_flag::kTunnel == 512);
    sql += "count(DISTINCT CASE WHEN flags&512=0 THEN epoch||'/'||(flow_id&" + number_bits +
           ")||'/'||snapt_id END)";
    for (const char* column : {"pay_up", "pay_down", "inner_up", "inner_down", "pre", "post",
                               "undelivered", "tun_up", "tun_down"}) {
        sql += std::string(", coalesce(sum(") + column + "),0)";
    }
    sql += usage_source_sql(query);
    if (!query.by.empty()) {
        sql += " GROUP BY " + numbers + " ORDER BY " + numbers;
    }
    return sql;
}

namespace {

void read_key(const Statement& statement, int column, UsageKey key, UsageRow& row) {
    switch (key) {
    case UsageKey::User:
        row.user = statement.text(column);
        row.account_id = statement.integer(column + 1);
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
        read_key(statement, column, key, row);
        column += columns_of(key);
    }
    for (int64_t* sum :
         {&row.flows, &row.payload_up, &row.payload_down, &row.inner_up, &row.inner_down, &row.pre,
          &row.post, &row.undelivered, &row.tun_up, &row.tun_down}) {
        *sum = statement.integer(column++);
    }
    row.saved = row.pre - row.post;
    row.as_sent = row.post + row.tun_up + row.tun_down;
    if (row.pre > 0) {
        row.saved_percent = 100.0 * static_cast<double>(row.saved) / static_cast<double>(row.pre);
    }
    return row;
}

// Name and removal of the account.
Result<void>
complete(UsageRow& row, const UsageQuery& query, const TimeZone& zone, Statement& account) {
    if (query.is_own) {
        row.account_id.reset();
    }
    if (!row.account_id) {
        return {};
    }
    if (CTN_TRY(account.bind(1, *row.account_id).step())) {
        row.removed = zone.day(account.integer(0));
        CTN_TRY(account.run());
    }
    return {};
}

// Charges cover whole quarters of an hour and all applications.
bool has_charges(const UsageQuery& query) {
    const auto is_border = [](const std::optional<int64_t>& at_us) {
        return !at_us || *at_us % kQuarterUs == 0;
    };
    return is_border(query.from_us) && is_border(query.to_us) &&
           std::find(query.by.begin(), query.by.end(), UsageKey::App) == query.by.end();
}

std::string charges_sql(const UsageQuery& query) {
    std::string columns;
    for (const UsageKey key : query.by) {
        columns += kKeys[static_cast<size_t>(key)].of_charge;
        columns += ", ";
    }
    std::string sql = "SELECT " + columns +
                      "coalesce(sum(c.gross_ud),0), coalesce(sum(c.discount_ud),0) FROM charge c "
                      "JOIN account a USING(account_id) WHERE c.quarter>=?1 AND c.quarter<?2 AND "
                      "NOT EXISTS(SELECT 1 FROM charge r WHERE r.replaces=c.charge_id)";
    sql += query.user ? " AND a.user_id=?3" : "";
    sql += query.user && query.is_own ? " AND c.account_id=?4" : "";
    if (!query.by.empty()) {
        sql += " GROUP BY " + columns.substr(0, columns.size() - 2);
    }
    return sql;
}

// A text equal for two rows of a report only if they are the same row.
std::string place_of(const UsageRow& row) {
    std::string place;
    for (const std::optional<std::string>* part : {&row.user, &row.snapt, &row.day, &row.month}) {
        place += *part ? std::to_string((*part)->size()) + ":" + **part : "-";
    }
    place += row.account_id ? std::to_string(*row.account_id) : "-";
    return place + "/" +
           (row.traffic_class ? std::to_string(base::index_of(*row.traffic_class)) : "-");
}

// The charges booked so far, where there was a plan.
Result<void> add_charges(Database& database, const UsageQuery& query, UsageReport& report) {
    Statement plans = CTN_TRY(database.prepare("SELECT 1 FROM plan_use LIMIT 1"));
    if (!has_charges(query) || !CTN_TRY(plans.step())) {
        return {};
    }
    Statement select = CTN_TRY(database.prepare(charges_sql(query).c_str()));
    bind_usage(select, query);
    if (query.from_us) {
        select.bind(1, *query.from_us / kQuarterUs);
    }
    if (query.to_us) {
        select.bind(2, *query.to_us / kQuarterUs);
    }
    std::map<std::string, std::pair<int64_t, int64_t>> sums;
    while (CTN_TRY(select.step())) {
        UsageRow row;
        int column = 0;
        for (const UsageKey key : query.by) {
            read_key(select, column, key, row);
            column += columns_of(key);
        }
        if (query.is_own) {
            row.account_id.reset();
        }
        sums[place_of(row)] = {select.integer(column), select.integer(column + 1)};
    }
    for (UsageRow& row : report.rows) {
        const auto [gross_ud, discount_ud] = sums[place_of(row)];
        row.gross_ud = gross_ud;
        row.discount_ud = discount_ud;
        row.net_ud = gross_ud - discount_ud;
    }
    return {};
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

Result<UsageReport>
query_usage(Database& database, const UsageQuery& query, const UsageLimits& limits) {
    for (auto key = query.by.begin(); key != query.by.end(); ++key) {
        if (std::find(query.by.begin(), key, *key) != key) {
            return Error{Errc::InvalidConfig, "a usage key is named twice", 0};
        }
    }
    const TimeZone zone = CTN_TRY(TimeZone::load(query.zone));
    CTN_TRY(database.set_zone(zone));
    UsageReport report{query.from_us, query.to_us, query.zone, {}};
    const GiveUp give_up(database, limits.give_up);
    Statement select = CTN_TRY(database.prepare(usage_sql(query).c_str()));
    bind_usage(select, query);
    Statement account =
        CTN_TRY(database.prepare("SELECT removed FROM account WHERE account_id=? AND removed>0"));
    while (true) {
        const auto row = select.step();
        if (!row && row.error().code == Errc::LimitReached) {
            return kTooLong;
        }
        if (!CTN_TRY(row)) {
            break;
        }
        if (report.rows.size() >= limits.rows) {
            return kTooManyRows;
        }
        report.rows.push_back(row_of(select, query.by));
        CTN_TRY(complete(report.rows.back(), query, zone, account));
    }
    const auto charged = add_charges(database, query, report);
    if (!charged && charged.error().code == Errc::LimitReached) {
        return kTooLong;
    }
    CTN_TRY(charged);
    return report;
}

}  // namespace continuo::snapt
