#include "common/path/path_state.hpp"

namespace continuo::path {

std::string_view to_string(PathState state) {
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

PathState state_of(Validation validation, recovery::Health health) {
    const bool is_failing = health != recovery::Health::Usable;
    switch (validation) {
    case Validation::None:
        return PathState::Unknown;
    case Validation::Failed:
        return PathState::Dead;
    case Validation::Pending:
        return is_failing ? PathState::Doubtful : PathState::Challenged;
    case Validation::Done:
        return is_failing ? PathState::Doubtful : PathState::Usable;
    }
    return PathState::Unknown;
}

}  // namespace continuo::path
