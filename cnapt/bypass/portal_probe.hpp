// Checks over one uplink whether there is a captive portal. Blocks for seconds: on a helper thread.
#pragma once

#include "cnapt/control_link/tcp_connect.hpp"
#include "common/control/portal_check.hpp"

namespace continuo::cnapt::bypass {

struct PortalQuestion {
    base::Endpoint snapt;  // its control port
    control_link::ControlUplink uplink;
    uint32_t fwmark = 0;
    control::PortalKey key{};
};

// Asks the control port; if nothing answers there, port 80, which portals intercept. The result is
// Portal only if port 80 of an address that no host has also answers HTTP: otherwise a web server
// runs on the SNAPT's host.
control::PortalAnswer ask_for_portal(const PortalQuestion& question);

}  // namespace continuo::cnapt::bypass
