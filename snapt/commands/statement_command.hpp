// `snapt statement`: the month of a user as text, as CSV, as JSON or as a page to print.
#pragma once

#include "common/report/daemon_client.hpp"
#include "common/report/table.hpp"
#include "snapt/accounting/account_statement.hpp"

#include <string>

namespace continuo::snapt::commands {

report::CommandSpec statement_spec(const report::OptionSpec& state);
report::CommandOutput statement_command(const report::ParsedCommand& command,
                                        bool is_terminal,
                                        size_t columns = report::kAnyWidth);

// Name of a booking in a line: "payment", "correction", …
std::string_view booking_name(store::EntryKind kind);
std::string class_name(int64_t cls);
// A self-contained HTML document, for screen and paper.
std::string statement_page(const accounting::AccountStatement& statement);
std::string statement_json(const accounting::AccountStatement& statement);
// RFC 4180: one line per row with the columns of its header; amounts in micro-denarii.
std::string statement_csv(const accounting::AccountStatement& statement);

}  // namespace continuo::snapt::commands
