// What the checks of `snapt doctor` know, and leave for those that follow. Only the files
// doctor*.cpp know it.
#pragma once

#include "common/daemon/doctor.hpp"
#include "snapt/snapt_config.hpp"

#include <optional>
#include <string>

namespace continuo::snapt {

struct SnaptDoctor {
    report::DaemonAccess access;
    std::string config_file;
    std::string state;
    std::string socket;
    bool is_root = false;
    daemon::Deadline deadline{};

    report::Findings findings{};
    std::optional<SnaptConfig> config{};
    std::string config_failure{};  // what to do about it, for checks that need it
    daemon::DaemonAnswer status{};

    bool runs() const { return status.kind == daemon::DaemonAnswer::Kind::Answer; }
    bool is_absent() const { return status.kind == daemon::DaemonAnswer::Kind::Absent; }
    // Adds a finding when the check cannot be made without configuration, or without root.
    bool needs_config(const std::string& check);
    bool needs_root(const std::string& check);
};

// doctor_state.cpp
void check_configuration(SnaptDoctor& doctor);
void check_daemon(SnaptDoctor& doctor);
void check_users(SnaptDoctor& doctor);
void check_ledger(SnaptDoctor& doctor);
// doctor_network.cpp
void check_listen(SnaptDoctor& doctor);
void check_public(SnaptDoctor& doctor);
void check_inner(SnaptDoctor& doctor);
void check_ways_out(SnaptDoctor& doctor);
void check_forwarding(SnaptDoctor& doctor);
void check_nat(SnaptDoctor& doctor);

}  // namespace continuo::snapt
