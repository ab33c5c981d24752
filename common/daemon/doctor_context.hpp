// DoctorContext and its checks of configuration and daemon: the part that the `doctor` of both
// programs shares.
#pragma once

#include "common/base/result.hpp"
#include "common/base/secret.hpp"
#include "common/config/diagnostic.hpp"
#include "common/daemon/doctor.hpp"

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace continuo::daemon {

// For one answer of the daemon.
inline constexpr base::Duration kDoctorAskTime = base::seconds(5);

struct DoctorContext {
    // `config_path`, `state_path`: where the command names none.
    DoctorContext(report::DaemonAccess daemon,
                  const report::ParsedCommand& command,
                  std::string_view config_path,
                  std::string_view state_path);

    report::DaemonAccess access;
    std::string config_file;
    std::string state;
    bool is_root = false;
    Deadline deadline{};

    report::Findings findings{};
    std::string config_failure{};  // remedy, for checks that need the configuration
    DaemonAnswer status{};         // the daemon's

    bool runs() const { return status.kind == DaemonAnswer::Kind::Answer; }
    bool is_absent() const { return status.kind == DaemonAnswer::Kind::Absent; }
    // Root could read the file that gave that error.
    bool lacks_rights(const base::Error& error) const;
};

// With the configuration, once it has been read.
template <typename Config>
struct ConfiguredDoctor : DoctorContext {
    using DoctorContext::DoctorContext;

    std::optional<Config> config{};

    // Adds a finding when the check needs the configuration.
    bool needs_config(const std::string& check) {
        if (!config) {
            findings.skip(check, "needs the configuration", config_failure);
        }
        return config.has_value();
    }
};

// A check of the host, in the list of a program.
template <typename Context, void (*kCheck)(report::Findings&)>
void check_host(Context& context) {
    kCheck(context.findings);
}

// All checks of a program, and what is printed of them.
template <typename Context>
report::CommandOutput run_doctor(std::span<const DoctorCheck<Context>> checks,
                                 Context& context,
                                 const report::ParsedCommand& command) {
    run_checks(checks, context);
    return doctor_output(context.access.program, context.findings, command);
}

// Why a file cannot be read, and what to do unless root could.
void say_unread(DoctorContext& doctor,
                const std::string& check,
                const std::string& path,
                const base::Error& error,
                const std::string& remedy);

// The first error, else the first warning, and how many there are. False: there is an error.
bool say_diagnostics(DoctorContext& doctor,
                     const std::string& check,
                     const std::string& path,
                     std::span<const config::Diagnostic> diagnostics);

// Asks the daemon for its status. False, and a finding, when it does not answer.
bool daemon_answers(DoctorContext& doctor);
// Version and state of a daemon that answered. `who`: "runs as zrh-1"; `load`: "3 sessions".
void say_status(DoctorContext& doctor, const std::string& who, const std::string& load = {});

}  // namespace continuo::daemon
