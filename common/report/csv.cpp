#include "common/report/csv.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <system_error>

namespace continuo::report {
namespace {

// Each with what belongs to it, in the order of the JSON.
constexpr std::array<std::string_view, 8> kUsageKeys = {"user",  "account", "removed", "class",
                                                        "snapt", "day",     "month",   "app"};
constexpr std::array<std::string_view, 17> kUsageFigures = {
    "flows",         "payload_up",  "payload_down", "inner_up", "inner_down",   "pre",
    "post",          "undelivered", "tun_up",       "tun_down", "as_sent",      "saved",
    "saved_percent", "gross_ud",    "discount_ud",  "net_ud",   "net_ud_per_mb"};

std::string field_of(const JsonValue& value) {
    if (value.is_null() || value.is_array() || value.is_object()) {
        return {};
    }
    const auto text = value.string();
    return text ? std::string(*text) : json_text(value);
}

bool is_negative_number(std::string_view text) {
    const bool is_signed =
        text.size() > 1 && text[0] == '-' && text[1] >= '0' && text[1] <= '9';  // no -inf
    double number = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
    return is_signed && parsed.ec == std::errc() && parsed.ptr == text.data() + text.size();
}

// Spreadsheets run text that begins so (OWASP, CSV Injection).
bool is_formula(std::string_view text) {
    constexpr std::string_view kBeginnings = "=+-@\t\r";
    return !text.empty() && kBeginnings.find(text.front()) != std::string_view::npos &&
           !is_negative_number(text);
}

}  // namespace

std::string csv_field(std::string_view text) {
    const std::string_view before = is_formula(text) ? "'" : "";
    if (text.find_first_of(",\"\r\n") == std::string_view::npos) {
        return std::string(before).append(text);
    }
    std::string field = "\"";
    field += before;
    for (const char c : text) {
        field += c;
        if (c == '"') {
            field += c;
        }
    }
    field += '"';
    return field;
}

std::string csv_line(const std::vector<std::string>& fields) {
    std::string line;
    bool is_first = true;
    for (const std::string& field : fields) {
        line += is_first ? "" : ",";
        line += csv_field(field);
        is_first = false;
    }
    line += "\r\n";
    return line;
}

std::string csv_head(std::span<const std::string_view> names) {
    return csv_line({names.begin(), names.end()});
}

std::string csv_row(const JsonValue& row, std::span<const std::string_view> names) {
    std::vector<std::string> fields;
    fields.reserve(names.size());
    for (const std::string_view name : names) {
        fields.push_back(field_of(row[name]));
    }
    return csv_line(fields);
}

std::string csv_row(const std::string& json, std::span<const std::string_view> names) {
    const auto row = JsonValue::parse(json);
    return csv_row(row ? *row : JsonValue(), names);
}

std::string rows_csv(const std::vector<JsonValue>& rows, std::span<const std::string_view> names) {
    std::string text = csv_head(names);
    for (const JsonValue& row : rows) {
        text += csv_row(row, names);
    }
    return text;
}

std::string usage_csv(const JsonValue& usage, const std::vector<std::string>& by) {
    std::vector<std::string_view> names;
    for (const std::string_view name : kUsageKeys) {
        const bool is_of_user = name == "account" || name == "removed";
        if (std::find(by.begin(), by.end(), is_of_user ? "user" : name) != by.end()) {
            names.push_back(name);
        }
    }
    names.insert(names.end(), kUsageFigures.begin(), kUsageFigures.end());
    if (by.size() == 1 && by.front() == "user") {
        names.emplace_back("balance_ud");
    }
    return rows_csv(usage["rows"].items(), names);
}

}  // namespace continuo::report
