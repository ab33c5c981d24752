#include "cnapt/snapts/usage_sum.hpp"

#include "common/base/traffic_class.hpp"
#include "common/report/json.hpp"
#include "common/report/status_report.hpp"
#include "common/report/table.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace continuo::cnapt::snapts {

using report::JsonValue;
using report::JsonWriter;

namespace {

constexpr std::array<std::string_view, 12> kSummed = {
    "flows", "payload_up", "payload_down", "inner_up", "inner_down", "pre",
    "post",  "saved",      "undelivered",  "tun_up",   "tun_down",   "as_sent"};
constexpr size_t kPayloadUp = 1;
constexpr size_t kPayloadDown = 2;
constexpr size_t kPre = 5;
constexpr size_t kSaved = 7;
constexpr size_t kMaxAnswerBytes = size_t{64} * 1024;
constexpr std::array<std::string_view, 3> kPrices = {"gross_ud", "discount_ud", "net_ud"};
constexpr size_t kNet = 2;
constexpr std::array<std::string_view, 6> kKeys = {"user", "class", "snapt", "day", "month", "app"};

// Classes in their own order, the rest by name; rows without one first.
std::string order_of(const JsonValue& value) {
    std::string text(value.string().value_or(""));
    for (const base::TrafficClass known : base::kAllTrafficClasses) {
        if (base::token(known) == text) {
            return std::to_string(base::index_of(known));
        }
    }
    return text;
}

// A sum saturates at the largest number: a SNAPT may answer anything.
void add_to(int64_t& sum, int64_t number) {
    if (__builtin_add_overflow(sum, number, &sum)) {
        sum = number < 0 ? INT64_MIN : INT64_MAX;
    }
}

std::string as_json(const JsonValue& value) {
    JsonWriter json;
    json.value(value.string());
    return json.take();
}

}  // namespace

UsageSum::UsageSum(const JsonValue& request) {
    static_assert(kSummed.size() == kNumbers && kPrices.size() == kPriced);
    for (const JsonValue& key : request["by"].items()) {
        const std::string_view name = key.string().value_or("");
        if (std::find(kKeys.begin(), kKeys.end(), name) != kKeys.end()) {
            by_.emplace_back(name);
        }
    }
}

void UsageSum::add(const std::string& snapt, std::string_view json) {
    const auto waited_for = snapts_.find(snapt);
    if (waited_for == snapts_.end() || waited_for->second != kNoAnswer) {
        return;
    }
    const auto answer = JsonValue::parse(json, {kMaxAnswerBytes});
    if (!answer || !answer->is_object()) {
        fail(snapt, "an answer that is no JSON");
    } else if (answer->has("error")) {
        fail(snapt, answer->text("error", "?"));
    } else {
        has_answer_ = true;
        waited_for->second.reset();
        from_ = (*answer)["from"].integer();
        to_ = (*answer)["to"].integer();
        zone_ = answer->text("zone", zone_);
        if (const auto multiplier = (*answer)["price"].number()) {
            multipliers_[snapt] = *multiplier;
        }
        for (const JsonValue& row : (*answer)["rows"].items()) {
            add_row(row);
        }
    }
}

void UsageSum::add_row(const JsonValue& row) {
    std::vector<std::string> order;
    std::vector<std::string> keys;
    for (const std::string& key : by_) {
        keys.push_back(as_json(row[key]));
        order.push_back(order_of(row[key]));
        order.push_back(keys.back());
    }
    Row& sum = rows_[std::move(order)];
    sum.keys = std::move(keys);
    for (size_t i = 0; i < kNumbers; ++i) {
        add_to(sum.sums[i], row[kSummed[i]].integer().value_or(0));
    }
    for (size_t i = 0; i < kPriced; ++i) {
        const auto price = row[kPrices[i]].integer();
        if (price && sum.prices[i]) {
            add_to(*sum.prices[i], *price);
        } else {
            sum.prices[i].reset();
        }
    }
}

void UsageSum::fail(const std::string& snapt, std::string reason) {
    snapts_[snapt] = std::move(reason);
}

bool UsageSum::is_complete() const {
    return std::none_of(snapts_.begin(), snapts_.end(),
                        [](const auto& snapt) { return snapt.second == kNoAnswer; });
}

std::string UsageSum::json() const {
    if (!has_answer_) {
        std::string why = "no SNAPT answers";
        for (const auto& [snapt, missing] : snapts_) {
            why += "; " + snapt + ": " + missing.value_or("");
        }
        return report::error_json(why);
    }
    JsonWriter json;
    json.begin_object().field("from", from_).field("to", to_).field("zone", zone_);
    json.key("rows").begin_array();
    for (const auto& [order, row] : rows_) {
        json.begin_object();
        for (size_t i = 0; i < by_.size(); ++i) {
            if (row.keys[i] != "null") {
                json.key(by_[i]).raw(row.keys[i]);
            }
        }
        for (size_t i = 0; i < kNumbers; ++i) {
            json.field(kSummed[i], row.sums[i]);
        }
        json.key("saved_percent");
        row.sums[kPre] > 0 ? json.number(100.0 * static_cast<double>(row.sums[kSaved]) /
                                             static_cast<double>(row.sums[kPre]),
                                         2)
                           : json.null();
        for (size_t i = 0; i < kPriced; ++i) {
            json.field(kPrices[i], row.prices[i]);
        }
        json.field("net_ud_per_mb", report::ud_per_mb(row.prices[kNet], row.sums[kPayloadUp],
                                                      row.sums[kPayloadDown]));
        json.end_object();
    }
    json.end_array();
    json.key("snapts").begin_array();
    for (const auto& [snapt, missing] : snapts_) {
        json.begin_object().field("snapt", snapt).field("error", missing);
        const auto multiplier = multipliers_.find(snapt);
        json.key("price");
        multiplier == multipliers_.end() ? json.null() : json.number(multiplier->second, 3);
        const auto terms = terms_.find(snapt);
        json.key("allowance");
        terms == terms_.end() ? json.null() : json.raw(terms->second.allowance);
        json.key("money");
        terms == terms_.end() ? json.null() : json.raw(terms->second.money);
        json.end_object();
    }
    json.end_array().end_object();
    return json.take();
}

}  // namespace continuo::cnapt::snapts
