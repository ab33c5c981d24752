// Checks of `cnapt doctor`: configuration, policy, the daemon.
#include "classifier/ruleset.hpp"
#include "cnapt/doctor_context.hpp"
#include "common/base/version.hpp"
#include "common/daemon/startup.hpp"
#include "common/io/file.hpp"
#include "common/report/status_report.hpp"
#include "common/report/table.hpp"

#include <algorithm>
#include <cerrno>

#include <unistd.h>

namespace continuo::cnapt {

using report::Verdict;

namespace {

constexpr base::Duration kStatusTime = base::seconds(5);

// Why a file cannot be read, and what to do.
void say_unread(NodeDoctor& doctor,
                const std::string& check,
                const std::string& path,
                const base::Error& error,
                const std::string& remedy) {
    if (error.sys_errno == EACCES && !doctor.is_root) {
        doctor.findings.skip(check, path + " may not be read by this user",
                             std::string(daemon::kRunAsRoot));
    } else {
        doctor.findings.fail(check, "cannot read " + path + ": " + daemon::describe(error), remedy);
    }
}

// The first error, else the first warning, and how many there are. False: there is an error.
bool say_diagnostics(NodeDoctor& doctor,
                     const std::string& check,
                     const std::string& path,
                     const std::vector<config::Diagnostic>& diagnostics) {
    const bool is_bad = config::has_errors(diagnostics);
    const config::Severity worst = is_bad ? config::Severity::Error : config::Severity::Warning;
    const auto first =
        std::find_if(diagnostics.begin(), diagnostics.end(),
                     [&](const config::Diagnostic& one) { return one.severity == worst; });
    if (first == diagnostics.end()) {
        return true;
    }
    std::string text = config::to_text(*first);
    if (diagnostics.size() > 1) {
        text += ", and " + std::to_string(diagnostics.size() - 1) + " more";
    }
    doctor.findings.add({is_bad ? Verdict::Fail : Verdict::Warn, check, text,
                         "correct it; `cnapt check " + path + "` shows all"});
    return !is_bad;
}

std::string summary(const NodeConfig& config) {
    std::string snapts;
    for (const SnaptEntry& entry : config.snapts) {
        snapts += (snapts.empty() ? "" : ", ") + entry.name;
    }
    return "user " + config.identity.psk_identity() + ", realm " + config.realm + ", SNAPT " +
           (snapts.empty() ? "none" : snapts);
}

// The key from its own file, where it is not in the configuration.
bool load_key(NodeDoctor& doctor, const std::string& check, NodeConfig& config) {
    if (config.identity.key) {
        return true;
    }
    const std::string& path = config.identity.key_file;
    auto text = io::read_file(path, daemon::kMaxFileBytes);
    if (!text) {
        say_unread(doctor, check, path, text.error(),
                   "put the key there, or correct identity.key_file");
        return false;
    }
    const base::WipedAtEnd wiped(*text);
    config.identity.key = config::parse_key(*text);
    if (!config.identity.key) {
        doctor.findings.fail(check, path + " holds no key", "32 bytes in base 64 and nothing else");
    }
    return config.identity.key.has_value();
}

}  // namespace

void check_configuration(NodeDoctor& doctor) {
    const std::string check = "configuration";
    const std::string& path = doctor.config_file;
    doctor.config_failure = "see \"configuration\" above";
    auto text = io::read_file(path, daemon::kMaxFileBytes);
    if (!text) {
        say_unread(doctor, check, path, text.error(),
                   "put there what `snapt user add NAME` printed at the server");
        return;
    }
    const base::WipedAtEnd wiped(*text);
    ParsedNodeConfig parsed = parse_node_config(*text, path);
    if (!say_diagnostics(doctor, check, path, parsed.diagnostics) || !parsed.config ||
        !load_key(doctor, check, *parsed.config)) {
        return;
    }
    doctor.config = std::move(*parsed.config);
    doctor.findings.ok(check, path + ": " + summary(*doctor.config));
}

void check_policy(NodeDoctor& doctor) {
    const std::string check = "policy";
    const bool is_named = !doctor.policy_file.empty();
    if (!is_named) {
        doctor.policy_file = doctor.config ? doctor.config->policy : NodeConfig{}.policy;
    }
    const std::string& path = doctor.policy_file;
    const auto text = io::read_file(path, daemon::kMaxFileBytes);
    if (!text && text.error().sys_errno == ENOENT && !is_named) {
        doctor.findings.ok(check, "there is no " + path + ": the built-in one");
        return;
    }
    if (!text) {
        say_unread(doctor, check, path, text.error(), "correct --policy, or `policy`");
        return;
    }
    const classifier::ParsedPolicy parsed = classifier::parse_policy(*text, path);
    if (say_diagnostics(doctor, check, path, parsed.diagnostics) && parsed.diagnostics.empty()) {
        doctor.findings.ok(check, path);
    }
}

void check_daemon(NodeDoctor& doctor) {
    const std::string check = "daemon";
    doctor.status = daemon::ask(doctor.access, "status", doctor.deadline.time_for(kStatusTime));
    if (doctor.status.kind == daemon::DaemonAnswer::Kind::Absent) {
        doctor.findings.warn(check, "none answers at " + doctor.socket,
                             "start it: systemctl start cnapt, or cnapt run");
        return;
    }
    if (!doctor.runs()) {
        if (doctor.is_root) {
            doctor.findings.fail(check, doctor.status.failure, "restart it");
        } else {
            doctor.findings.skip(check, doctor.status.failure, std::string(daemon::kRunAsRoot));
        }
        return;
    }
    doctor.snapts =
        daemon::ask(doctor.access, "snapts", doctor.deadline.time_for(kStatusTime)).json;
    doctor.paths = daemon::ask(doctor.access, "paths", doctor.deadline.time_for(kStatusTime)).json;
    const report::JsonValue& status = doctor.status.json;
    const std::string state = status.text("state", "unknown");
    const std::string version = status.text("version");
    const std::string text =
        "runs as node " + report::cell(status["node"]) + ", state " + state + ", up for " +
        report::format_uptime(status["uptime_s"].unsigned_integer().value_or(0));
    if (version != base::kVersion) {
        doctor.findings.warn(
            check, text + ", version " + version + ", while this is " + std::string(base::kVersion),
            "restart it: systemctl restart cnapt");
    } else if (state == "down") {
        doctor.findings.fail(check, text, "see what fails below");
    } else if (state != "up") {
        doctor.findings.warn(check, text, "see what fails below");
    } else {
        doctor.findings.ok(check, text);
    }
}

}  // namespace continuo::cnapt
