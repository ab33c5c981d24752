// The command `flows` of both programs: which flows are shown, in which order, and as what table.
#pragma once

#include "common/report/daemon_client.hpp"
#include "common/report/json_value.hpp"
#include "common/report/table.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace continuo::report {

// Widths at which addresses and names of processes are cut on a narrow screen (Column::enough).
inline constexpr uint8_t kEnoughAddress = 21;  // 198.51.100.200:65535
inline constexpr uint8_t kEnoughName = 11;

// Orders of `--sort`. Active: flows that are in use first, those that carried most in front. The
// others: the largest first, or by name.
enum class FlowOrder : uint8_t { Active, Bytes, Up, Down, Age, Process, Class, Destination };

struct FlowChoice {
    bool with_closed = false;  // and closing
    FlowOrder order = FlowOrder::Active;
    std::vector<std::string> classes;  // empty: all; likewise:
    std::vector<std::string> processes;
    std::vector<std::string> users;
    size_t limit = SIZE_MAX;  // flows shown at most, the first in their order
    // An option says so: the choice holds for --json and --csv, too.
    bool is_explicit = false;
};

// Options of the command: --all, --class, --sort, --limit, --csv, and `who` ("--process" or
// "--user").
CommandSpec flows_spec(std::string_view who);
// Nothing, with the reason in `failure`, when an option is wrong.
std::optional<FlowChoice> flow_choice(const ParsedCommand& command, std::string& failure);
// Those that are chosen, without the limit, in their order. They stay the caller's.
std::vector<const JsonValue*> chosen_flows(const std::vector<JsonValue>& flows,
                                           const FlowChoice& choice);

// `with_user`: columns user and node.
std::string flows_text(const std::vector<JsonValue>& flows,
                       bool with_user,
                       bool is_terminal,
                       size_t columns = kAnyWidth,
                       const FlowChoice& choice = {});

// "198.51.100.2:443", "[2001:db8::1]:443"; without a port where that is 0.
std::string endpoint_cell(const JsonValue& address, const JsonValue& port);

// Asks the daemon and shows what is chosen.
CommandOutput flows_command(const DaemonAccess& access,
                            const ParsedCommand& command,
                            bool with_user,
                            bool is_terminal,
                            size_t columns);

}  // namespace continuo::report
