// The part of a flow's remote end that usage records show.
#pragma once

#include <cstdint>

namespace continuo::snapt::settings {

enum class Destinations : uint8_t { None, Port, Full };

}  // namespace continuo::snapt::settings
