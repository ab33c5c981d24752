// The state of a path, and what the paths of a session share.
#pragma once

#include "common/base/memory_budget.hpp"
#include "common/base/random.hpp"
#include "common/base/traffic_class.hpp"
#include "common/recovery/liveness.hpp"

#include <cstdint>
#include <string_view>

namespace continuo::path {

enum class Role : uint8_t { Node, Snapt };

enum class PathState : uint8_t { Unknown, Challenged, Usable, Doubtful, Dead };
// Whether the address of a path is known to work (RFC 9000 section 8.2). Failed: nothing but an
// answer to a challenge makes the path usable again.
enum class Validation : uint8_t { None, Pending, Done, Failed };
std::string_view to_string(PathState state);
PathState state_of(Validation validation, recovery::Health health);
constexpr bool is_failing(PathState state) {
    return state == PathState::Doubtful || state == PathState::Dead;
}
constexpr bool is_live(PathState state) {
    return state != PathState::Unknown && state != PathState::Dead;
}

// A set of traffic classes.
using ClassMask = uint8_t;
inline constexpr ClassMask kAllClasses = (1U << base::kTrafficClasses) - 1;
constexpr ClassMask mask_of(base::TrafficClass traffic_class) {
    return static_cast<ClassMask>(1U << base::index_of(traffic_class));
}

// Shared by the paths of a session.
struct PathContext {
    Role role;
    base::Random& random;
    base::MemoryBudget* memory;  // for the logs of datagrams under way; null: no limit
};

}  // namespace continuo::path
