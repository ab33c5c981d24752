// The directory that a SNAPT sends its nodes: itself and the SNAPTs of its configuration
// (docs/PROTOCOL.md section 4.3).
#pragma once

#include "common/control/message.hpp"
#include "snapt/settings/snapt_config.hpp"

namespace continuo::snapt::settings {

// Sessions with flows, in tenths of the limit: a node prefers the lower load, and small differences
// mean nothing.
uint16_t load_permille(size_t sessions, size_t limit);

// Addresses beyond the limit of a message are left out, and so are the last SNAPTs when the message
// would be too long; a log line says so. `no_way_out`: IP versions that cannot leave this host:
// nodes give their new flows to another SNAPT, or refuse them.
control::Directory
make_directory(const SnaptConfig& config, uint16_t load, control::VersionSet no_way_out = {});
// Price of a SNAPT that cannot forward, or drains: nodes prefer the lower one.
void set_no_forwarding(control::Directory& directory);

}  // namespace continuo::snapt::settings
