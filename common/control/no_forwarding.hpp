// The price of a SNAPT that cannot forward, in the directory (docs/PROTOCOL.md section 4.3): the
// highest possible one.
#pragma once

#include <cstdint>

namespace continuo::control {

inline constexpr uint32_t kNoForwardingPrice = UINT32_MAX;  // permille

}  // namespace continuo::control
