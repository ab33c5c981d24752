// What usage records tell of a flow's remote end.
#pragma once

#include <cstdint>

namespace continuo::snapt {

enum class Destinations : uint8_t { None, Port, Full };

}  // namespace continuo::snapt
