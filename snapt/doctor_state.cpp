// Checks of `snapt doctor`: configuration, the daemon, users and ledger.
#include "common/base/version.hpp"
#include "common/daemon/startup.hpp"
#include "common/io/file.hpp"
#include "common/io/privileges.hpp"
#include "common/report/status_report.hpp"
#include "common/report/table.hpp"
#include "snapt/accounting/ledger.hpp"
#include "snapt/doctor_context.hpp"
#include "snapt/user_commands.hpp"

#include <algorithm>
#include <cerrno>

#include <unistd.h>

namespace continuo::snapt {

using report::JsonValue;
using report::Verdict;

namespace {

constexpr base::Duration kStatusTime = base::seconds(5);

// The first error, else the first warning, and how many there are. False: there is an error.
bool say_diagnostics(SnaptDoctor& doctor, const std::vector<config::Diagnostic>& diagnostics) {
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
    doctor.findings.add({is_bad ? Verdict::Fail : Verdict::Warn, "configuration", text,
                         "correct it; `snapt check " + doctor.config_file + "` shows all"});
    return !is_bad;
}

// Users from the daemon, else from the database, which must be there.
std::optional<JsonValue> list_users(SnaptDoctor& doctor) {
    if (doctor.runs()) {
        auto answer = daemon::ask_line(doctor.access, user_request_json({}, std::nullopt),
                                       doctor.deadline.time_for(kStatusTime));
        return answer.kind == daemon::DaemonAnswer::Kind::Answer
                   ? std::optional(std::move(answer.json))
                   : std::nullopt;
    }
    const auto users = UserStore::open(doctor.state);
    if (!users) {
        return std::nullopt;
    }
    const auto list = (*users)->list(daemon::utc_us());
    io::match_owner(doctor.state);
    if (!list) {
        return std::nullopt;
    }
    report::JsonWriter json;
    json.begin_array();
    for (const UserInfo& user : *list) {
        json.begin_object();
        json.field("disabled",
                   user.is_disabled || std::ranges::all_of(user.keys, &KeyInfo::is_disabled));
        json.end_object();
    }
    json.end_array();
    auto parsed = JsonValue::parse(json.take());
    return parsed ? std::optional(std::move(*parsed)) : std::nullopt;
}

}  // namespace

void check_configuration(SnaptDoctor& doctor) {
    const std::string check = "configuration";
    const std::string& path = doctor.config_file;
    doctor.config_failure = "see \"configuration\" above";
    auto text = io::read_file(path, daemon::kMaxFileBytes);
    if (!text && text.error().sys_errno == EACCES && !doctor.is_root) {
        doctor.findings.skip(check, path + " may not be read by this user",
                             std::string(daemon::kRunAsRoot));
        doctor.config_failure = daemon::kRunAsRoot;
        return;
    }
    if (!text) {
        doctor.findings.fail(check, "cannot read " + path + ": " + daemon::describe(text.error()),
                             "make it: snapt init --name NAME --public ADDRESS:PORT");
        return;
    }
    const base::WipedAtEnd wiped(*text);
    ParsedSnaptConfig parsed = parse_snapt_config(*text, path);
    if (!say_diagnostics(doctor, parsed.diagnostics) || !parsed.config) {
        return;
    }
    doctor.config = std::move(*parsed.config);
    doctor.findings.ok(check,
                       path + ": SNAPT " + doctor.config->name + ", realm " + doctor.config->realm);
}

void check_daemon(SnaptDoctor& doctor) {
    const std::string check = "daemon";
    doctor.status = daemon::ask(doctor.access, "status", doctor.deadline.time_for(kStatusTime));
    if (doctor.is_absent()) {
        doctor.findings.warn(check, "none answers at " + doctor.socket,
                             "start it: systemctl start snapt, or snapt run");
        return;
    }
    if (!doctor.runs()) {
        doctor.findings.add({doctor.is_root ? Verdict::Fail : Verdict::Skipped, check,
                             doctor.status.failure,
                             doctor.is_root ? "restart it" : std::string(daemon::kRunAsRoot)});
        return;
    }
    const JsonValue& status = doctor.status.json;
    const std::string version = status.text("version");
    const std::string state = status.text("state", "unknown");
    const std::string text =
        "runs as " + report::cell(status["name"]) + ", state " + state + ", " +
        report::count_cell(status["sessions"]) + " sessions, up for " +
        report::format_uptime(status["uptime_s"].unsigned_integer().value_or(0));
    if (version != base::kVersion) {
        doctor.findings.warn(
            check, text + ", version " + version + ", while this is " + std::string(base::kVersion),
            "restart it: systemctl restart snapt");
    } else if (state != "up") {
        doctor.findings.warn(check, text, "see what fails below");
    } else {
        doctor.findings.ok(check, text);
    }
}

void check_users(SnaptDoctor& doctor) {
    const std::string check = "users";
    const std::string database = doctor.state + "/" + kLedgerFileName;
    if (!doctor.runs()) {
        if (!doctor.needs_root(check)) {
            return;
        }
        if (::access(database.c_str(), F_OK) != 0) {
            doctor.findings.fail(check, "there is no database " + database,
                                 "run snapt init, or name --state");
            return;
        }
    }
    const auto users = list_users(doctor);
    if (!users) {
        doctor.findings.fail(check, "the database cannot be read: " + database,
                             "look at the disk; OPERATIONS, Backup");
        return;
    }
    const auto& list = users->items();
    const auto enabled = std::count_if(list.begin(), list.end(), [](const JsonValue& user) {
        return !user["disabled"].boolean().value_or(false);
    });
    const std::string text =
        std::to_string(enabled) + " of " + std::to_string(list.size()) + " may log in";
    if (enabled == 0) {
        doctor.findings.warn(check, text, "snapt user add NAME > cnapt.toml");
    } else {
        doctor.findings.ok(check, text);
    }
}

void check_ledger(SnaptDoctor& doctor) {
    const std::string check = "ledger";
    if (!doctor.runs()) {
        doctor.findings.skip(check, "needs a running daemon", "start it, see \"daemon\" above");
        return;
    }
    const JsonValue& ledger = doctor.status.json["ledger"];
    const auto number = [&ledger](std::string_view key) {
        return ledger[key].unsigned_integer().value_or(0);
    };
    if (!ledger.is_object()) {
        doctor.findings.ok(check, "off");
    } else if (number("failed_seals") != 0 || number("refused_commands") != 0) {
        doctor.findings.fail(check, "could not be written: new sessions are refused meanwhile",
                             "look at the disk, see \"disk\" above");
    } else if (ledger["coarse"].boolean().value_or(false)) {
        doctor.findings.warn(check, "the disk is nearly full: flows share records", "make room");
    } else {
        doctor.findings.ok(check, std::to_string(number("live_slots_in_use")) + " of " +
                                      std::to_string(number("live_slots")) +
                                      " slots in use, every record was written");
    }
}

}  // namespace continuo::snapt
