#include "common/daemon/doctor_context.hpp"

#include "common/base/version.hpp"
#include "common/daemon/startup.hpp"
#include "common/report/table.hpp"

#include <algorithm>
#include <cerrno>

namespace continuo::daemon {

using report::Verdict;

namespace {

constexpr const char* kDaemonCheck = "daemon";

}  // namespace

DoctorContext::DoctorContext(report::DaemonAccess daemon,
                             const report::ParsedCommand& command,
                             std::string_view config_path,
                             std::string_view state_path)
    : access(std::move(daemon))
    , config_file(command.value_or("--config", config_path))
    , state(command.value_or("--state", state_path))
    , is_root(daemon::is_root()) {}

bool DoctorContext::lacks_rights(const base::Error& error) const {
    return error.sys_errno == EACCES && !is_root;
}

void say_unread(DoctorContext& doctor,
                const std::string& check,
                const std::string& path,
                const base::Error& error,
                const std::string& remedy) {
    if (doctor.lacks_rights(error)) {
        doctor.findings.skip(check, path + " may not be read by this user",
                             std::string(kRunAsRoot));
    } else {
        doctor.findings.fail(check, "cannot read " + path + ": " + describe(error), remedy);
    }
}

bool say_diagnostics(DoctorContext& doctor,
                     const std::string& check,
                     const std::string& path,
                     std::span<const config::Diagnostic> diagnostics) {
    const bool is_bad = config::has_errors(diagnostics);
    const config::Severity worst = is_bad ? config::Severity::Error : config::Severity::Warning;
    const auto first = std::ranges::find(diagnostics, worst, &config::Diagnostic::severity);
    if (first == diagnostics.end()) {
        return true;
    }
    std::string text = config::to_text(*first);
    if (diagnostics.size() > 1) {
        text += ", and " + std::to_string(diagnostics.size() - 1) + " more";
    }
    doctor.findings.add(
        {is_bad ? Verdict::Fail : Verdict::Warn, check, text,
         "correct it; `" + doctor.access.program + " check " + path + "` shows all"});
    return !is_bad;
}

bool daemon_answers(DoctorContext& doctor) {
    const std::string& program = doctor.access.program;
    doctor.status = ask(doctor.access, "status", doctor.deadline.time_for(kDoctorAskTime));
    if (doctor.is_absent()) {
        doctor.findings.warn(kDaemonCheck, "none answers at " + doctor.access.socket,
                             "start it: systemctl start " + program + ", or " + program + " run");
    } else if (!doctor.runs() && doctor.is_root) {
        doctor.findings.fail(kDaemonCheck, doctor.status.failure, "restart it");
    } else if (!doctor.runs()) {
        doctor.findings.skip(kDaemonCheck, doctor.status.failure, std::string(kRunAsRoot));
    }
    return doctor.runs();
}

void say_status(DoctorContext& doctor, const std::string& who, const std::string& load) {
    const report::JsonValue& status = doctor.status.json;
    const std::string version = status.text("version");
    const std::string state = status.text("state", "unknown");
    const std::string text =
        who + ", state " + state + (load.empty() ? "" : ", " + load) + ", up for " +
        report::format_uptime(status["uptime_s"].unsigned_integer().value_or(0));
    if (version != base::kVersion) {
        doctor.findings.warn(kDaemonCheck,
                             text + ", version " + version + ", while this is " +
                                 std::string(base::kVersion),
                             "restart it: systemctl restart " + doctor.access.program);
    } else if (state == "up") {
        doctor.findings.ok(kDaemonCheck, text);
    } else {
        doctor.findings.add({state == "down" ? Verdict::Fail : Verdict::Warn, kDaemonCheck, text,
                             "see what fails below"});
    }
}

}  // namespace continuo::daemon
