#include "snapt/accounting/usage_json.hpp"

#include "common/config/units.hpp"
#include "common/report/json.hpp"
#include "common/report/status_report.hpp"
#include "common/report/table.hpp"

namespace continuo::snapt::accounting {

using config::kMicroseconds;

constexpr double kPermille = 1000;

namespace {

void write_key(report::JsonWriter& json,
               std::string_view name,
               const std::optional<std::string>& value) {
    if (value) {
        json.field(name, *value);
    }
}

void write_row(report::JsonWriter& json, const ledger::UsageRow& row) {
    json.begin_object();
    write_key(json, "user", row.user);
    if (row.account_id) {
        json.field("account", *row.account_id);
        json.field("removed", row.removed);
        json.field("balance_ud", row.balance_ud);
    }
    if (row.traffic_class) {
        json.field("class", base::token(*row.traffic_class));
    }
    write_key(json, "snapt", row.snapt);
    write_key(json, "day", row.day);
    write_key(json, "month", row.month);
    write_key(json, "app", row.app);
    json.field("flows", row.flows);
    json.field("payload_up", row.payload_up);
    json.field("payload_down", row.payload_down);
    json.field("inner_up", row.inner_up);
    json.field("inner_down", row.inner_down);
    json.field("pre", row.pre);
    json.field("post", row.post);
    json.field("undelivered", row.undelivered);
    json.field("tun_up", row.tun_up);
    json.field("tun_down", row.tun_down);
    json.field("as_sent", row.as_sent);
    json.field("saved", row.saved);
    json.key("saved_percent");
    row.saved_percent ? json.number(*row.saved_percent, 2) : json.null();
    json.field("gross_ud", row.gross_ud);
    json.field("discount_ud", row.discount_ud);
    json.field("net_ud", row.net_ud);
    json.field("net_ud_per_mb", report::ud_per_mb(row.net_ud, row.payload_up, row.payload_down));
    json.end_object();
}

std::optional<int64_t> seconds(const std::optional<int64_t>& us) {
    return us ? std::optional(*us / kMicroseconds) : std::nullopt;
}

}  // namespace

std::string usage_json(const ledger::UsageReport& report) {
    report::JsonWriter json;
    json.begin_object();
    json.field("from", seconds(report.from_us));
    json.field("to", seconds(report.to_us));
    json.field("zone", report.zone);
    json.field("price", report.price_permille ? std::optional(*report.price_permille / kPermille)
                                              : std::nullopt);
    json.key("rows").begin_array();
    for (const ledger::UsageRow& row : report.rows) {
        write_row(json, row);
    }
    json.end_array().end_object();
    return json.take();
}

std::string usage_answer(const base::Result<ledger::UsageReport>& usage) {
    if (usage) {
        return usage_json(*usage);
    }
    const base::Error& error = usage.error();
    return report::error_json(error.where.empty() ? base::to_string(error.code) : error.where);
}

std::optional<ledger::UsageQuery> usage_query_from(const report::JsonValue& request,
                                                   std::string& failure) {
    ledger::UsageQuery query;
    for (const report::JsonValue& item : request["by"].items()) {
        const auto key = ledger::parse_usage_key(item.string().value_or(""));
        if (!key) {
            failure = "unknown grouping key; expected user, class, snapt, day, month or app";
            return std::nullopt;
        }
        query.by.push_back(*key);
    }
    query.from_us = request["from"].integer();
    query.to_us = request["to"].integer();
    query.zone = request.text("zone", "UTC");
    if (const auto user = request["user"].string(); user && !user->empty()) {
        query.user = std::string(*user);
    }
    return query;
}

}  // namespace continuo::snapt::accounting
