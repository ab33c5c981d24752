// State shared by the checks of `snapt doctor`: each leaves its results for later ones. Included
// only by doctor*.cpp.
#pragma once

#include "common/daemon/doctor_context.hpp"
#include "snapt/settings/snapt_config.hpp"

#include <string>

namespace continuo::snapt::commands {

struct SnaptDoctor : daemon::ConfiguredDoctor<settings::SnaptConfig> {
    using ConfiguredDoctor::ConfiguredDoctor;

    // Adds a finding if the check needs root.
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

}  // namespace continuo::snapt::commands
