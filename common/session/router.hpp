// Router: which of its paths a session sends a packet by, and where a copy of it goes
// (docs/PROTOCOL.md section 5.9). A question changes nothing and may be asked again; commit() and
// on_sent() tell what came of it. Pure.
#pragma once

#include "common/flow/flow.hpp"
#include "common/packet/packet.hpp"
#include "common/session/path_set.hpp"
#include "common/session/session_types.hpp"
#include "common/session/striper.hpp"

#include <array>
#include <optional>

namespace continuo::session {

// How the packet that is next in a class's queue travels.
struct Way {
    Destination destination;
    bool is_pinned = false;   // by the path of its flow
    bool is_striped = false;  // told by ORDER
    StripeRow row = StripeRow::Data;
    PathMask paths = 0;   // striped over them
    PathMask shares = 0;  // each of these has its share; 0: by when it is there
};

// Where a datagram is copied to.
struct CopyWay {
    Destination destination;
    bool is_doubt = false;  // else only packets of flows in mode Redundant are worth it
};

class Router {
  public:
    // `paths` must outlive it.
    Router(Role role, PathSet& paths) : role_(role), paths_(paths) {}

    // --- Flows that are attached
    void add(const flow::Flow& flow) { count(flow, 1); }
    void remove(flow::Flow& flow) {
        count(flow, -1);
        unpin(flow, flow.traffic_class);
    }
    // The flow, whether attached or not, goes by another path from now on if that is better. It was
    // pinned in that class.
    void unpin(flow::Flow& flow, base::TrafficClass traffic_class);
    // Some flow may take other paths than the active one.
    bool spreads() const {
        return flows_in(base::PathMode::Flow) + flows_in(base::PathMode::Packet) > 0;
    }
    bool copies_all() const { return flows_in(base::PathMode::Redundant) > 0; }
    bool uses_several_paths() const { return spreads() || copies_all(); }

    // --- Questions. Nothing: no path takes it now.
    // The way of packets whose flow has none of its own.
    std::optional<Way> usual_way(base::TrafficClass traffic_class, base::TimePoint now) const;
    // The way of a flow, which is attached. `settings`: of its class.
    std::optional<Way> way_of(const flow::Flow& flow,
                              const packet::Packet& packet,
                              const ClassSettings& settings,
                              base::TimePoint now) const;
    // For what is next in the same row; to the same destination where none takes it.
    Way next_in_row(Way way,
                    base::TrafficClass traffic_class,
                    const ClassSettings& settings,
                    base::TimePoint now) const;
    std::optional<CopyWay>
    copy_way(base::TrafficClass traffic_class, const Way& way, base::TimePoint now) const;

    // --- What came of it
    // A packet of the flow takes that way.
    void commit(flow::Flow& flow, const Way& way);
    // Datagrams of so many outer bytes left by it.
    void on_sent(const Way& way, size_t outer_bytes);

    // --- Paths in reserve
    // Packets came or left.
    void on_packets(base::TimePoint now);
    // Before anything is sent.
    void keep_ready_for_new_use(base::TimePoint now);
    // Once a second.
    void on_housekeeping(base::TimePoint now);

  private:
    void count(const flow::Flow& flow, int change);
    size_t flows_in(base::PathMode mode) const { return by_mode_[static_cast<size_t>(mode)]; }
    PathMask spread(const ClassSettings& settings, base::TimePoint now) const;
    uint8_t path_for(const flow::Flow& flow, PathMask paths) const;
    bool choose_path(Way& way,
                     base::TrafficClass traffic_class,
                     const ClassSettings& settings,
                     base::TimePoint now) const;
    bool is_used(base::TimePoint now) const;
    void keep_ready(base::TimePoint now);

    Role role_;
    PathSet& paths_;
    std::array<size_t, base::kPathModes> by_mode_{};  // attached flows
    // Flows in mode Flow that got that path; fades, since those that have ended are told late.
    std::array<std::array<double, wire::kMaxPaths>, base::kTrafficClasses> pinned_flows_{};
    std::array<Striper, kStripeRows> stripers_;
    base::TimePoint packets_at_{};  // either way
    bool wants_ready_paths_ = false;
};

}  // namespace continuo::session
