#include "snapt/ledger/usage.hpp"

#include "common/flow/accounting_record.hpp"
#include "common/flow/slot_source.hpp"
#include "snapt/ledger/charges.hpp"
#include "snapt/store/usage_sums.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <limits>

namespace continuo::snapt::ledger {
namespace {

using base::Errc;
using base::Error;
using base::Result;
using store::Database;
using store::kQuartersOfDay;
using store::kSumDayUs;
using store::Statement;
using store::TimeZone;

struct KeyName {
    UsageKey key;
    std::string_view name;
    std::string_view column;
};
// A record is booked at its last microsecond: t_end itself may be the next day's first.
constexpr std::array<KeyName, 6> kKeys = {{{UsageKey::User, "user", "user_id, account_id"},
                                           {UsageKey::Class, "class", "cls"},
                                           {UsageKey::Snapt, "snapt", "snapt_id"},
                                           {UsageKey::Day, "day", "zone_day(at_us)"},
                                           {UsageKey::Month, "month", "zone_month(at_us)"},
                                           {UsageKey::App, "app", "nullif(app,'')"}}};
static_assert(kQuarterUs == 900'000'000 && kSumDayUs == 86'400'000'000 && kQuartersOfDay == 96);
static_assert(flow::record_flag::kFirst == 1 && flow::record_flag::kTunnel == 512);
static_assert(flow::kFlowNumberBits == 53 && flow::kMostClassChanges == 255);

// Columns of the sums, in their order, and the same of a record.
constexpr std::array<std::string_view, 13> kSums = {
    "records", "flows",       "pay_up", "pay_down", "inner_up", "inner_down", "pre",
    "post",    "undelivered", "tun_up", "tun_down", "gross_ud", "discount_ud"};
constexpr std::array<std::string_view, kSums.size()> kSumsOfRecord = {
    "1",
    "((flags&513)=1 AND ((flow_id>>53)&255)=0)",
    "pay_up",
    "pay_down",
    "inner_up",
    "inner_down",
    "pre",
    "post",
    "coalesce(undelivered,0)",
    "coalesce(tun_up,0)",
    "coalesce(tun_down,0)",
    "0",
    "0"};

// Spans without an end: whole days, further away than any time.
constexpr int64_t kFarUs = std::numeric_limits<int64_t>::max() / kSumDayUs * kSumDayUs;

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

std::string joined(std::initializer_list<std::string_view> parts) {
    std::string sql;
    for (const std::string_view part : parts) {
        sql += part;
    }
    return sql;
}

// Records by their end: SQL from FROM on, to which the span is added.
std::string records_by_end(const UsageQuery& query) {
    std::string sql = query.user
                          ? " FROM usage_record INDEXED BY usage_account_time WHERE user_id=?3 AND"
                          : " FROM usage_record WHERE";
    if (query.user) {
        sql += query.is_own ? " account_id=?4 AND" : kAccountsOfName;
    }
    return sql;
}

}  // namespace

std::string usage_source_sql(const UsageQuery& query) {
    return records_by_end(query) + " t_end>?1 AND t_end<=?2";
}

std::string usage_scan_sql(const UsageQuery& query) {
    std::string sql = " FROM usage_record WHERE";
    if (query.user) {
        sql += " +user_id=?3 AND";
        sql += query.is_own ? " +account_id=?4 AND" : "";
    }
    return sql + " +t_end>?1 AND +t_end<=?2";
}

namespace {

void bind_user(Statement& statement, const UsageQuery& query) {
    if (query.user) {
        statement.bind(3, query.user);
    }
    if (query.user && query.is_own) {
        statement.bind(4, query.account_id);
    }
}

}  // namespace

void bind_usage(Statement& statement, const UsageQuery& query) {
    statement.bind(1, query.from_us.value_or(std::numeric_limits<int64_t>::min()))
        .bind(2, query.to_us.value_or(std::numeric_limits<int64_t>::max()));
    bind_user(statement, query);
}

namespace {

int64_t floor_of(int64_t value, int64_t unit) {
    return value / unit - (value % unit < 0 ? 1 : 0);
}
int64_t ceil_of(int64_t value, int64_t unit) {
    return value / unit + (value % unit > 0 ? 1 : 0);
}

bool has_key(const UsageQuery& query, UsageKey key) {
    return std::find(query.by.begin(), query.by.end(), key) != query.by.end();
}

// For a UTC day: its begin, its quarter with which the zone's next day begins, and a time in the
// larger of the parts that this makes.
constexpr std::string_view kDayBegin = "unit*86400000000";
constexpr std::string_view kMidnight = "zone_midnight(unit*86400000000)";
constexpr std::string_view kLargerPart =
    "unit*86400000000+iif(zone_midnight(unit*86400000000)<=48,86399999999,0)";
constexpr std::string_view kQuartersOfAccount =
    " CROSS JOIN usage_sum s ON s.unit_s=900 AND s.user_id=d.user_id AND "
    "s.account_id=d.account_id AND s.unit>=";

// The sources of a query: whole days of its span, whole quarters of an hour of the days that
// its borders cut, and records of the quarters that they cut.
class UsageSources {
  public:
    explicit UsageSources(const UsageQuery& query)
        : query_(query)
        , from_us_(std::clamp(query.from_us.value_or(-kFarUs), -kFarUs, kFarUs))
        , to_us_(std::clamp(query.to_us.value_or(kFarUs), -kFarUs, kFarUs))
        , first_quarter_(ceil_of(from_us_, kQuarterUs))
        , end_quarter_(floor_of(to_us_, kQuarterUs))
        , first_day_(ceil_of(first_quarter_, kQuartersOfDay))
        , end_day_(floor_of(end_quarter_, kQuartersOfDay)) {}

