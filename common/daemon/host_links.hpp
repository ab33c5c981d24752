// Interfaces of this host that a configuration names.
#pragma once

#include "common/report/findings.hpp"

#include <span>
#include <string>
#include <string_view>

namespace continuo::daemon {

// A finding "PREFIX NAME" for each: fails where there is no such interface, warns where it is down.
// `key` is where the names stand.
void check_links(std::string_view prefix,
                 std::span<const std::string> names,
                 std::string_view key,
                 report::Findings& findings);

}  // namespace continuo::daemon
