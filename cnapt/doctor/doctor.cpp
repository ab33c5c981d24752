#include "cnapt/doctor/doctor.hpp"

#include "cnapt/capture/gateway_check.hpp"
#include "cnapt/doctor/doctor_context.hpp"
#include "cnapt/settings/default_paths.hpp"
#include "common/crypto/library.hpp"
#include "common/daemon/doctor_files.hpp"
#include "common/daemon/doctor_host.hpp"
#include "common/host/preflight.hpp"
#include "common/host/privileges.hpp"

#include <algorithm>

namespace continuo::cnapt::doctor {

namespace {

// Room wanted at the state directory. cnapt writes little there.
constexpr uint64_t kLeastFreeBytes = uint64_t{16} << 20;

void check_rights(NodeDoctor& doctor) {
    daemon::check_rights(doctor.status.json["process"], host::kNodeUser, doctor.findings);
}

void check_clock(NodeDoctor& doctor) {
    daemon::check_clock(false, doctor.findings);
}

void check_ipv6(NodeDoctor& doctor) {
    const settings::CaptureConfig capture =
        doctor.config ? doctor.config->capture : settings::CaptureConfig{};
    daemon::check_ipv6({capture.ipv6, capture.device, "capture.ipv6 = false"}, doctor.findings);
}

void check_disk(NodeDoctor& doctor) {
    daemon::check_disk(doctor.state, kLeastFreeBytes, doctor.findings);
}

void check_files(NodeDoctor& doctor) {
    daemon::CheckedFiles files;
    files.secrets = {doctor.config_file};
    if (doctor.config && !doctor.config->identity.key_file.empty()) {
        files.secrets.push_back(doctor.config->identity.key_file);
    }
    files.read = {doctor.policy_file};
    files.state = doctor.state;
    files.socket = doctor.access.socket;
    files.user = host::kNodeUser;
    daemon::check_files(files, doctor.findings);
}

void check_lan(NodeDoctor& doctor) {
    if (!doctor.config) {
        return;
    }
    if (!doctor.config->capture.gateway_interfaces.empty()) {
        capture::check_gateway(doctor.config->capture, doctor.findings);
        daemon::check_conntrack(doctor.findings);
    }
    capture::check_forwarded(doctor.config->capture, doctor.findings);
}

using Check = daemon::DoctorCheck<NodeDoctor>;

// The order matters: each check needs those before it.
constexpr Check kChecks[] = {
    {"configuration", check_configuration},
    {"policy", check_policy},
    {"daemon", check_daemon},
    {"rights", check_rights},
    {"tun", daemon::check_host<NodeDoctor, daemon::check_tun>},
    {"nftables", daemon::check_host<NodeDoctor, daemon::check_nftables>},
    {"kernel", daemon::check_host<NodeDoctor, daemon::check_kernel>},
    {"clock", check_clock},
    {"ipv6", check_ipv6},
    {"disk", check_disk},
    {"files", check_files},
    {"uplinks", check_uplinks},
    {"uplinks", check_shared_networks},
    {"lan", check_on_link},
    {"private", check_private_places},
    {"names", check_names},
    {"nat64", check_nat64},
    {"reverse path", check_reverse_paths},
    {"vpn", check_other_vpns},
    {"tcp", check_tcp},
    {"udp", check_udp},
    {"mtu", check_mtu},
    {"portal", check_portals},
    {"login", check_logins},
    {"tunnel", check_tunnels},
    {"dns", check_dns},
    {"capture", check_capture},
    {"gateway", check_lan},
};

}  // namespace

bool NodeDoctor::needs_way_beside(const std::string& check) {
    const bool has_way = !runs() || may_mark;
    if (!has_way) {
        findings.skip(check, "what this user sends goes through the tunnel",
                      std::string(daemon::kRunAsRoot));
    }
    return has_way;
}

bool NodeDoctor::connects(const std::string& snapt) const {
    return std::any_of(targets.begin(), targets.end(), [&](const SnaptTarget& target) {
        return target.snapt == snapt && target.tcp.connected_in;
    });
}

bool NodeDoctor::answers_by_udp(const std::string& snapt) const {
    return std::any_of(targets.begin(), targets.end(), [&](const SnaptTarget& target) {
        return target.snapt == snapt && target.udp.answered_in;
    });
}

report::CommandSpec doctor_spec() {
    return daemon::doctor_spec(
        {{"--policy", "F", report::OptionValue::Required, false, {}, "policy file"}});
}

report::CommandOutput doctor_command(const report::DaemonAccess& access,
                                     const report::ParsedCommand& command) {
    crypto::begin_library();
    NodeDoctor doctor(access, command, settings::kDefaultConfig, settings::kDefaultState);
    doctor.policy_file = command.value_or("--policy", "");
    doctor.may_mark = host::missing_right().empty();
    return daemon::run_doctor(std::span<const Check>(kChecks), doctor, command);
}

}  // namespace continuo::cnapt::doctor
