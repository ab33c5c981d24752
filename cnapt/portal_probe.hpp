// Asks over one uplink whether a captive portal is there. Blocking, for seconds: on a helper
// thread.
#pragma once

#include "cnapt/tcp_connect.hpp"
#include "common/control/portal_check.hpp"

namespace continuo::cnapt {

struct PortalQuestion {
    base::Endpoint snapt;  // its control port
    ControlUplink uplink;
    uint32_t fwmark = 0;
    control::PortalKey key{};
};

// At the control port; where nothing at all answers there, at port 80, the one that portals
// intercept. Portal only if port 80 of an address that no host has is answered by HTTP, too: else a
// web server runs on the SNAPT's host.
control::PortalAnswer ask_for_portal(const PortalQuestion& question);

}  // namespace continuo::cnapt
