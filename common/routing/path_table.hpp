// PathTable: the paths of a session and which of them is active. PathSet, PathSelector and the
// role, NodePaths or SnaptPaths, share it.
#pragma once

#include "common/routing/path_types.hpp"

#include <memory>
#include <optional>
#include <utility>

namespace continuo::routing {

struct PathTable {
    // `memory`: budget for the logs of datagrams under way (recovery::SentLog); null: no limit.
    PathTable(Role role, base::Random& random, base::MemoryBudget* memory)
        : context{role, random, memory}
        , paths(make_paths(context, std::make_index_sequence<wire::kMaxPaths>())) {}

    bool is_node() const { return context.role == Role::Node; }
    void use(uint8_t index) { used |= mask_of(index); }
    // The path has ended: another one begins with its index.
    void renew(uint8_t index) {
        std::destroy_at(&paths[index]);
        std::construct_at(&paths[index], context, index);
    }
    // Nothing is to be done for the path.
    void retire(uint8_t index) {
        renew(index);
        used &= static_cast<PathMask>(~mask_of(index));
    }
    // Calls `visit` for the paths that may have something to do, by index, until it returns true.
    template <typename Visit>
    bool any_used(const Visit& visit) const {
        return any_in(used, visit);
    }

    const path::PathContext context;
    Paths paths;
    PathMask used = 0;  // saves a look at all paths for each packet
    std::optional<uint8_t> active;
    std::optional<uint8_t> former;  // node: the path before a move that is not answered yet
    uint16_t announcement_number = 0;

  private:
    template <size_t... Index>
    static std::array<Path, sizeof...(Index)> make_paths(const path::PathContext& context,
                                                         std::index_sequence<Index...> /*all*/) {
        return {Path(context, static_cast<uint8_t>(Index))...};
    }
};

}  // namespace continuo::routing
