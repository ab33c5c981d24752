// `snapt check`: results of the parser, and of this host's files: permissions, IPv6.
#pragma once

#include "common/config/diagnostic.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace continuo::snapt::commands {

// `file`: path of `text`.
std::vector<config::Diagnostic> check_snapt_file(std::string_view text, const std::string& file);

}  // namespace continuo::snapt::commands
