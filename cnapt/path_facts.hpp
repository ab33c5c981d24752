// Facts of a session for the path manager. The caller adds those of the host.
#pragma once

#include "common/session/session.hpp"
#include "policy/path_manager.hpp"

#include <optional>

namespace continuo::cnapt {

inline bool is_known(const session::Path& path) {
    return path.first_tuple().is_known;
}

inline policy::WayFacts way_facts(const session::Session& session, uint8_t slot) {
    const session::Path& path = session.paths().path(slot);
    policy::WayFacts way;
    way.slot = slot;
    way.is_known = is_known(path);
    way.state = path.state();
    way.heard_at = path.heard_at();
    way.arrived_at = path.silence().proof_wanted_from();
    way.packets_sent_at = path.packets_sent_at();
    way.unanswered_since = path.silence().since();
    way.received_datagrams = path.counters().received_datagrams;
    return way;
}

// `session_id`: another one for another session. `active`: the slot of the path in use.
inline policy::UdpTraffic
udp_traffic(const session::Session& session, uint16_t session_id, std::optional<uint8_t> active) {
    const session::SessionCounters& counters = session.counters();
    policy::UdpTraffic traffic;
    traffic.session_id = session_id;
    traffic.received_datagrams = counters.datagrams_received;
    traffic.lost_datagrams = session.missing_datagrams();
    traffic.received_inner_bytes = counters.inner_bytes_received;
    traffic.sent_bytes = counters.overhead_sent;
    for (const base::TrafficClass traffic_class : base::kAllTrafficClasses) {
        traffic.sent_bytes += session.class_counters(traffic_class).wire_bytes;
    }
    if (active) {
        const session::DeliveryTotals& up = session.paths().path(*active).totals();
        traffic.path = *active;
        traffic.arrived_up_datagrams = up.delivered_datagrams;
        traffic.lost_up_datagrams = up.lost_datagrams;
    }
    return traffic;
}

// Without the ways.
inline policy::PathFacts
path_facts(const session::Session& session, uint16_t session_id, std::optional<uint8_t> active) {
    const session::Path& stream = session.paths().path(wire::kTcpPath);
    policy::PathFacts facts;
    facts.stream.unanswered_since = stream.silence().since();
    facts.stream.smoothed_rtt = stream.smoothed_rtt();
    facts.is_spread = session.uses_several_paths();
    facts.traffic = udp_traffic(session, session_id, active);
    for (const base::TrafficClass traffic_class : base::kAllTrafficClasses) {
        facts.sent_packets += session.class_counters(traffic_class).packets;
    }
    return facts;
}

}  // namespace continuo::cnapt
