// `snapt check`: what the parser finds, and what the files of this host say: who may read what,
// IPv6.
#pragma once

#include "common/config/diagnostic.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace continuo::snapt {

// `file`: where `text` was read.
std::vector<config::Diagnostic> check_snapt_file(std::string_view text, const std::string& file);

}  // namespace continuo::snapt
