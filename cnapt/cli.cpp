#include "cnapt/cli.hpp"

#include "cnapt/app.hpp"
#include "cnapt/check_files.hpp"
#include "cnapt/classify_command.hpp"
#include "cnapt/dns_helper.hpp"
#include "cnapt/dns_restore.hpp"
#include "cnapt/doctor.hpp"
#include "cnapt/estimate_command.hpp"
#include "cnapt/failure_text.hpp"
#include "cnapt/node_config.hpp"
#include "cnapt/ping_command.hpp"
#include "cnapt/top_command.hpp"
#include "common/config/units.hpp"
#include "common/daemon/command_program.hpp"
#include "common/daemon/startup.hpp"
#include "common/report/flow_list.hpp"
#include "common/report/json.hpp"
#include "common/report/status_report.hpp"
#include "common/report/table.hpp"

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include <unistd.h>

namespace continuo::cnapt {

using config::kMicroseconds;
using report::Align;
using report::CommandOutput;
using report::JsonValue;
using report::kEnoughAddress;
using report::OptionValue;
using report::ParsedCommand;
using report::Table;

namespace {

constexpr daemon::DefaultPaths kDefaults = {kDefaultConfig, kDefaultSocket, kDefaultState};

CommandOutput run_daemon_command(const ParsedCommand& command) {
    RunOptions options{daemon::run_options(command, kDefaults), command.value_or("--policy", "")};
    return daemon::run_command("cnapt", [&] { return run_daemon(options); });
}

// The file that `run` without arguments would read.
CommandOutput check_command(const ParsedCommand& command) {
    std::vector<std::string> files = command.arguments;
    if (files.empty()) {
        files.push_back(command.value_or("--config", kDefaultConfig));
        const auto policy = command.has("--policy") ? command.value_or("--policy", "")
                                                    : policy_file_of(files.front());
        if (policy) {
            files.push_back(*policy);
        }
    }
    return daemon::check_command(files, command, check_node_file);
}

// The MTU, with a question mark while nothing of that size has come through; empty over TCP.
std::string mtu_cell(const JsonValue& path) {
    if (path.text("transport") == "tcp") {
        return std::string(report::kUnknown);
    }
    return report::cell(path["mtu"]) + (path["mtu_confirmed"].boolean().value_or(true) ? "" : "?");
}

std::string sessions_table(const JsonValue& sessions, bool is_terminal, size_t columns) {
    Table table({{"SNAPT"},
                 {"ADDRESS", Align::Left, 0, kEnoughAddress},
                 {"BY"},
                 {"RTT", Align::Right},
                 {"ONE WAY", Align::Right, 5},
                 {"LOSS", Align::Right, 2},
                 {"UP", Align::Right, 1},
                 {"DOWN", Align::Right, 1},
                 {"MTU", Align::Right, 4},
                 {"INNER IPV4", Align::Left, 6},
                 {"INNER IPV6", Align::Left, 7},
                 {"FLOWS", Align::Right, 3}});
    for (const JsonValue& session : sessions.items()) {
        table.add_row(
            {report::cell(session["snapt"]), report::cell(session["address"]),
             report::cell(session["transport"]), report::milliseconds_cell(session["rtt_ms"]),
             report::milliseconds_cell(session["one_way_ms"]),
             report::fraction_cell(session["loss"]), report::rate_cell(session["up_bits_per_s"]),
             report::rate_cell(session["down_bits_per_s"]), mtu_cell(session),
             report::cell(session["inner_ipv4"]), report::cell(session["inner_ipv6"]),
             report::count_cell(session["flows"])});
    }
    return table.rows() == 0 ? "no session\n" : table.render(is_terminal, columns);
}

// The state of the MTU search, in plain words; the JSON has those of RFC 8899.
std::string mtu_state_cell(const JsonValue& path) {
    const std::string state = path.text("mtu_state");
    if (path.text("transport") == "tcp") {
        return std::string(report::kUnknown);
    }
    if (state == "base") {
        return "not asked";
    }
    return state == "error" ? "below 1280" : report::cell(path["mtu_state"]);
}

std::string handovers_text(const JsonValue& handovers) {
    std::string text = "handovers  " + report::count_cell(handovers["count"]);
    const JsonValue& last = handovers["last"];
    if (last.is_object()) {
        text += ", the last from " + report::cell(last["from"]) + " to " +
                report::cell(last["to"]) + " in " + report::milliseconds_cell(last["gap_ms"]);
    }
    return text + "\n";
}

// Adds how names are looked up.
std::string names_text(const JsonValue& dns) {
    const std::string state = dns.text("state");
    if (state == "beside") {
        return "names      " + report::list_cell(dns["bypassed"]) +
               " asked beside the tunnel: silent through it (set [dns] servers)\n";
    }
    if (state == "unreachable") {
        return "names      " + report::list_cell(dns["unreachable"]) +
               " silent through the tunnel, and the kill switch stops the way beside: set [dns] "
               "servers, or put it into capture.exclude\n";
    }
    if (state != "tunnel" && state != "plain" && state != "failed") {
        return {};
    }
    std::string text = "names      ";
    if (state == "failed" && !dns["answered"].boolean().value_or(true)) {
        return text + "do not resolve: " + report::cell(dns["error"]) + "\n";
    }
    if (state == "failed") {
        return text + "as without cnapt: " + report::cell(dns["error"]) + "\n";
    }
    return text + (state == "tunnel" ? "through the tunnel\n" : "as without cnapt\n");
}

// Where there are more than are followed: the gravest alone.
std::string routes_text(const JsonValue& routes) {
    const auto count = [&](std::string_view name) {
        return routes[name].unsigned_integer().value_or(0);
    };
    const auto line = [&](std::string_view name, const std::string& said) {
        return "routes     " + report::cell(routes[name]) + " " + said + "\n";
    };
    if (count("unseen") > 0) {
        return line("unseen",
                    "default routes or routes to SNAPTs are ignored: too many in the main table");
    }
    if (count("sources_left_out") > 0) {
        return line("sources_left_out",
                    "of uplinks are left out, too many: a strict reverse path filter drops what "
                    "comes by them (cnapt doctor)");
    }
    if (count("unwatched") > 0) {
        return line("unwatched",
                    "addresses of SNAPTs or name servers are too many: routes to them may not be "
                    "seen");
    }
    if (count("left_out") > 0) {
        return line("left_out", "of the main table are ignored, since they do not matter here");
    }
    return {};
}

// The user who typed the command, also through sudo.
std::string portal_request(const ParsedCommand& command) {
    const char* const by_sudo = std::getenv("SUDO_UID");
    uint32_t user = getuid();
    if (by_sudo != nullptr && user == 0) {
        static_cast<void>(std::from_chars(by_sudo, by_sudo + std::strlen(by_sudo), user));
    }
    report::JsonWriter json;
    json.begin_object();
    json.field("command", "portal");
    if (!command.arguments.empty()) {
        json.field("interface", command.arguments.front());
    }
    json.field("user", user);
    json.end_object();
    return json.take();
}

std::string portal_text(const JsonValue& answer) {
    const bool is_told = answer["url_is_told"].boolean().value_or(true);
    return report::cell(answer["interface"]) + ": log in at " + report::cell(answer["url"]) +
           (is_told ? "" : " (the portal did not say where; any http:// page leads to it)") +
           "\nNew web connections and DNS questions (IPv4) of user " +
           report::cell(answer["user"]) + " go to that portal for " +
           report::cell(answer["seconds"]) +
           " s, or until it lets this node through. All else stays in the tunnel.\n";
}

// Flushed at once: the command runs for seconds.
void print_line(const std::string& line) {
    std::fputs(report::safe_output(line).c_str(), stdout);
    std::fflush(stdout);
}

// Restores what a killed helper left.
CommandOutput restore_command(const ParsedCommand& command) {
    const std::string path(kResolvConf);
    const auto places = command.has("--state") ? kept_places_in(command.value_or("--state", ""))
                                               : usual_kept_places(path);
    const DnsRestored restored = restore_dns(places, path);
    if (!restored.failure.empty()) {
        return {"", "cnapt: " + restored.failure, report::kExitError};
    }
    return {restored.is_restored ? path + " is as it was\n" : "nothing to put back\n", "",
            report::kExitGood};
}

// --- Options of several commands
report::OptionSpec config_option() {
    return {"--config", "F", OptionValue::Required, false, {}, "configuration file"};
}
report::OptionSpec policy_option() {
    return {"--policy", "F", OptionValue::Required,
            false,      {},  "policy file, instead of the one that the configuration names"};
}
report::OptionSpec state_option() {
    return {"--state", "DIR", OptionValue::Required, false, {}, "state directory"};
}

std::vector<report::CommandSpec> commands() {
    return {{"run",
             "",
             0,
             0,
             {config_option(),
              policy_option(),
              state_option(),
              {"--verbose", "", OptionValue::None, false, {}, "log details for debugging"}},
             "run the daemon in the foreground"},
            {"resolver",
             "",
             0,
             0,
             {config_option(),
              {"--restore",
               "",
               OptionValue::None,
               false,
               {},
               "restore resolv.conf after a helper was killed"},
              state_option()},
             "helper service that changes /etc/resolv.conf"},
            daemon::status_spec(),
            daemon::shown_as_table(report::flows_spec("--process")),
            top_spec(),
            daemon::shown_as_table(
                {"paths", "", 0, 0, {}, "each uplink towards each SNAPT: state, delay, rate"}),
            daemon::shown_as_table(
                {"snapts", "", 0, 0, {}, "each SNAPT: state, control connection, leases"}),
            ping_spec(),
            {"portal", "[INTERFACE]", 0, 1, {}, "log in to a captive portal"},
            daemon::usage_spec(),
            {"reload", "", 0, 0, {}, "apply changes of configuration and policy"},
            doctor_spec(),
            daemon::check_spec({config_option(), policy_option()}),
            classify_spec(),
            estimate_spec()};
}

// For a service manager: standard input is the connection to the daemon.
CommandOutput resolver_command(const ParsedCommand& command) {
    if (command.has("--restore")) {
        return restore_command(command);
    }
    const std::string state = command.value_or("--state", kDefaultResolverState);
    const std::string path = command.value_or("--config", kDefaultConfig);
    daemon::begin_process(false);
    const auto loaded =
        daemon::load_config<NodeConfig>(path, parse_node_config, daemon::DiagnosticsTo::Stderr);
    if (!loaded.config) {
        return {"", "", report::kExitConfig};
    }
    const int code = run_dns_helper(
        STDIN_FILENO, {loaded.config->capture.device, loaded.config->dns.servers, state});
    return {"", "", code};
}

// Classes that are not sent the normal way.
std::string class_ways_text(const JsonValue& paths, size_t columns) {
    constexpr size_t kIndent = 2;
    std::string text;
    for (const JsonValue& path : paths.items()) {
        for (const JsonValue& one : path["ways"].items()) {
            const bool is_detour = one.text("way") == "detour";
            text += report::wrapped(
                report::cell(path["interface"]) + ">" + report::cell(path["snapt"]) + ": " +
                    report::cell(one["class"]) +
                    (is_detour ? " is sent from the lt-ld socket, as its own no longer gets through"
                               : " is sent without its DSCP, which the network drops") +
                    "; retried every 10 minutes, nothing to do\n",
                columns, kIndent);
        }
    }
    return text;
}

}  // namespace

const report::ProgramSpec& program_spec() {
    static const report::ProgramSpec program = {"cnapt", commands(), daemon::common_options()};
    return program;
}

CommandOutput ask_command(const report::DaemonAccess& access,
                          const ParsedCommand& command,
                          bool is_terminal,
                          size_t columns) {
    if (command.name == "portal") {
        return report::ask_daemon(access, portal_request(command), report::kAnswerTimeout,
                                  command.has("--json"), portal_text);
    }
    if (command.name == "flows") {
        return report::flows_command(access, command, false, is_terminal, columns);
    }
    if (command.name == "top") {
        return top_command(access, command, is_terminal, columns);
    }
    daemon::AskTexts texts;
    texts.columns = columns;
    texts.status = [&](const JsonValue& json) { return status_text(json, is_terminal, columns); };
    texts.other = [&](const std::string& name, const JsonValue& json) {
        return name == "paths" ? paths_text(json, is_terminal, columns)
                               : snapts_text(json, is_terminal, columns);
    };
    texts.parse_time_us = parse_time_us;
    return daemon::ask_command(access, command, is_terminal, texts);
}

int run_program(std::span<const char* const> arguments) {
    return daemon::run_program(program_spec(), arguments, [](const ParsedCommand& command) {
        if (command.name == "run") {
            return run_daemon_command(command);
        }
        if (command.name == "check") {
            return check_command(command);
        }
        if (command.name == "classify" || command.name == "estimate") {
            const auto run = command.name == "classify" ? classify_command : estimate_command;
            return run(command, daemon::is_stdout_terminal(), daemon::table_columns(command));
        }
        if (command.name == "resolver") {
            return resolver_command(command);
        }
        const auto access =
            daemon::access_to("cnapt", command.value_or("--socket", kDefaultSocket));
        if (command.name == "doctor") {
            return doctor_command(access, command);
        }
        if (command.name == "ping") {
            return ping_command(access, command, print_line);
        }
        return ask_command(access, command, daemon::is_stdout_terminal(),
                           daemon::table_columns(command));
    });
}

std::string status_text(const JsonValue& status, bool is_terminal, size_t columns) {
    constexpr size_t kIndent = 11;
    const uint64_t uptime_s = status["uptime_s"].unsigned_integer().value_or(0);
    std::string text = report::wrapped(
        "cnapt " + report::cell(status["version"]) + "  node " + report::cell(status["node"]) +
            "  " + report::state_word(status.text("state", "unknown"), is_terminal) + "  up for " +
            report::format_uptime(uptime_s) + "\n",
        columns, kIndent);
    text += report::wrapped(tunnel_text(status), columns, kIndent) +
            snapt_errors_text(status["snapts"], columns) + "\n";
    text += sessions_table(status["sessions"], is_terminal, columns) + "\n";
    text += paths_text(status["paths"], is_terminal, columns) + "\n";
    text += report::traffic_text(status["traffic"], is_terminal, columns);
    text += "up, by class:\n";
    text += report::classes_text(status["classes"], is_terminal, columns) + "\n";
    text += report::wrapped(handovers_text(status["handovers"]) + names_text(status["dns"]) +
                                routes_text(status["routes"]),
                            columns, kIndent);
    text += report::drops_text(status["drops"], columns);
    return text + report::io_text(status["io"], columns);
}

std::string paths_text(const JsonValue& paths, bool is_terminal, size_t columns) {
    Table table({{"PATH"},
                 {"LOCAL", Align::Left, 4},
                 {"STATE"},
                 {"ACTIVE", Align::Left, 2},
                 {"RTT", Align::Right},
                 {"LOSS", Align::Right, 1},
                 {"UP", Align::Right},
                 {"DOWN", Align::Right},
                 {"RATE", Align::Right, 6},
                 {"MTU", Align::Right, 3},
                 {"MTU STATE", Align::Left, 5},
                 {"BLACK HOLES", Align::Right, 7}});
    for (const JsonValue& path : paths.items()) {
        const bool is_active = path["active"].boolean().value_or(false);
        const bool is_captive = path["captive"].boolean().value_or(false);
        const std::string state = is_captive ? "portal" : path.text("state");
        const auto colour = state == "dead" ? report::Colour::Dim : report::Colour::None;
        table.add_row(
            {report::cell(path["interface"]) + ">" + report::cell(path["snapt"]) +
                 (path.text("transport") == "tcp" ? " tcp" : ""),
             report::cell(path["local"]), state, is_active ? "yes" : "no",
             report::milliseconds_cell(path["rtt_ms"]), report::fraction_cell(path["loss"]),
             report::rate_cell(path["up_bits_per_s"]), report::rate_cell(path["down_bits_per_s"]),
             report::rate_cell(path["delivery_bits_per_s"]), mtu_cell(path), mtu_state_cell(path),
             report::cell(path["black_holes"])},
            is_active ? report::Colour::Green : colour);
    }
    return (table.rows() == 0 ? "no path\n" : table.render(is_terminal, columns)) +
           path_errors_text(paths, columns) + class_ways_text(paths, columns);
}

std::string snapts_text(const JsonValue& snapts, bool is_terminal, size_t columns) {
    Table table({{"SNAPT"},
                 {"ADDRESS", Align::Left, 1, kEnoughAddress},
                 {"FROM", Align::Left, 6},
                 {"STATE"},
                 {"CONTROL"},
                 {"RTT", Align::Right, 2},
                 {"LOSS", Align::Right, 4},
                 {"PROTECTION", Align::Left, 3},
                 {"INNER IPV4", Align::Left, 8},
                 {"INNER IPV6", Align::Left, 9},
                 {"FLOWS", Align::Right},
                 {"HANDOVERS", Align::Right, 5},
                 {"PRICE", Align::Right, 2},
                 {"QUEUED", Align::Right, 7}});
    for (const JsonValue& snapt : snapts.items()) {
        const bool forwards = snapt["forwards"].boolean().value_or(true);
        const bool is_up = snapt.text("state") == "up";
        const bool is_open = snapt["control_open"].boolean().value_or(false);
        const bool is_learned = snapt["learned"].boolean().value_or(false);
        const bool is_listed = snapt["listed"].boolean().value_or(true);
        table.add_row({report::cell(snapt["snapt"]), report::cell(snapt["address"]),
                       !is_learned ? "configured"
                       : is_listed ? "directory"
                                   : "not listed",
                       report::cell(snapt["state"]), is_open ? "open" : "closed",
                       report::milliseconds_cell(snapt["rtt_ms"]),
                       report::fraction_cell(snapt["loss"]), report::cell(snapt["protection"]),
                       report::cell(snapt["inner_ipv4"]), report::cell(snapt["inner_ipv6"]),
                       report::count_cell(snapt["flows"]), report::count_cell(snapt["handovers"]),
                       forwards ? report::price_cell(snapt["price"]) : "-",
                       report::bytes_cell(snapt["queued_bytes"])},
                      is_up ? report::Colour::None : report::Colour::Yellow);
    }
    return (table.rows() == 0 ? "no SNAPT\n" : table.render(is_terminal, columns)) +
           snapt_errors_text(snapts, columns);
}

// The process of a command has one thread: the C library's time zone may be set.
std::optional<int64_t> parse_time_us(const std::string& text, const std::string& zone) {
    for (const char* format : {"%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d"}) {
        std::tm fields{};
        const char* end = strptime(text.c_str(), format, &fields);
        if (end == nullptr) {
            continue;
        }
        const bool is_utc = *end == 'Z';
        if (end[is_utc ? 1 : 0] != '\0' || (is_utc && std::strchr(format, 'T') == nullptr)) {
            continue;
        }
        fields.tm_isdst = -1;
        if (is_utc || zone == "UTC") {
            return static_cast<int64_t>(timegm(&fields)) * kMicroseconds;
        }
        if (zone.empty() || zone.front() == '/' || zone.find("..") != std::string::npos ||
            access(("/usr/share/zoneinfo/" + zone).c_str(), R_OK) != 0) {
            return std::nullopt;
        }
        setenv("TZ", zone.c_str(), 1);
        tzset();
        return static_cast<int64_t>(std::mktime(&fields)) * kMicroseconds;
    }
    return std::nullopt;
}

}  // namespace continuo::cnapt
