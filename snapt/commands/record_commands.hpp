// `snapt records` and `snapt export`: single usage records as a table, as CSV or as JSON. They read
// the database itself, whether a daemon runs or not.
#pragma once

#include "common/flow/accounting_record.hpp"
#include "common/report/daemon_client.hpp"
#include "common/report/table.hpp"

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace continuo::snapt::commands {

// Default number of rows of `records`; `export` writes all.
inline constexpr size_t kShownRecords = 1000;

std::vector<report::CommandSpec> record_commands(const report::OptionSpec& state);
bool is_record_command(std::string_view name);
// `write` gets the answer in pieces, so that it need not fit into memory; false: it failed (errno),
// and nothing follows. The output is printed after them.
report::CommandOutput record_command(const report::ParsedCommand& command,
                                     const std::function<bool(std::string_view)>& write,
                                     bool is_terminal,
                                     size_t columns = report::kAnyWidth);

// Columns are those of usage_record, with the key first. Times: ISO 8601 in UTC in CSV,
// microseconds in JSON. Numbers that JSON readers may round are text there.
std::string record_csv_head();
std::string record_csv(const flow::UsageRecord& record);
std::string record_json(const flow::UsageRecord& record);

}  // namespace continuo::snapt::commands
