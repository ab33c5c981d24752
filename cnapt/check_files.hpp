// `cnapt check`: what check_node_text() finds, and what the files of this host say: the key file,
// who may read what, IPv6.
#pragma once

#include "common/config/diagnostic.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace continuo::cnapt {

// `file`: where `text` was read.
std::vector<config::Diagnostic> check_node_file(std::string_view text, const std::string& file);

// The policy file that the configuration names, if `run` would read it; nothing when it would take
// the built-in policy, or when the configuration cannot be read.
std::optional<std::string> policy_file_of(const std::string& config);

}  // namespace continuo::cnapt
