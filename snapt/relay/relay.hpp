// Relay: the data path of a SNAPT. Datagrams of nodes come in on the UDP sockets, are opened by
// their session and leave as packets through snapt0 into the kernel's NAT; answers come back
// through snapt0 and leave in datagrams. Lives on the data loop. Control manages sessions: reserve
// -> (keys) -> install, or close. The relay joins its parts, each of which has its own purpose:
// SessionTable, NodeFlows, Listeners and InputTurns.
#pragma once

#include "common/control/epoch_keys.hpp"
#include "common/dataplane/class_settings.hpp"
#include "common/dataplane/packet_engine.hpp"
#include "snapt/relay/input_turns.hpp"
#include "snapt/relay/listeners.hpp"
#include "snapt/relay/node_flows.hpp"
#include "snapt/relay/session_table.hpp"

#include <memory>
#include <string>
#include <vector>

namespace continuo::snapt::relay {

// Most packets in class queues, of all sessions together. When the limit is reached, the session
// that holds most loses half of them.
inline constexpr size_t kSmallPackets = 16384;
inline constexpr size_t kLargePackets = 512;

// Most packets read from the TUN device per wake-up, where several nodes receive: all that the
// kernel holds for it (its default transmit queue), if they are short.
inline constexpr size_t kTunPackets = 500;
inline constexpr base::Duration kModesInterval = base::milliseconds(100);

struct Reservation {
    uint16_t wire_id = 0;
    uint32_t epoch = 1;
    bool is_continued = false;
};

class Relay {
  public:
    // All references must outlive this.
    Relay(io::EventLoop& loop,
          const RelaySettings& settings,
          flow::SlotSource& slots,
          base::Random& random,
          RelayEvents& events);
    Relay(const Relay&) = delete;
    Relay& operator=(const Relay&) = delete;
    ~Relay();

    // Opens the TUN device and sockets. On failure `failure` has the text.
    base::Result<void> start(std::string& failure);

    // --- Control, on the data loop
    // At the limit of sessions, another one gives way (SessionTable::to_give_way). Errors:
    // LimitReached.
    base::Result<Reservation> reserve(const SessionGrant& grant);
    base::Result<void> install(uint16_t wire_id, const control::EpochKeys& keys);
    void close(uint16_t wire_id, SessionEnd why = SessionEnd::Stopped);
    // Path modes of flows with those tags. Existing flows are all updated together, at most once in
    // kModesInterval, whoever asks and how often.
    void set_modes(uint16_t wire_id, std::span<const control::AppMode> modes);
    void set_classes(const dataplane::ClassTable& table);
    // Datagrams over TCP: the queue into it, those received from `from`, free room, its end.
    void open_stream(uint16_t wire_id, dataplane::StreamPort port);
    void on_stream(uint16_t wire_id, dataplane::DatagramQueue& queue, const base::Endpoint& from);
    void on_stream_room(uint16_t wire_id);
    void close_stream(uint16_t wire_id);
    // Once a second: samples for the reported rates.
    void look_at_rates(base::TimePoint now);
    // Addresses of this host, for new flows.
    void set_local_addresses(std::vector<base::IpAddress> addresses) {
        settings_.refusals.set_local(std::move(addresses));
    }
    // 0: none, except for `sessions`. Applies to new sessions and flows.
    void set_limits(size_t sessions, size_t user_sessions, size_t user_flows);
    // From then on the session gets no new flows (drains_from of NodeSession); kNever: it does.
    void drain(uint16_t wire_id, base::TimePoint from);
    // At once, like look_at_meters().
    void set_user_rate(uint64_t bits_per_s);
    // Once a second: applies or removes the rate of users whose quota is used up.
    void look_at_meters();
    // The flows of RelayEvents::on_flows_gone() are forgotten.
    void on_flows_forgotten();

    // --- Parts
    const SessionTable::Sessions& sessions() const { return sessions_.all(); }
    SessionTable& table() { return sessions_; }
    const SessionTable& table() const { return sessions_; }
    NodeFlows& flows() { return flows_; }
    const NodeFlows& flows() const { return flows_; }
    // With the totals of all sessions, including ended ones.
    const dataplane::PacketEngine& engine() const { return engine_; }
    dataplane::PacketEngine& engine() { return engine_; }

    // --- Observers
    const base::DropCounters& drops() const { return drops_; }
    base::DropCounters all_drops() const;
    const dataplane::RecentRates& rates() const { return rates_; }  // inner packets
    // Halves the fullest class of the session that holds most of the packet buffers. False: none
    // holds any.
    bool make_room(bool is_large);

  private:
    void apply_modes();
    void on_tun_readable();
    void on_peer_closed(const NodeSession& node);
    void on_housekeeping();

    io::EventLoop& loop_;
    RelaySettings settings_;
    base::Random& random_;
    RelayEvents& events_;
    base::DropCounters drops_;
    turns::InputQueues inputs_;
    dataplane::PacketEngine engine_;  // outlives flows and sessions
    SessionTable sessions_;
    NodeFlows flows_;
    Listeners listeners_;
    InputTurns turns_;
    io::DeadlineTimer housekeeping_;
    base::TimePoint no_room_until_{};
    io::DeadlineTimer modes_timer_;
    base::TimePoint modes_applied_at_{};
    dataplane::RecentRates rates_;
};

}  // namespace continuo::snapt::relay