    std::string sql() {
        if (first_quarter_ >= end_quarter_) {
            add_records(from_us_, to_us_);
            return std::move(sql_);
        }
        if (first_day_ < end_day_) {
            add_days();
        }
        if (first_day_ < end_day_ && cuts_days()) {
            add_moved();
        }
        const bool has_whole_days = first_quarter_ == first_day_ * kQuartersOfDay &&
                                    end_quarter_ == end_day_ * kQuartersOfDay && !cuts_days();
        if (!has_whole_days) {
            add_quarters();
        }
        if (from_us_ < first_quarter_ * kQuarterUs) {
            add_records(from_us_, first_quarter_ * kQuarterUs);
        }
        if (end_quarter_ * kQuarterUs < to_us_) {
            add_records(end_quarter_ * kQuarterUs, to_us_);
        }
        return std::move(sql_);
    }

  private:
    bool cuts_days() const {
        return has_key(query_, UsageKey::Day) || has_key(query_, UsageKey::Month);
    }

    // The accounts: without a user, of each where rows are by user, else of all together.
    std::string of_account() const {
        if (query_.user) {
            std::string sql = "user_id=?3 AND";
            sql += query_.is_own ? " account_id=?4 AND" : kAccountsOfName;
            return sql;
        }
        const bool is_each = has_key(query_, UsageKey::User);
        return joined({is_each ? "account_id<>" : "user_id='' AND account_id=",
                       std::to_string(store::kAllAccounts), " AND"});
    }

    // Rows by user are of all accounts: those of other days are not to be passed over.
    std::string_view days_table() const {
        return !query_.user && has_key(query_, UsageKey::User)
                   ? "usage_sum INDEXED BY usage_sum_day"
                   : "usage_sum";
    }

    // A day all of which is in the span and in one row, or in two: then the smaller part is moved.
    std::string is_whole_day() const {
        std::string sql =
            joined({"unit>=", std::to_string(first_day_), " AND unit<", std::to_string(end_day_)});
        if (cuts_days()) {
            sql += joined({" AND (", is_in_one_row(), " OR ", kMidnight, " IS NOT NULL)"});
        }
        return sql;
    }

    std::string is_in_one_row() const {
        const std::string_view name = has_key(query_, UsageKey::Day) ? "zone_day" : "zone_month";
        return joined({name, "(", kDayBegin, ")=", name, "(", kDayBegin, "+",
                       std::to_string(kSumDayUs - 1), ")"});
    }

    // Begins a further part of the source; `table` is the name that its columns have, `sign` a
    // factor of its numbers.
    void begin(std::string_view table, std::string_view at_us, std::string_view sign = "") {
        sql_ += sql_.empty() ? "SELECT " : " UNION ALL SELECT ";
        for (const char* column : {"user_id", "account_id", "cls", "snapt_id", "app"}) {
            sql_ += joined({table, column, ","});
        }
        sql_ += joined({at_us, " AS at_us"});
        for (const std::string_view column : kSums) {
            sql_ += joined({",", sign, table, column, " AS ", column});
        }
    }

    void add_days() {
        begin("", cuts_days() ? kLargerPart : kDayBegin);
        sql_ += joined({" FROM ", days_table(), " WHERE unit_s=86400 AND ", of_account(), " ",
                        is_whole_day()});
    }

    // From the row of the larger part of a day to that of the smaller one: its quarters.
    void add_moved() {
        begin("s.", "iif(sign>0,s.unit*900000000,d.at_us)", "sign*");
        sql_ += joined({" FROM (SELECT DISTINCT user_id,account_id,unit,", kMidnight,
                        " AS midnight,", kLargerPart, " AS at_us FROM ", days_table(),
                        " WHERE unit_s=86400 AND ", of_account(), " ", is_whole_day(), " AND NOT ",
                        is_in_one_row(), ") d CROSS JOIN (SELECT 1 AS sign UNION ALL SELECT -1)"});
        sql_ += joined({kQuartersOfAccount, "d.unit*96+iif(midnight<=48,0,midnight)",
                        " AND s.unit<d.unit*96+iif(midnight<=48,midnight,96)"});
    }

