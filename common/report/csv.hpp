// Comma-separated values as RFC 4180 has them.
#pragma once

#include "common/report/json_value.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace continuo::report {

// In quotes where that is needed. Text that a spreadsheet would run as a formula, because it begins
// with = + - @ TAB or CR and is no number, gets an apostrophe in front.
std::string csv_field(std::string_view text);
// With its line end, CRLF.
std::string csv_line(const std::vector<std::string>& fields);

// A head and a line for each row of `usage`, with the keys asked for in `by`, in the names and
// units of the JSON; what is unknown is empty.
std::string usage_csv(const JsonValue& usage, const std::vector<std::string>& by);

}  // namespace continuo::report
