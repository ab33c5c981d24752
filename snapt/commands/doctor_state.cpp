// Checks of `snapt doctor`: configuration, the daemon, users and ledger.
#include "common/base/secret.hpp"
#include "common/daemon/startup.hpp"
#include "common/host/privileges.hpp"
#include "common/io/file.hpp"
#include "common/report/status_report.hpp"
#include "snapt/commands/doctor_context.hpp"
#include "snapt/ledger/ledger.hpp"
#include "snapt/users/user_commands.hpp"

#include <algorithm>

#include <unistd.h>

namespace continuo::snapt::commands {

using report::JsonValue;

namespace {

// Longest wait for every page of the database, out of kDoctorTime. A choice, not measured.
constexpr base::Duration kPagesTime = base::seconds(20);

// Users from the daemon, otherwise from the database, which must exist and is not changed.
base::Result<JsonValue> list_users(SnaptDoctor& doctor) {
    if (doctor.runs()) {
        auto answer = daemon::ask_line(doctor.access, users::user_request_json({}, std::nullopt),
                                       doctor.deadline.time_for(daemon::kDoctorAskTime));
        if (answer.kind == daemon::DaemonAnswer::Kind::Answer) {
            return std::move(answer.json);
        }
        return base::Error{base::Errc::WouldBlock, "the daemon gave no list of users", 0};
    }
    const auto users = store::UserStore::open(doctor.state, store::OpenMode::ReadOnly);
    const auto list = users ? (*users)->list(daemon::utc_us())
                            : base::Result<std::vector<store::UserInfo>>(users.error());
    host::match_owner(doctor.state);  // SQLite makes files even to read
    if (!list) {
        return list.error();
    }
    report::JsonWriter json;
    json.begin_array();
    for (const store::UserInfo& user : *list) {
        json.begin_object();
        json.field("disabled", user.is_disabled ||
                                   std::ranges::all_of(user.keys, &store::KeyInfo::is_disabled));
        json.end_object();
    }
    json.end_array();
    return JsonValue::parse(json.take());
}

}  // namespace

void check_configuration(SnaptDoctor& doctor) {
    const std::string check = "configuration";
    const std::string& path = doctor.config_file;
    doctor.config_failure = "see \"configuration\" above";
    auto text = io::read_file(path, daemon::kMaxFileBytes);
    if (!text) {
        daemon::say_unread(doctor, check, path, text.error(),
                           "make it: snapt init --name NAME --public ADDRESS:PORT");
        if (doctor.lacks_rights(text.error())) {
            doctor.config_failure = daemon::kRunAsRoot;
        }
        return;
    }
    const base::WipedAtEnd wiped(*text);
    settings::ParsedSnaptConfig parsed = settings::parse_snapt_config(*text, path);
    if (!daemon::say_diagnostics(doctor, check, path, parsed.diagnostics) || !parsed.config) {
        return;
    }
    doctor.config = std::move(*parsed.config);
    doctor.findings.ok(check,
                       path + ": SNAPT " + doctor.config->name + ", realm " + doctor.config->realm);
}

void check_daemon(SnaptDoctor& doctor) {
    if (daemon::daemon_answers(doctor)) {
        const JsonValue& status = doctor.status.json;
        daemon::say_status(doctor, "runs as " + report::cell(status["name"]),
                           report::count_cell(status["sessions"]) + " sessions");
    }
}

void check_users(SnaptDoctor& doctor) {
    const std::string check = "users";
    const std::string database = doctor.state + "/" + store::kLedgerFileName;
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
        doctor.findings.fail(check,
                             "the database cannot be read: " + daemon::describe(users.error()),
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

// Checks every page of the database, which nobody writes now. Damage may be far from the pages of
// users and sessions.
void check_pages(SnaptDoctor& doctor, const std::string& check) {
    const std::string database = doctor.state + "/" + store::kLedgerFileName;
    if (!doctor.needs_root(check)) {
        return;
    }
    if (::access(database.c_str(), F_OK) != 0) {
        doctor.findings.skip(check, "there is no database", "see \"users\" above");
        return;
    }
    const std::function<base::Result<std::string>()> first_fault =
        [database]() -> base::Result<std::string> {
        store::Database opened =
            CTN_TRY(store::Database::open(database, store::OpenMode::ReadOnly));
        store::Statement statement = CTN_TRY(opened.prepare("PRAGMA quick_check(1)"));
        return CTN_TRY(statement.step()) ? statement.text(0) : std::string();
    };
    const base::Duration time = doctor.deadline.time_for(kPagesTime);
    const auto fault = daemon::within(time, std::vector{first_fault}).front();
    host::match_owner(doctor.state);  // SQLite makes files even to read
    if (!fault) {
        doctor.findings.skip(check,
                             "not every page of the database was read within " +
                                 std::to_string(base::to_ms(time) / 1000) + " s",
                             "sqlite3 " + database + " 'PRAGMA quick_check'");
    } else if (*fault && **fault == "ok") {
        doctor.findings.ok(check, "every page of the database can be read");
    } else if (*fault || fault->error().code == base::Errc::Malformed) {
        doctor.findings.fail(check,
                             "the database is damaged: " +
                                 (*fault ? **fault : daemon::describe(fault->error())),
                             "restore a copy; OPERATIONS, Backup");
    } else {
        doctor.findings.fail(check,
                             "the database cannot be read: " + daemon::describe(fault->error()),
                             "look at the disk, and for a program that has it open");
    }
}

void check_ledger(SnaptDoctor& doctor) {
    const std::string check = "ledger";
    if (!doctor.runs()) {
        check_pages(doctor, check);
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
    } else if (const std::string error = ledger.text("booking_error"); !error.empty()) {
        doctor.findings.warn(check, error, "see Billing in OPERATIONS");
    } else if (ledger["coarse"].boolean().value_or(false)) {
        doctor.findings.warn(check, "the disk is nearly full: flows share records", "make room");
    } else {
        doctor.findings.ok(check, std::to_string(number("live_slots_in_use")) + " of " +
                                      std::to_string(number("live_slots")) +
                                      " slots in use, every record was written");
    }
}

}  // namespace continuo::snapt::commands
