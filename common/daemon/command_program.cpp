#include "common/daemon/command_program.hpp"

#include "common/base/version.hpp"
#include "common/io/file.hpp"
#include "common/io/preflight.hpp"
#include "common/io/unix_server.hpp"
#include "common/report/status_report.hpp"
#include "common/report/table.hpp"

#include <chrono>
#include <cstdio>
#include <system_error>
#include <thread>

#include <unistd.h>

namespace continuo::daemon {

using report::CommandOutput;
using report::JsonValue;
using report::OptionValue;
using report::ParsedCommand;

namespace {

constexpr size_t kMaxCheckedFiles = 256;

report::FileText read_text(const std::string& path) {
    report::FileText result;
    auto text = io::read_file(path, kMaxFileBytes);
    if (text) {
        result.text = std::move(*text);
    } else if (text.error().sys_errno != 0) {
        result.failure = std::generic_category().message(text.error().sys_errno);
    } else {
        result.failure = text.error().where;
    }
    return result;
}

}  // namespace

report::CommandSpec status_spec() {
    return {
        "status",
        "",
        0,
        0,
        {{"--wait", "STATE", OptionValue::Optional}, {"--timeout", "S", OptionValue::Required}}};
}

report::CommandSpec usage_spec() {
    return {"usage",
            "",
            0,
            0,
            {{"--by", "KEY,...", OptionValue::Required, true},
             {"--from", "TIME", OptionValue::Required},
             {"--to", "TIME", OptionValue::Required},
             {"--zone", "ZONE", OptionValue::Required},
             {"--user", "NAME", OptionValue::Required}}};
}

report::CommandSpec check_spec(std::vector<report::OptionSpec> options) {
    return {"check", "[F...]", 0, kMaxCheckedFiles, std::move(options)};
}

std::vector<report::OptionSpec> common_options() {
    return {{"--socket", "PATH", OptionValue::Required}, {"--json", "", OptionValue::None}};
}

RunOptions run_options(const ParsedCommand& command, const DefaultPaths& defaults) {
    return {command.value_or("--config", defaults.config),
            command.value_or("--socket", defaults.socket),
            command.value_or("--state", defaults.state), command.has("--verbose")};
}

int run_program(const report::ProgramSpec& program,
                std::span<const char* const> arguments,
                const RunCommand& run) {
    if (arguments.size() == 1 && std::string_view(arguments[0]) == "--version") {
        std::printf("%s %s\n", std::string(program.name).c_str(),
                    std::string(base::kVersion).c_str());
        return report::kExitGood;
    }
    const report::CommandLine line = report::parse_command_line(program, arguments);
    if (!line.command) {
        std::fputs(report::safe_output(line.text).c_str(),
                   line.exit_code == report::kExitGood ? stdout : stderr);
        return line.exit_code;
    }
    const CommandOutput output = run(*line.command);
    std::fputs(report::safe_output(output.err).c_str(), stderr);
    const bool is_printed = std::fputs(report::safe_output(output.out).c_str(), stdout) >= 0 &&
                            std::fflush(stdout) == 0;
    return is_printed ? output.exit_code : report::kExitError;
}

CommandOutput run_command(std::string_view program, const std::function<int()>& run_daemon) {
    const std::string missing = io::missing_for_tun();
    if (!missing.empty()) {
        return {"", std::string(program) + ": " + missing + "\n", report::kExitError};
    }
    return {"", "", run_daemon()};
}

CommandOutput check_command(std::span<const std::string> files,
                            const ParsedCommand& command,
                            const report::CheckText& check) {
    report::CheckReport checked =
        report::check_files(files, command.has("--json"), read_text, check);
    return {std::move(checked.out), std::move(checked.err), checked.exit_code};
}

report::DaemonAccess access_to(std::string_view program, const std::string& socket) {
    report::DaemonAccess access;
    access.program = program;
    access.socket = socket;
    access.request = [socket](std::string_view line, base::Duration timeout) {
        return io::unix_request(socket, line, timeout);
    };
    access.now = [] { return std::chrono::steady_clock::now(); };
    access.pause = [](base::Duration span) { std::this_thread::sleep_for(span); };
    return access;
}

bool is_stdout_terminal() {
    return ::isatty(STDOUT_FILENO) == 1;
}

CommandOutput ask_command(const report::DaemonAccess& access,
                          const ParsedCommand& command,
                          bool is_terminal,
                          const AskTexts& texts) {
    const bool as_json = command.has("--json");
    const std::string& name = command.name;
    if (name == "status") {
        return report::status_command(access, command, as_json, texts.status);
    }
    if (name == "usage") {
        std::string failure;
        const auto request = report::usage_request(command, texts.parse_time_us, failure);
        if (!request) {
            return {"", access.program + ": " + failure + "\n", report::kExitUsage};
        }
        return report::ask_daemon(
            access, *request, report::kUsageTimeout, as_json,
            [&](const JsonValue& json) { return report::usage_report_text(json, is_terminal); });
    }
    const auto render = [&](const JsonValue& json) {
        return name == "reload" ? report::reload_text(json) : texts.other(name, json);
    };
    return report::ask_daemon(access, report::plain_request(name), report::kAnswerTimeout, as_json,
                              render);
}

}  // namespace continuo::daemon
