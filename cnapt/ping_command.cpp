#include "cnapt/ping_command.hpp"

#include "common/report/json.hpp"
#include "common/report/status_report.hpp"
#include "common/report/table.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <vector>

namespace continuo::cnapt {

using report::CommandOutput;
using report::JsonValue;

namespace {

// Answers of one path, identified by interface and transport.
struct PathSum {
    std::string name;
    uint64_t asked = 0;
    uint64_t answered = 0;
    double least_ms = 0;
    double most_ms = 0;
    double all_ms = 0;

    void add(double rtt_ms) {
        least_ms = answered == 0 ? rtt_ms : std::min(least_ms, rtt_ms);
        most_ms = std::max(most_ms, rtt_ms);
        all_ms += rtt_ms;
        ++answered;
    }
    std::optional<double> mean_ms() const {
        return answered == 0 ? std::nullopt : std::optional(all_ms / static_cast<double>(answered));
    }
};

std::string name_of(const JsonValue& path) {
    return report::cell(path["interface"]) + " " + report::cell(path["local"]) + " " +
           report::cell(path["transport"]);
}

PathSum& sum_of(std::vector<PathSum>& sums, const std::string& name) {
    const auto known = std::find_if(sums.begin(), sums.end(),
                                    [&](const PathSum& sum) { return sum.name == name; });
    if (known != sums.end()) {
        return *known;
    }
    sums.push_back({name});
    return sums.back();
}

std::string sums_text(const std::string& snapt, const std::vector<PathSum>& sums) {
    std::string text;
    for (const PathSum& sum : sums) {
        text += snapt + " by " + sum.name + ": " + std::to_string(sum.answered) + " of " +
                std::to_string(sum.asked) + " answered";
        if (sum.answered != 0) {
            text += ", " + report::format_milliseconds(sum.least_ms) + " to " +
                    report::format_milliseconds(sum.most_ms) + ", mean " +
                    report::format_milliseconds(sum.mean_ms());
        }
        text += "\n";
    }
    return sums.empty() ? snapt + ": no path; `cnapt paths` shows those of other SNAPTs\n" : text;
}

std::string sums_json(const std::string& snapt, const std::vector<PathSum>& sums) {
    report::JsonWriter json;
    json.begin_object().field("snapt", snapt).key("paths").begin_array();
    for (const PathSum& sum : sums) {
        const auto if_answered = [&sum](double value) {
            return sum.answered == 0 ? std::nullopt : std::optional(value);
        };
        json.begin_object();
        json.field("path", sum.name);
        json.field("asked", sum.asked);
        json.field("answered", sum.answered);
        json.field("rtt_min_ms", if_answered(sum.least_ms));
        json.field("rtt_mean_ms", sum.mean_ms());
        json.field("rtt_max_ms", if_answered(sum.most_ms));
        json.end_object();
    }
    json.end_array().end_object();
    return json.take() + "\n";
}

std::optional<uint64_t> count_of(const report::ParsedCommand& command) {
    const std::string text = command.value_or("--count", std::to_string(kDefaultPings));
    uint64_t count = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
    const bool is_number = error == std::errc{} && end == text.data() + text.size();
    return is_number && count >= 1 && count <= kMostPings ? std::optional(count) : std::nullopt;
}

void take_answer(const JsonValue& answer,
                 std::vector<PathSum>& sums,
                 const std::function<void(const std::string& line)>& print) {
    for (const JsonValue& path : answer["paths"].items()) {
        PathSum& sum = sum_of(sums, name_of(path));
        ++sum.asked;
        const auto rtt_ms = path["rtt_ms"].number();
        if (rtt_ms) {
            sum.add(*rtt_ms);
        }
        print(answer.text("snapt") + " by " + sum.name + ": " +
              (rtt_ms ? report::format_milliseconds(rtt_ms)
                      : "no answer (" + path.text("state", "unknown") + ")") +
              "\n");
    }
}

}  // namespace

report::CommandSpec ping_spec() {
    return {"ping",
            "SNAPT",
            1,
            1,
            {{"--count", "N", report::OptionValue::Required, false, {}, "stop after N pings"}},
            "round trips to a SNAPT by each path"};
}

CommandOutput ping_command(const report::DaemonAccess& access,
                           const report::ParsedCommand& command,
                           const std::function<void(const std::string& line)>& print) {
    const std::string& snapt = command.arguments.front();
    const bool as_json = command.has("--json");
    const auto count = count_of(command);
    if (!count) {
        return {"", "cnapt: --count expects 1 to " + std::to_string(kMostPings) + "\n",
                report::kExitUsage};
    }
    report::JsonWriter request;
    request.begin_object().field("command", "ping").field("snapt", snapt).end_object();
    const std::string line = request.take();
    std::vector<PathSum> sums;
    for (uint64_t i = 0; i < *count; ++i) {
        const base::TimePoint began = access.now();
        CommandOutput output = report::ask_daemon(access, line, report::kAnswerTimeout, true, {});
        if (output.exit_code != report::kExitGood) {
            return output;
        }
        const auto answer = JsonValue::parse(output.out);
        take_answer(answer ? *answer : JsonValue(), sums, [&](const std::string& text) {
            if (!as_json) {
                print(text);
            }
        });
        const base::Duration passed = access.now() - began;
        if (i + 1 < *count && passed < kPingInterval) {
            access.pause(kPingInterval - passed);
        }
    }
    const bool has_answer =
        std::any_of(sums.begin(), sums.end(), [](const PathSum& sum) { return sum.answered != 0; });
    return {as_json ? sums_json(snapt, sums) : sums_text(snapt, sums), "",
            has_answer ? report::kExitGood : report::kExitError};
}

}  // namespace continuo::cnapt
