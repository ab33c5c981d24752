// SnaptPaths: what only a SNAPT does with the paths of a session: it follows the announcements of
// its node (docs/PROTOCOL.md sections 5.3 and 5.4). What concerns one path alone is
// path::SnaptPath's. Pure.
#pragma once

#include "common/routing/path_table.hpp"

#include <optional>
#include <utility>

namespace continuo::routing {

class SnaptPaths {
  public:
    // `table` must outlive this object.
    explicit SnaptPaths(PathTable& table) : table_(table) {}

    // True when the return path moved.
    bool on_announce(uint8_t path, const wire::Announce& announce, base::TimePoint now);
    // Returns once, after lt-ld of the active path was proven at a new address, the classes whose
    // old tuples are gone: datagrams under way to them are lost.
    ClassMask take_remapping() { return std::exchange(remapped_, ClassMask{0}); }
    // Those datagrams are already being repeated.
    void forget_remapping();
    // Datagrams sent on the path have been unanswered for long and may be lost.
    bool is_overdue(uint8_t index, base::TimePoint now) const {
        return table_.active == index && table_.paths[index].snapt().is_overdue(now);
    }

    // --- By PathSet
    // True when this made the path usable.
    bool on_answered(uint8_t index, const Path::Answered& answered);

  private:
    void end_copies();

    PathTable& table_;
    bool has_announcement_ = false;
    ClassMask remapped_ = 0;
    std::optional<uint16_t> activation_number_;  // of the latest announcement of a move
};

}  // namespace continuo::routing
