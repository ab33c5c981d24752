#include "common/report/daemon_client.hpp"

#include "common/config/units.hpp"
#include "common/report/json.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <system_error>

namespace continuo::report {

using config::kMicroseconds;

namespace {

constexpr std::string_view kUsageKeys[] = {"user", "class", "snapt", "day", "month", "app"};
constexpr int64_t kLatestUnixSeconds = 253'402'300'799;  // end of the year 9999

std::optional<int64_t> parse_unix_seconds(std::string_view text) {
    int64_t seconds = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
    if (error != std::errc{} || end != text.data() + text.size() || seconds < 0 ||
        seconds > kLatestUnixSeconds) {
        return std::nullopt;
    }
    return seconds;
}

// Writes `field`, a time option in microseconds or null; false when it is wrong.
bool write_time(JsonWriter& json,
                std::string_view field,
                const std::optional<std::string>& text,
                const std::string& zone,
                const ParseTime& parse_time_us) {
    std::optional<int64_t> at_us;
    if (text) {
        const auto seconds = parse_unix_seconds(*text);
        at_us = seconds ? std::optional(*seconds * kMicroseconds) : parse_time_us(*text, zone);
        if (!at_us) {
            return false;
        }
    }
    json.field(field, at_us);
    return true;
}

struct Answer {
    std::string text;
    std::optional<JsonValue> json;
    std::optional<base::Error> error;
    std::string failure;  // sentence; empty when there is an answer without error
};

Answer ask(const DaemonAccess& access, std::string_view request, base::Duration timeout) {
    Answer answer;
    auto reply = access.request(request, timeout);
    if (!reply) {
        answer.error = reply.error();
        answer.failure = describe_failure(access, reply.error());
        return answer;
    }
    answer.text = std::move(*reply);
    auto parsed = JsonValue::parse(answer.text);
    if (!parsed) {
        answer.failure = answer.text.empty() ? "the daemon closed the connection without an answer"
                                             : "the daemon's answer is not JSON";
        return answer;
    }
    if (parsed->has("error")) {
        answer.failure = parsed->text("error", "unknown error");
        return answer;
    }
    answer.json = std::move(*parsed);
    return answer;
}

CommandOutput
shown(const Answer& answer, bool as_json, const RenderAnswer& render, int exit_code = kExitGood) {
    CommandOutput output;
    output.exit_code = exit_code;
    output.out = as_json ? answer.text : render(*answer.json);
    if (!output.out.empty() && output.out.back() != '\n') {
        output.out += '\n';
    }
    return output;
}

}  // namespace

CommandOutput failed(const DaemonAccess& access, std::string_view text) {
    CommandOutput output;
    output.err = access.program + ": " + std::string(text) + "\n";
    output.exit_code = kExitError;
    return output;
}

bool is_no_daemon(const base::Error& error) {
    return error.code == base::Errc::System &&
           (error.sys_errno == ECONNREFUSED || error.sys_errno == ENOENT);
}

std::string describe_failure(const DaemonAccess& access, const base::Error& error) {
    const std::string where = "at " + access.socket;
    if (is_no_daemon(error)) {
        return "no daemon answers " + where + "; start it with `" + access.program + " run`";
    }
    if (error.code == base::Errc::System &&
        (error.sys_errno == EACCES || error.sys_errno == EPERM)) {
        return "no permission for the daemon's socket " + where +
               "; use root or join the group continuo";
    }
    if (error.code == base::Errc::WouldBlock) {
        return "the daemon " + where + " does not answer in time";
    }
    if (error.code == base::Errc::System) {
        return "cannot talk to the daemon " + where + ": " +
               std::generic_category().message(error.sys_errno);
    }
    return "cannot talk to the daemon " + where + ": " +
           std::string(error.where.empty() ? base::to_string(error.code) : error.where);
}

CommandOutput ask_daemon(const DaemonAccess& access,
                         std::string_view request,
                         base::Duration timeout,
                         bool as_json,
                         const RenderAnswer& render) {
    const Answer answer = ask(access, request, timeout);
    return answer.json ? shown(answer, as_json, render) : failed(access, answer.failure);
}

CommandOutput ask_list(const DaemonAccess& access,
                       std::string_view command,
                       base::Duration timeout,
                       const RenderList& render) {
    std::vector<JsonValue> items;
    std::optional<uint64_t> after = 0;
    while (after) {
        JsonWriter json;
        json.begin_object().field("command", command).field("after", *after).end_object();
        const Answer answer = ask(access, json.take(), timeout);
        if (!answer.json) {
            return failed(access, answer.failure);
        }
        const JsonValue& page = answer.json->is_array() ? *answer.json : (*answer.json)[command];
        items.insert(items.end(), page.items().begin(), page.items().end());
        const auto next = (*answer.json)["next"].unsigned_integer();
        if (next && *next <= *after) {
            return failed(access, "the daemon's answer does not go on");
        }
        after = next;
    }
    return render(items);
}

CommandOutput ask_status(const DaemonAccess& access,
                         const std::optional<std::string>& wanted,
                         base::Duration timeout,
                         bool as_json,
                         const RenderAnswer& render) {
    const std::string request = plain_request("status");
    if (!wanted) {
        const Answer answer = ask(access, request, kAnswerTimeout);
        if (!answer.json) {
            return failed(access, answer.failure);
        }
        const bool is_up = answer.json->text("state") == "up";
        return shown(answer, as_json, render, is_up ? kExitGood : kExitAlarm);
    }
    const base::TimePoint deadline = access.now() + timeout;
    while (true) {
        const base::Duration left = deadline - access.now();
        const Answer answer =
            ask(access, request, std::clamp<base::Duration>(left, kPollInterval, kAnswerTimeout));
        if (answer.json && answer.json->text("state") == *wanted) {
            return shown(answer, as_json, render);
        }
        const bool may_come =
            answer.json || (answer.error && (is_no_daemon(*answer.error) ||
                                             answer.error->code == base::Errc::WouldBlock));
        if (!may_come) {
            return failed(access, answer.failure);
        }
        if (access.now() + kPollInterval > deadline) {
            const std::string last =
                answer.json ? "the state is \"" + answer.json->text("state", "unknown") + "\""
                            : answer.failure;
            return failed(access, "not \"" + *wanted + "\" in time: " + last);
        }
        access.pause(kPollInterval);
    }
}

CommandOutput status_command(const DaemonAccess& access,
                             const ParsedCommand& command,
                             bool as_json,
                             const RenderAnswer& render) {
    std::optional<std::string> wanted = command.value("--wait");
    if (wanted && wanted->empty()) {
        wanted = "up";
    }
    if (wanted && *wanted != "up" && *wanted != "degraded" && *wanted != "down") {
        CommandOutput output =
            failed(access, "--wait \"" + *wanted + "\"; expected up, degraded or down");
        output.exit_code = kExitUsage;
        return output;
    }
    base::Duration timeout = kWaitTimeout;
    if (const auto text = command.value("--timeout")) {
        const auto parsed = parse_timeout(*text);
        if (!parsed) {
            CommandOutput output =
                failed(access, "--timeout \"" + *text + "\"; expected seconds, such as 10");
            output.exit_code = kExitUsage;
            return output;
        }
        timeout = *parsed;
    }
    return ask_status(access, wanted, timeout, as_json, render);
}

std::string plain_request(std::string_view command) {
    JsonWriter json;
    json.begin_object().field("command", command).end_object();
    return json.take();
}

std::optional<std::string>
usage_request(const ParsedCommand& command, const ParseTime& parse_time_us, std::string& failure) {
    if (command.has("--csv") && command.has("--json")) {
        failure = "name one of --csv and --json";
        return std::nullopt;
    }
    JsonWriter json;
    json.begin_object().field("command", "usage").key("by").begin_array();
    const std::vector<std::string> keys = list_values(command, "--by");
    for (size_t i = 0; i < keys.size(); ++i) {
        if (std::find(std::begin(kUsageKeys), std::end(kUsageKeys), keys[i]) ==
            std::end(kUsageKeys)) {
            failure = "--by \"" + keys[i] + "\"; expected user, class, snapt, day, month or app";
            return std::nullopt;
        }
        if (std::find(keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(i), keys[i]) ==
            keys.begin() + static_cast<std::ptrdiff_t>(i)) {
            json.string(keys[i]);
        }
    }
    json.end_array();
    const std::string zone = command.value_or("--zone", "UTC");
    for (const std::string_view name : {"--from", "--to"}) {
        if (!write_time(json, name.substr(2), command.value(name), zone, parse_time_us)) {
            failure = std::string(name) + " \"" + command.value_or(name, "") +
                      "\"; expected a day (2026-11-01), a time (2026-11-01T12:00:00Z) or Unix "
                      "seconds, and a known --zone";
            return std::nullopt;
        }
    }
    json.field("zone", zone);
    json.field("user", command.value("--user"));
    json.end_object();
    return json.take();
}

std::optional<base::Duration> parse_timeout(std::string_view text) {
    constexpr base::Duration kLongest = std::chrono::hours(24);
    std::optional<base::Duration> timeout = config::parse_duration(text);
    if (!timeout) {
        timeout = config::parse_duration(std::string(text) + "s");
    }
    return timeout && *timeout >= base::Duration{} && *timeout <= kLongest ? timeout : std::nullopt;
}

std::vector<std::string> list_values(const ParsedCommand& command, std::string_view option) {
    std::vector<std::string> result;
    for (const std::string& value : command.values(option)) {
        for (size_t from = 0; from <= value.size();) {
            const size_t comma = std::min(value.find(',', from), value.size());
            result.push_back(value.substr(from, comma - from));
            from = comma + 1;
        }
    }
    return result;
}

}  // namespace continuo::report
