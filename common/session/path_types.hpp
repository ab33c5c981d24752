// Names of common/path that the session uses throughout, and sets of paths.
#pragma once

#include "common/path/path.hpp"

#include <array>
#include <bit>

namespace continuo::session {

using path::ClassMask;
using path::Destination;
using path::kAllClasses;
using path::kReservedRoomBytes;
using path::mask_of;
using path::Path;
using path::PathState;
using path::Probe;
using path::Role;
using path::to_string;
using path::Tuple;
using path::Validation;

// A set of paths: bit n is the path with index n.
using PathMask = uint16_t;
constexpr PathMask mask_of(uint8_t path) {
    return static_cast<PathMask>(1U << path);
}
// Calls `visit` for the paths of a set, by index, until it returns true.
template <typename Visit>
bool any_in(PathMask paths, const Visit& visit) {
    for (unsigned left = paths; left != 0; left &= left - 1) {
        if (visit(static_cast<uint8_t>(std::countr_zero(left)))) {
            return true;
        }
    }
    return false;
}
using Paths = std::array<Path, wire::kMaxPaths>;

}  // namespace continuo::session
