// Use of a running daemon by the commands of both programs: asking over its socket, waiting for a
// state, and turning the answer into output. Pure: socket, clock and sleep come in as functions.
#pragma once

#include "common/base/result.hpp"
#include "common/base/time.hpp"
#include "common/report/command_line.hpp"
#include "common/report/json_value.hpp"

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace continuo::report {

inline constexpr base::Duration kPollInterval = base::milliseconds(50);
inline constexpr base::Duration kAnswerTimeout = base::seconds(5);
// Usage waits for the disk, and on a node for the SNAPT.
inline constexpr base::Duration kUsageTimeout = base::seconds(30);
inline constexpr base::Duration kWaitTimeout = base::seconds(30);  // default of --timeout

struct DaemonAccess {
    std::string program;  // for messages: "cnapt"
    std::string socket;
    // One line to the daemon, its whole answer back. Errors: as host::unix_request.
    std::function<base::Result<std::string>(std::string_view line, base::Duration timeout)> request;
    std::function<base::TimePoint()> now;
    std::function<void(base::Duration)> pause;
};

// The output of a command, and its exit code.
struct CommandOutput {
    std::string out;
    std::string err;
    int exit_code = kExitGood;
};
CommandOutput failed(const DaemonAccess& access, std::string_view text);

// The answer as text for people, with its last line feed.
using RenderAnswer = std::function<std::string(const JsonValue& answer)>;

// True for the errors that mean "no daemon listens there".
bool is_no_daemon(const base::Error& error);
// One sentence: why there is no answer.
std::string describe_failure(const DaemonAccess& access, const base::Error& error);

// An answer {"error":"…"} is an error. `as_json`: the answer is printed as it came.
CommandOutput ask_daemon(const DaemonAccess& access,
                         std::string_view request,
                         base::Duration timeout,
                         bool as_json,
                         const RenderAnswer& render);

// A list that the daemon hands out in pages: {"<command>":[…],"next":n}, of which n is `after` of
// the next question, until it is null. A daemon of an earlier version answers with all of it at
// once, as an array. `timeout` is for each page.
using RenderList = std::function<CommandOutput(const std::vector<JsonValue>& items)>;
CommandOutput ask_list(const DaemonAccess& access,
                       std::string_view command,
                       base::Duration timeout,
                       const RenderList& render);

// `status`. With `wanted`, asks until the state is that one; else kExitAlarm when it is not "up".
CommandOutput ask_status(const DaemonAccess& access,
                         const std::optional<std::string>& wanted,
                         base::Duration timeout,
                         bool as_json,
                         const RenderAnswer& render);

// `status` with its options --wait [STATE] and --timeout S.
CommandOutput status_command(const DaemonAccess& access,
                             const ParsedCommand& command,
                             bool as_json,
                             const RenderAnswer& render);

// {"command":"status"}
std::string plain_request(std::string_view command);

// "--by", "--from", "--to", "--zone", "--user"; not both "--csv" and "--json". `parse_time_us`
// understands a time in a zone, for what is not Unix seconds. Nothing, with the reason in
// `failure`, when an option is wrong.
using ParseTime =
    std::function<std::optional<int64_t>(const std::string& text, const std::string& zone)>;
std::optional<std::string>
usage_request(const ParsedCommand& command, const ParseTime& parse_time_us, std::string& failure);

// "10", "0.5" or "500ms"; nothing when it is neither.
std::optional<base::Duration> parse_timeout(std::string_view text);
// All values of a repeatable option, each a list with commas.
std::vector<std::string> list_values(const ParsedCommand& command, std::string_view option);

}  // namespace continuo::report
