// Knowledge that the checks of `snapt doctor` share: each leaves its results for those that follow.
// Only the files doctor*.cpp include this.
#pragma once

#include "common/daemon/doctor_context.hpp"
#include "snapt/snapt_config.hpp"

#include <string>

namespace continuo::snapt {

struct SnaptDoctor : daemon::ConfiguredDoctor<SnaptConfig> {
    using ConfiguredDoctor::ConfiguredDoctor;

    // Adds a finding when the check cannot be made without root.
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
