#include "snapt/commands/doctor.hpp"

#include "common/daemon/doctor_files.hpp"
#include "common/daemon/doctor_host.hpp"
#include "common/host/privileges.hpp"
#include "snapt/commands/doctor_context.hpp"
#include "snapt/commands/ledger_access.hpp"
#include "snapt/ledger/ledger.hpp"
#include "snapt/nat/relay_check.hpp"

namespace continuo::snapt::commands {

namespace {

// Used when the configuration has no value. A choice, not measured.
constexpr uint64_t kLeastFreeBytes = uint64_t{64} << 20;

void check_rights(SnaptDoctor& doctor) {
    daemon::check_rights(doctor.status.json["process"], host::kRelayUser, doctor.findings);
}

void check_clock(SnaptDoctor& doctor) {
    daemon::check_clock(true, doctor.findings);
}

void check_ipv6(SnaptDoctor& doctor) {
    const settings::InnerConfig inner =
        doctor.config ? doctor.config->inner : settings::default_snapt_config().inner;
    daemon::check_ipv6({inner.ipv6.has_value(), inner.device, "inner.ipv6 = false"},
                       doctor.findings);
}

void check_disk(SnaptDoctor& doctor) {
    const uint64_t least =
        doctor.config ? doctor.config->accounting.min_free_bytes : kLeastFreeBytes;
    daemon::check_disk(doctor.state, least, doctor.findings);
}

void check_files(SnaptDoctor& doctor) {
    daemon::CheckedFiles files;
    files.secrets = {doctor.config_file};
    files.kept = {doctor.state + "/" + store::kLedgerFileName};
    files.state = doctor.state;
    files.socket = doctor.access.socket;
    files.user = host::kRelayUser;
    daemon::check_files(files, doctor.findings);
}

void check_forward_rules(SnaptDoctor& doctor) {
    if (doctor.needs_config("forward policy")) {
        nat::check_relay(*doctor.config, doctor.findings);
    }
}

using Check = daemon::DoctorCheck<SnaptDoctor>;

// The order matters: each check needs those before it.
constexpr Check kChecks[] = {
    {"configuration", check_configuration},
    {"daemon", check_daemon},
    {"rights", check_rights},
    {"tun", daemon::check_host<SnaptDoctor, daemon::check_tun>},
    {"nftables", daemon::check_host<SnaptDoctor, daemon::check_nftables>},
    {"kernel", daemon::check_host<SnaptDoctor, daemon::check_kernel>},
    {"clock", check_clock},
    {"ipv6", check_ipv6},
    {"disk", check_disk},
    {"files", check_files},
    {"users", check_users},
    {"ledger", check_ledger},
    {"listen", check_listen},
    {"public", check_public},
    {"inner", check_inner},
    {"way out", check_ways_out},
    {"forwarding", check_forwarding},
    {"forward policy", check_forward_rules},
    {"conntrack", daemon::check_host<SnaptDoctor, daemon::check_conntrack>},
    {"nat", check_nat},
};

}  // namespace

bool SnaptDoctor::needs_root(const std::string& check) {
    if (!is_root) {
        findings.skip(check, "only root may look", std::string(daemon::kRunAsRoot));
    }
    return is_root;
}

report::CommandSpec doctor_spec() {
    return daemon::doctor_spec();
}

report::CommandOutput doctor_command(const report::DaemonAccess& access,
                                     const report::ParsedCommand& command) {
    SnaptDoctor doctor(access, command, kDefaultConfig, kDefaultState);
    return daemon::run_doctor(std::span<const Check>(kChecks), doctor, command);
}

}  // namespace continuo::snapt::commands