    // The sums of days say which accounts have quarters in them.
    void add_quarters() {
        const std::string of_day = std::to_string(kQuartersOfDay);
        begin("s.", "s.unit*900000000");
        sql_ += joined({" FROM (SELECT DISTINCT user_id,account_id,unit FROM ", days_table(),
                        " WHERE unit_s=86400 AND ", of_account(),
                        " unit>=", std::to_string(floor_of(first_quarter_, kQuartersOfDay)),
                        " AND unit<", std::to_string(ceil_of(end_quarter_, kQuartersOfDay)),
                        " AND NOT(", is_whole_day(), ")) d"});
        sql_ += joined({kQuartersOfAccount, "max(", std::to_string(first_quarter_), ",d.unit*",
                        of_day, ") AND s.unit<min(", std::to_string(end_quarter_), ",(d.unit+1)*",
                        of_day, ")"});
    }

    void add_records(int64_t from_us, int64_t to_us) {
        sql_ += sql_.empty() ? "SELECT " : " UNION ALL SELECT ";
        sql_ += "user_id,account_id,cls,snapt_id,coalesce(app,'') AS app,t_end-1 AS at_us";
        size_t place = 0;
        for (const std::string_view column : kSums) {
            sql_ += joined({",", kSumsOfRecord[place++], " AS ", column});
        }
        sql_ += joined({records_by_end(query_), " t_end>", std::to_string(from_us),
                        " AND t_end<=", std::to_string(to_us)});
    }

    const UsageQuery& query_;
    int64_t from_us_;
    int64_t to_us_;
    int64_t first_quarter_;
    int64_t end_quarter_;
    int64_t first_day_;
    int64_t end_day_;
    std::string sql_;
};

}  // namespace

std::string usage_sql(const UsageQuery& query) {
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
    std::string_view separator;
    for (const std::string_view column : kSums) {
        sql += joined({separator, "coalesce(sum(", column, "),0)"});
        separator = ", ";
    }
    sql += joined({" FROM (", UsageSources(query).sql(), ")"});
    if (!query.by.empty()) {
        // Charges stay when the records go.
        sql += joined({" GROUP BY ", numbers, " HAVING sum(records)>0 ORDER BY ", numbers});
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

UsageRow row_of(const Statement& statement, const std::vector<UsageKey>& by, bool has_charges) {
    UsageRow row;
    int column = 0;
    for (const UsageKey key : by) {
        read_key(statement, column, key, row);
        column += columns_of(key);
    }
    ++column;  // records
    for (int64_t* sum :
         {&row.flows, &row.payload_up, &row.payload_down, &row.inner_up, &row.inner_down, &row.pre,
          &row.post, &row.undelivered, &row.tun_up, &row.tun_down}) {
        *sum = statement.integer(column++);
    }
    if (has_charges) {
        row.gross_ud = statement.integer(column);
        row.discount_ud = statement.integer(column + 1);
        row.net_ud = *row.gross_ud - *row.discount_ud;
    }
    row.saved = row.pre - row.post;
    row.as_sent = row.post + row.tun_up + row.tun_down;
    if (row.pre > 0) {
        row.saved_percent = 100.0 * static_cast<double>(row.saved) / static_cast<double>(row.pre);
    }
    return row;
}

// Removal and balance of the account. The balance is of no class and no day.
Result<void>
complete(UsageRow& row, const UsageQuery& query, const TimeZone& zone, Statement& account) {
    if (query.is_own) {
        row.account_id.reset();
    }
    if (!row.account_id) {
        return {};
    }
    if (CTN_TRY(account.bind(1, *row.account_id).step())) {
        if (account.integer(0) > 0) {
            row.removed = zone.day(account.integer(0));
        }
        if (query.by.size() == 1 && !account.is_null(1)) {
            row.balance_ud = account.integer(1);
        }
        CTN_TRY(account.run());
    }
    return {};
}

// Charges are of whole quarters of an hour and of all applications. Nothing is booked where no plan
// was ever in use.
Result<bool> has_charges(Database& database, const UsageQuery& query) {
    const auto is_border = [](const std::optional<int64_t>& at_us) {
        return !at_us || *at_us % kQuarterUs == 0;
    };
    if (!is_border(query.from_us) || !is_border(query.to_us) || has_key(query, UsageKey::App)) {
        return false;
    }
    Statement plans = CTN_TRY(database.prepare("SELECT 1 FROM plan_use LIMIT 1"));
    return plans.step();
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
    UsageReport report{query.from_us, query.to_us, query.zone, {}, {}};
    const GiveUp give_up(database, limits.give_up);
    const bool tells_charges = CTN_TRY(has_charges(database, query));
    Statement select = CTN_TRY(database.prepare(usage_sql(query).c_str()));
    bind_user(select, query);
    Statement account =
        CTN_TRY(database.prepare("SELECT a.removed,b.balance_ud FROM account a "
                                 "LEFT JOIN balance b USING(account_id) WHERE a.account_id=?"));
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
        report.rows.push_back(row_of(select, query.by, tells_charges));
        CTN_TRY(complete(report.rows.back(), query, zone, account));
    }
    return report;
}

}  // namespace continuo::snapt::ledger
