// PathSelector: which path a datagram may take, and which its copy (docs/PROTOCOL.md sections 5.3,
// 5.4 and 5.9). Questions without side effects. Router decides for one packet.
#pragma once

#include "common/routing/path_table.hpp"

#include <optional>

namespace continuo::routing {

class PathSelector {
  public:
    // `table` must outlive this object.
    explicit PathSelector(const PathTable& table) : table_(table) {}

    // Where traffic of that class goes now; nothing when there is no path. While the active path is
    // in doubt and its budget is used up, low-delay classes take the second one.
    std::optional<Destination> destination(base::TrafficClass traffic_class,
                                           base::TimePoint now) const;
    // The same for one path, active or not; nothing when none of its tuples is known.
    std::optional<Destination>
    destination_on(uint8_t index, base::TrafficClass traffic_class, base::TimePoint now) const {
        return table_.paths[index].destination(traffic_class, now);
    }
    // Where lone acknowledgements go: by the active path, unless only others were heard lately.
    std::optional<Destination> upkeep_destination(base::TimePoint now) const;
    // Where datagrams for `original` are copied to: while the active path is in doubt, or `always`.
    std::optional<Destination> copy_destination(base::TrafficClass traffic_class,
                                                uint8_t original,
                                                bool always,
                                                base::TimePoint now) const;
    // The path that carries the acknowledgements of path `index`: itself, unless it may not work.
    // None when no path is known.
    std::optional<uint8_t> acknowledges_by(uint8_t index, base::TimePoint now) const;
    // The one that may have to replace the active one.
    std::optional<uint8_t> second_path(base::TimePoint now) const;
    // The active path may not work.
    bool is_in_doubt(base::TimePoint now) const;

    // The paths over which traffic may be spread: only the active one when there is no other, none
    // when there is none. Paths slower than the fastest by more than `difference`, one way and
    // without queues, are left out.
    PathMask spread(base::Duration difference, base::TimePoint now) const;
    // Those of `paths` that sent packets recently: some may be under way.
    PathMask carrying(PathMask paths, base::TimePoint now) const;
    // Leaves out paths that have been silent for `patience` beyond a probe time-out. If that is all
    // of them, keeps the one that fell silent last.
    PathMask answering(PathMask paths, base::Duration patience, base::TimePoint now) const;
    // Those of `paths` with room for a datagram of the class now; all if none has.
    PathMask with_room(PathMask paths, base::TrafficClass traffic_class) const;

  private:
    std::optional<uint8_t> heard_instead(base::TimePoint now) const;
    bool is_other_heard(uint8_t index, PathMask paths) const;
    base::TimePoint silent_since(uint8_t index, PathMask paths, base::TimePoint now) const;
    bool may_copy_on(uint8_t index, base::TimePoint now) const;
    bool may_spread_on(uint8_t index, base::TimePoint now) const;
    bool is_second_better(uint8_t candidate, uint8_t other, base::TimePoint now) const;
    bool is_copy_wanted(uint8_t index, base::TimePoint now) const;

    const PathTable& table_;
};

}  // namespace continuo::routing
