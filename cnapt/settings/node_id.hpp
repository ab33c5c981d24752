// The node's id: random, kept in the state directory, the same as long as that is. SNAPTs tell
// nodes of one user and name apart by it. No secret.
#pragma once

#include "common/base/random.hpp"
#include "common/control/message.hpp"

#include <optional>
#include <string>

namespace continuo::cnapt::settings {

// Identity that a node gives in HELLO.
struct NodeIdentity {
    std::string name;
    control::NodeId id{};
    control::SessionId session_id{};  // of this run
};

// Name of the file in the state directory.
inline constexpr const char* kNodeIdFile = "/node_id";

// None: no such file, or it cannot be read.
std::optional<control::NodeId> read_node_id(const std::string& path);
// Reads the file, or makes it. Where it cannot be written the log says so, and another id is made
// with each start. Waits for the disk.
control::NodeId load_node_id(const std::string& path, base::Random& random);

}  // namespace continuo::cnapt::settings
