// The price that a SNAPT which cannot forward gives in the directory (docs/PROTOCOL.md section
// 4.3): the highest one there is.
#pragma once

#include <cstdint>

namespace continuo::control {

inline constexpr uint32_t kNoForwardingPrice = UINT32_MAX;  // permille

}  // namespace continuo::control
