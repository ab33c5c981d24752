// Checks of `cnapt doctor`: configuration, policy, the daemon.
#include "classifier/ruleset.hpp"
#include "cnapt/doctor/doctor_context.hpp"
#include "common/base/secret.hpp"
#include "common/daemon/startup.hpp"
#include "common/io/file.hpp"
#include "common/report/status_report.hpp"

#include <cerrno>

namespace continuo::cnapt::doctor {

using settings::NodeConfig;

namespace {

std::string summary(const NodeConfig& config) {
    std::string snapts;
    for (const settings::SnaptEntry& entry : config.snapts) {
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
        daemon::say_unread(doctor, check, path, text.error(),
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
        daemon::say_unread(doctor, check, path, text.error(),
                           "put there what `snapt user add NAME` printed at the server");
        return;
    }
    const base::WipedAtEnd wiped(*text);
    settings::ParsedNodeConfig parsed = settings::parse_node_config(*text, path);
    if (!daemon::say_diagnostics(doctor, check, path, parsed.diagnostics) || !parsed.config ||
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
        daemon::say_unread(doctor, check, path, text.error(), "correct --policy, or `policy`");
        return;
    }
    const classifier::ParsedPolicy parsed = classifier::parse_policy(*text, path);
    if (daemon::say_diagnostics(doctor, check, path, parsed.diagnostics) &&
        parsed.diagnostics.empty()) {
        doctor.findings.ok(check, path);
    }
}

void check_daemon(NodeDoctor& doctor) {
    if (!daemon::daemon_answers(doctor)) {
        return;
    }
    const auto ask = [&doctor](std::string_view command) {
        return daemon::ask(doctor.access, command, doctor.deadline.time_for(daemon::kDoctorAskTime))
            .json;
    };
    doctor.snapts = ask("snapts");
    doctor.paths = ask("paths");
    daemon::say_status(doctor, "runs as node " + report::cell(doctor.status.json["node"]));
}

}  // namespace continuo::cnapt::doctor
