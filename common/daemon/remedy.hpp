// Advice for each refusal of the kernel at a daemon's start. Pure.
#pragma once

#include "common/base/result.hpp"

#include <string_view>

namespace continuo::daemon {

// Names the setting, the capability or the program in the way; empty: nothing is known of it.
std::string_view remedy(const base::Error& error);

}  // namespace continuo::daemon
