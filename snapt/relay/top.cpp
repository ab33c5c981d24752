#include "snapt/relay/top.hpp"

#include "common/dataplane/figures.hpp"
#include "common/report/json.hpp"
#include "common/report/status_report.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace continuo::snapt::relay {
namespace {

constexpr int kPercentDigits = 2;

struct Grouping {
    bool by_user = false;
    bool by_class = false;
};

struct TopRow {
    std::string user;
    std::string_view traffic_class;
    uint64_t sessions = 0;
    uint64_t up_bits_per_s = 0;
    uint64_t down_bits_per_s = 0;
    uint64_t up_bytes = 0;
    uint64_t down_bytes = 0;
    uint64_t down_wire_bytes = 0;

    uint64_t bits_per_s() const { return up_bits_per_s + down_bits_per_s; }
    void add(const TopRow& other) {
        sessions += other.sessions;
        up_bits_per_s += other.up_bits_per_s;
        down_bits_per_s += other.down_bits_per_s;
        up_bytes += other.up_bytes;
        down_bytes += other.down_bytes;
        down_wire_bytes += other.down_wire_bytes;
    }
};

std::optional<Grouping> parse_grouping(const std::string& text) {
    if (text == "user" || text.empty()) {
        return Grouping{true, false};
    }
    if (text == "class") {
        return Grouping{false, true};
    }
    return text == "user,class" || text == "class,user" ? std::optional(Grouping{true, true})
                                                        : std::nullopt;
}

TopRow row_of(const NodeSession& node, base::TrafficClass traffic_class, base::TimePoint now) {
    const size_t index = base::index_of(traffic_class);
    const session::ClassCounters& sent = node.session.queues().counters(traffic_class);
    const dataplane::RecentRates& rates = node.class_rates[index];
    TopRow row;
    row.up_bytes = node.up_class_bytes[index];
    row.down_bytes = sent.inner_bytes;
    row.down_wire_bytes = sent.wire_bytes;
    row.up_bits_per_s = rates.up.bits_per_s(row.up_bytes, now).value_or(0);
    row.down_bits_per_s = rates.down.bits_per_s(row.down_bytes, now).value_or(0);
    return row;
}

std::vector<TopRow> rows_of(const Relay& relay, Grouping grouping, base::TimePoint now) {
    std::map<std::pair<std::string_view, std::string_view>, TopRow> groups;
    for (const auto& node : relay.sessions()) {
        const std::string_view user = grouping.by_user ? node->grant.user : std::string_view();
        bool is_counted = false;
        for (const base::TrafficClass traffic_class : base::kAllTrafficClasses) {
            TopRow row = row_of(*node, traffic_class, now);
            const std::string_view name =
                grouping.by_class ? base::token(traffic_class) : std::string_view();
            const bool is_idle = row.up_bytes == 0 && row.down_bytes == 0;
            // A class that the user has not used has no row.
            if (grouping.by_user && grouping.by_class && is_idle) {
                continue;
            }
            row.sessions = grouping.by_class ? (is_idle ? 0 : 1) : (is_counted ? 0 : 1);
            is_counted = true;
            groups[{user, name}].add(row);
        }
    }
    std::vector<TopRow> rows;
    rows.reserve(groups.size());
    for (auto& [key, row] : groups) {
        row.user = key.first;
        row.traffic_class = key.second;
        rows.push_back(std::move(row));
    }
    return rows;
}

bool is_busier(const TopRow& a, const TopRow& b) {
    const uint64_t a_bytes = a.up_bytes + a.down_bytes;
    const uint64_t b_bytes = b.up_bytes + b.down_bytes;
    return std::pair(a.bits_per_s(), a_bytes) > std::pair(b.bits_per_s(), b_bytes);
}

void write_sums(report::JsonWriter& json, const TopRow& row) {
    json.field("sessions", row.sessions);
    json.field("up_bits_per_s", row.up_bits_per_s);
    json.field("down_bits_per_s", row.down_bits_per_s);
    json.field("up_bytes", row.up_bytes);
    json.field("down_bytes", row.down_bytes);
    json.field("down_saved_percent",
               report::saved_percent(row.down_bytes, row.down_wire_bytes).value_or(NAN),
               kPercentDigits);
}

}  // namespace

std::string top_json(const Relay& relay, const report::JsonValue& request, base::TimePoint now) {
    const std::string by = request.text("by");
    const auto grouping = parse_grouping(by);
    if (!grouping) {
        return report::error_json("--by \"" + by + "\"; expected user, class or user,class");
    }
    const uint64_t limit = request["limit"].is_null()
                               ? kUsualTopRows
                               : request["limit"].unsigned_integer().value_or(0);
    if (limit == 0 || limit > kMaxTopRows) {
        return report::error_json("expected a limit of 1 to " + std::to_string(kMaxTopRows));
    }
    std::vector<TopRow> rows = rows_of(relay, *grouping, now);
    const size_t shown = std::min<size_t>(limit, rows.size());
    const auto middle = rows.begin() + static_cast<std::ptrdiff_t>(shown);
    std::partial_sort(rows.begin(), middle, rows.end(), is_busier);
    TopRow others;
    std::for_each(middle, rows.end(), [&others](const TopRow& row) { others.add(row); });
    report::JsonWriter json;
    json.begin_object().key("rows").begin_array();
    for (auto row = rows.begin(); row != middle; ++row) {
        json.begin_object();
        if (grouping->by_user) {
            json.field("user", row->user);
        }
        if (grouping->by_class) {
            json.field("class", row->traffic_class);
        }
        write_sums(json, *row);
        json.end_object();
    }
    json.end_array().key("others").begin_object();
    json.field("rows", static_cast<uint64_t>(rows.size() - shown));
    write_sums(json, others);
    json.end_object().end_object();
    return json.take();
}

}  // namespace continuo::snapt::relay
