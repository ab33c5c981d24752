// PathState: how far a path is known to work (docs/PROTOCOL.md section 5.1).
#pragma once

#include <cstdint>
#include <string_view>

namespace continuo::path {

enum class PathState : uint8_t { Unknown, Challenged, Usable, Doubtful, Dead };

constexpr bool is_failing(PathState state) {
    return state == PathState::Doubtful || state == PathState::Dead;
}

constexpr std::string_view to_string(PathState state) {
    switch (state) {
    case PathState::Unknown:
        return "unknown";
    case PathState::Challenged:
        return "challenged";
    case PathState::Usable:
        return "usable";
    case PathState::Doubtful:
        return "doubtful";
    case PathState::Dead:
        return "dead";
    }
    return "unknown";
}

}  // namespace continuo::path
