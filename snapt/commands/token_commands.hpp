// `snapt token add`, `list` and `remove`: who may use the REST interface and the web page. They
// work on the file of tokens, which a running daemon reads again.
#pragma once

#include "common/report/daemon_client.hpp"
#include "common/report/table.hpp"

#include <string_view>
#include <vector>

namespace continuo::snapt::commands {

std::vector<report::CommandSpec> token_commands(const report::OptionSpec& config,
                                                const report::OptionSpec& state);
bool is_token_command(std::string_view name);
report::CommandOutput token_command(const report::ParsedCommand& command,
                                    bool is_terminal,
                                    size_t columns = report::kAnyWidth);

}  // namespace continuo::snapt::commands
