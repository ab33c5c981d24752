// `cnapt check`: the results of check_node_text(), and of the files of this host: the key file,
// file permissions, IPv6.
#pragma once

#include "common/config/diagnostic.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace continuo::cnapt::settings {

// `file`: path of `text`.
std::vector<config::Diagnostic> check_node_file(std::string_view text, const std::string& file);

// The policy file that the configuration names, if `run` would read it; nothing if it would use the
// built-in policy or the configuration cannot be read.
std::optional<std::string> policy_file_of(const std::string& config);

}  // namespace continuo::cnapt::settings
