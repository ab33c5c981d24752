// Router: which path a packet takes, and its copy (docs/PROTOCOL.md section 5.9). A question
// without side effects, so that it may be asked as often as the scheduler likes; commit() is told
// what leaves.
#pragma once

#include "common/base/path_mode.hpp"
#include "common/flow/flow.hpp"
#include "common/packet/packet.hpp"
#include "common/routing/path_set.hpp"

#include <optional>

namespace continuo::routing {

// How a class uses several paths at once.
struct SpreadKnobs {
    base::Duration
        resequence{};  // paths whose delays differ by more are left out; 0: a fixed bound
    base::Striping striping = base::Striping::Packet;
};

// How the next packet of a class's queue travels.
struct Way {
    Destination destination;
    bool is_pinned = false;   // mode flow: the flow stays on this path
    bool is_striped = false;  // with ORDER
    PathMask paths = 0;       // those that ORDER names
};

struct CopyWay {
    Destination destination;
    bool is_doubt = false;  // otherwise only packets of flows in mode Redundant are copied
};

class Router {
  public:
    // `paths` must outlive this object.
    explicit Router(const PathSet& paths) : paths_(paths) {}

    // Nothing: there is no path for it.
    std::optional<Way> route(base::TrafficClass traffic_class, base::TimePoint now) const;
    // The same for a packet of an attached flow, by the flow's mode.
    std::optional<Way> route(const flow::Flow& flow,
                             const packet::Packet& packet,
                             const SpreadKnobs& knobs,
                             base::TimePoint now) const;
    // Where a datagram that takes path `original` is copied to, if at all. `has_redundant`: there
    // are flows in mode Redundant.
    std::optional<CopyWay> copy(base::TrafficClass traffic_class,
                                uint8_t original,
                                bool has_redundant,
                                base::TimePoint now) const;
    // A packet of the flow leaves on that path, as the flow's own Way, with `is_pinned`, said.
    static void commit(flow::Flow& flow, uint8_t path) { flow.paths.pinned = path; }

  private:
    uint8_t path_of(const flow::Flow& flow, PathMask paths) const;
    PathMask fastest(PathMask paths) const;
    std::optional<Way>
    stripe(const flow::Flow& flow, PathMask paths, base::Duration bound, base::TimePoint now) const;
    using Delays = std::array<base::Duration, wire::kMaxPaths>;
    Delays delays(PathMask paths) const;
    struct Arrival {
        uint8_t path = 0;
        base::TimePoint at = base::kNever;
    };
    Arrival earliest(PathMask paths, const Delays& delays, base::TimePoint now) const;

    const PathSet& paths_;
};

}  // namespace continuo::routing
