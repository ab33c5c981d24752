#include "snapt/accounting/rated_usage.hpp"

#include "snapt/store/bounded_sum.hpp"
#include "snapt/store/snapt_prices.hpp"

#include <algorithm>
#include <unordered_map>

namespace continuo::snapt::accounting {
namespace {

using base::Error;
using base::Result;
using ledger::UsageKey;
using ledger::UsageRow;
using store::bounded_sum;
using store::Statement;
using store::TimeZone;

struct Sums {
    int64_t gross_ud = 0;
    int64_t discount_ud = 0;
    int64_t net_ud = 0;
};

// Record columns needed for its charge and group, in the order of `kSelectCharged`.
struct Column {
    enum : int {
        User,
        Account,
        Class,
        Snapt,
        End,
        App,
        PayUp,
        PayDown,
        Active,
        Delay,
        Pre,
        Post,
        Sharer,
        Epoch
    };
};
constexpr const char* kSelectCharged =
    "SELECT user_id,account_id,cls,snapt_id,t_end,app,pay_up,pay_down,active_us,delay_us,pre,post,"
    "sharer_id<>'',epoch";

// A text equal for two rows of a report only if they are the same row.
class GroupName {
  public:
    void add(const std::optional<std::string>& part) {
        name_ += part ? std::to_string(part->size()) + ":" + *part : "-";
    }
    std::string take() { return std::move(name_); }

  private:
    std::string name_;
};

std::string group_of(const UsageRow& row) {
    GroupName name;
    name.add(row.user);
    name.add(row.account_id ? std::optional(std::to_string(*row.account_id)) : std::nullopt);
    name.add(row.traffic_class ? std::optional(std::string(base::token(*row.traffic_class)))
                               : std::nullopt);
    name.add(row.snapt);
    name.add(row.day);
    name.add(row.month);
    name.add(row.app);
    return name.take();
}

std::string
group_of(const Statement& record, const ledger::UsageQuery& query, const TimeZone& zone) {
    UsageRow row;
    for (const UsageKey key : query.by) {
        // A record is booked at its last microsecond.
        const int64_t booked_us = record.integer(Column::End) - 1;
        switch (key) {
        case UsageKey::User:
            row.user = record.text(Column::User);
            if (!query.is_own) {
                row.account_id = record.integer(Column::Account);
            }
            break;
        case UsageKey::Class:
            row.traffic_class = static_cast<base::TrafficClass>(record.integer(Column::Class));
            break;
        case UsageKey::Snapt:
            row.snapt = record.text(Column::Snapt);
            break;
        case UsageKey::Day:
            row.day = zone.day(booked_us);
            break;
        case UsageKey::Month:
            row.month = zone.month(booked_us);
            break;
        case UsageKey::App:
            row.app = record.optional_text(Column::App);
            if (row.app && row.app->empty()) {
                row.app.reset();  // as in the sums
            }
            break;
        }
    }
    return group_of(row);
}

rating::Usage usage_of(const Statement& record) {
    rating::Usage usage;
    usage.traffic_class = static_cast<base::TrafficClass>(record.integer(Column::Class));
    usage.payload_bytes = static_cast<uint64_t>(record.integer(Column::PayUp)) +
                          static_cast<uint64_t>(record.integer(Column::PayDown));
    usage.active_us = record.integer(Column::Active);
    if (!record.is_null(Column::Delay)) {
        usage.delay_us = record.integer(Column::Delay);
    }
    usage.pre_bytes = std::max<int64_t>(record.integer(Column::Pre), 0);
    usage.post_bytes = std::max<int64_t>(record.integer(Column::Post), 0);
    usage.has_sharer = record.integer(Column::Sharer) != 0;
    return usage;
}

}  // namespace

Result<ledger::UsageReport> rate_usage(store::Database& database,
                                       const ledger::UsageQuery& query,
                                       const rating::Plan& plan,
                                       const ledger::UsageLimits& limits) {
    store::ReadMoment moment(database);
    CTN_TRY(moment.begin());
    ledger::UsageReport report = CTN_TRY(ledger::query_usage(database, query, limits));
    const TimeZone zone = CTN_TRY(TimeZone::load(query.zone));
    Statement select =
        CTN_TRY(database.prepare((kSelectCharged + ledger::usage_source_sql(query)).c_str()));
    ledger::bind_usage(select, query);
    const store::SnaptPrices prices = CTN_TRY(store::SnaptPrices::load(database));
    std::unordered_map<std::string, Sums> sums;
    while (CTN_TRY(select.step())) {
        if (select.integer(Column::Class) < 0 ||
            select.integer(Column::Class) >= int64_t{base::kTrafficClasses}) {
            return Error{base::Errc::Malformed, "ledger.db is damaged: a record of no class", 0};
        }
        const double multiplier =
            prices.multiplier(select.text(Column::Snapt), select.integer(Column::Epoch));
        const rating::Charge charge = rating::rate(plan, usage_of(select), multiplier);
        Sums& sum = sums[group_of(select, query, zone)];
        sum.gross_ud = bounded_sum(sum.gross_ud, charge.gross_ud);
        sum.discount_ud = bounded_sum(sum.discount_ud, charge.discount_ud);
        sum.net_ud = bounded_sum(sum.net_ud, charge.net_ud);
    }
    for (UsageRow& row : report.rows) {
        const Sums& sum = sums[group_of(row)];
        row.gross_ud = sum.gross_ud;
        row.discount_ud = sum.discount_ud;
        row.net_ud = sum.net_ud;
    }
    return report;
}

}  // namespace continuo::snapt::accounting
