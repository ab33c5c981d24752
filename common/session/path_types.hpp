// Names of common/path that the session uses throughout, and sets of paths.
#pragma once

#include "common/path/path.hpp"

namespace continuo::session {

using path::ClassMask;
using path::Destination;
using path::kAllClasses;
using path::kFirstProbeInterval;
using path::kLtLd;
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

}  // namespace continuo::session
