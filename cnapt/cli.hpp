// The program cnapt: its command line and the output of its commands. docs/OPERATIONS.md.
#pragma once

#include "common/report/daemon_client.hpp"
#include "common/report/table.hpp"

#include <span>
#include <string>

namespace continuo::cnapt {

const report::ProgramSpec& program_spec();

// Runs one command and gives the exit code. `arguments` without the program's name.
int run_program(std::span<const char* const> arguments);

// The request to the daemon for each command; empty for commands that ask nothing.
report::CommandOutput ask_command(const report::DaemonAccess& access,
                                  const report::ParsedCommand& command,
                                  bool is_terminal,
                                  size_t columns = report::kAnyWidth);

// Text for people from the daemon's JSON, for a screen of `columns` columns.
std::string
status_text(const report::JsonValue& status, bool is_terminal, size_t columns = report::kAnyWidth);
std::string
paths_text(const report::JsonValue& paths, bool is_terminal, size_t columns = report::kAnyWidth);
std::string
snapts_text(const report::JsonValue& snapts, bool is_terminal, size_t columns = report::kAnyWidth);

// "2026-11-01" or "2026-11-01T12:00:00", local in `zone`, or with "Z" in UTC.
std::optional<int64_t> parse_time_us(const std::string& text, const std::string& zone);

}  // namespace continuo::cnapt
