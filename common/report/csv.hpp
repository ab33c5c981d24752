// Comma-separated values as RFC 4180 has them.
#pragma once

#include "common/report/json_value.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace continuo::report {

// In quotes where that is needed. Text that a spreadsheet would run as a formula, because it begins
// with = + - @ TAB or CR and is no number, gets an apostrophe in front.
std::string csv_field(std::string_view text);
// With its line end, CRLF.
std::string csv_line(const std::vector<std::string>& fields);

// A head, and the line of a row with the fields of those names; what is unknown, a list or an
// object is empty.
std::string csv_head(std::span<const std::string_view> names);
std::string csv_row(const JsonValue& row, std::span<const std::string_view> names);
// The same of a row in JSON, as a daemon or command makes it.
std::string csv_row(const std::string& json, std::span<const std::string_view> names);
// Head and lines of a list.
std::string rows_csv(const std::vector<JsonValue>& rows, std::span<const std::string_view> names);

// A head and a line for each row of `usage`, with the keys asked for in `by`, in the names and
// units of the JSON; what is unknown is empty.
std::string usage_csv(const JsonValue& usage, const std::vector<std::string>& by);

}  // namespace continuo::report
