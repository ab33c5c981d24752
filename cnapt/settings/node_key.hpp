// The key of the node's identity, which stands in the configuration or in a file that it names.
#pragma once

#include "cnapt/settings/node_config.hpp"

namespace continuo::cnapt::settings {

// Reads the file unless the configuration holds the key. False: there is no valid key, which the
// log says.
bool load_key(NodeConfig& config);
// Whether the next run with this configuration would have a key. A file that this user may not read
// counts as valid: it was when root read it.
bool has_key(const NodeConfig& config);

}  // namespace continuo::cnapt::settings
