#include "common/daemon/doctor.hpp"

#include "common/daemon/command_program.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

namespace continuo::daemon {

using report::CommandOutput;

namespace {

// 0: no terminal, or one that does not say.
size_t terminal_columns() {
    winsize size{};
    const bool is_known = is_stdout_terminal() && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
    return is_known ? size.ws_col : 0;
}

}  // namespace

report::CommandSpec doctor_spec(const std::vector<report::OptionSpec>& options) {
    using report::OptionValue;
    report::CommandSpec spec{"doctor", "", 0, 0, {}, "find problems and their remedies"};
    spec.options.push_back(
        {"--config", "F", OptionValue::Required, false, {}, "configuration file"});
    spec.options.insert(spec.options.end(), options.begin(), options.end());
    spec.options.push_back({"--state", "DIR", OptionValue::Required, false, {}, "state directory"});
    return spec;
}

CommandOutput doctor_output(std::string_view program,
                            const report::Findings& findings,
                            const report::ParsedCommand& command) {
    CommandOutput output;
    output.out = command.has("--json")
                     ? report::findings_json(program, findings) + "\n"
                     : report::findings_text(findings, is_stdout_terminal(), terminal_columns());
    output.exit_code = findings.has(report::Verdict::Fail) ? report::kExitError : report::kExitGood;
    return output;
}

DaemonAnswer
ask(const report::DaemonAccess& access, std::string_view command, base::Duration timeout) {
    return ask_line(access, report::plain_request(command), timeout);
}

DaemonAnswer
ask_line(const report::DaemonAccess& access, std::string_view request, base::Duration timeout) {
    DaemonAnswer answer;
    const auto reply = access.request(request, timeout);
    if (!reply) {
        answer.kind = report::is_no_daemon(reply.error()) ? DaemonAnswer::Kind::Absent
                                                          : DaemonAnswer::Kind::Unknown;
        answer.failure = report::describe_failure(access, reply.error());
        return answer;
    }
    auto parsed = report::JsonValue::parse(*reply);
    if (!parsed || parsed->has("error")) {
        answer.failure =
            parsed ? parsed->text("error", "unknown error") : "the daemon's answer is not JSON";
        return answer;
    }
    answer.kind = DaemonAnswer::Kind::Answer;
    answer.json = std::move(*parsed);
    return answer;
}

bool is_root() {
    return ::geteuid() == 0;
}

}  // namespace continuo::daemon
