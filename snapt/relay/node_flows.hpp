// NodeFlows: the flows of nodes, the SessionHost of all sessions. Flows begin with packets from
// either side, if there is a place for them and this SNAPT is not draining; packets of flows go on
// to the kernel, and from it to their session, unless their user's rate or quota forbids it.
#pragma once

#include "common/dataplane/packet_engine.hpp"
#include "common/flow/flow_table.hpp"
#include "common/turns/sole_user.hpp"
#include "snapt/relay/charged_slots.hpp"
#include "snapt/relay/connections.hpp"
#include "snapt/relay/refusal_answers.hpp"
#include "snapt/relay/relay_events.hpp"
#include "snapt/relay/session_table.hpp"
#include "snapt/relay/user_shares.hpp"

#include <functional>
#include <memory>

namespace continuo::snapt::relay {

// Fragmented packets in progress, per user and direction.
inline constexpr size_t kUserFragments = 64;

// After a change of class, a flow does not change to a later-served class for this long, so that
// late packets of the former class do not affect it. A choice: longer than datagrams overtake each
// other.
inline constexpr base::Duration kClassStays = base::seconds(1);

// The tunnel's own bytes of a session and class are recorded when there are this many, and at its
// end: an idle node's keepalives make one record in hours, not one in each interval. A choice.
inline constexpr uint64_t kOverheadStep = uint64_t{16} * 1024;

// Packets of a session per second to forbidden destinations that are passed to the rules, which
// answer them; the rest is dropped here. More than the kernel answers to one address at once (its
// default limit of ICMP per host, six and one a second). A choice, not measured.
inline constexpr uint32_t kRefusalsToAnswer = 32;

class NodeFlows final : public session::SessionHost {
  public:
    // All references must outlive it. `on_peer_closed` is called inside the session's own call.
    NodeFlows(const RelaySettings& settings,
              dataplane::PacketEngine& engine,
              const SessionTable& sessions,
              flow::SlotSource& slots,
              base::Random& random,
              RelayEvents& events,
              base::DropCounters& drops,
              std::function<void(const NodeSession&)> on_peer_closed);

    flow::FlowTable& table() { return flows_; }
    const std::array<size_t, base::kTrafficClasses>& by_class() const { return slots_.by_class(); }
    Connections& connections() { return connections_; }
    const Connections& connections() const { return connections_; }
    UserShares& shares() { return shares_; }
    const UserShares& shares() const { return shares_; }

    // A packet from the kernel, for a lease.
    void on_tun_packet(packet::PacketPtr packet, base::TimePoint now);
    // Whether only one node has received for a while.
    bool has_sole_receiver(base::TimePoint now) { return receivers_.is_sole(now); }
    // Ends flows whose time is up, and lets the kernel forget connections.
    void on_housekeeping(base::TimePoint now);
    void end_flows_of(const NodeSession& node, flow::Cause cause, base::TimePoint now);
    // The quota of its user is used up: packets that wait for its nodes must not leave.
    void end_flows_of(UserShare& share, base::TimePoint now);
    // Bytes outside packets, into slots: whole steps, or with `is_last` everything; its slots are
    // then released.
    void count_tunnel(NodeSession& node, bool is_last, base::TimePoint at);

    // --- session::SessionHost
    flow::Flow* on_flow_opened(tunnel::Session& session,
                               const session::FlowOpening& opening,
                               base::TimePoint now) override;
    void on_other_class(tunnel::Session& session,
                        flow::Flow& flow,
                        base::TrafficClass traffic_class,
                        base::TimePoint now) override;
    flow::Flow* find_flow(tunnel::Session& session, const packet::FiveTuple& tuple) override;
    void deliver(tunnel::Session& session,
                 flow::Flow& flow,
                 const packet::HeaderFields& fields,
                 base::ByteView payload,
                 base::TimePoint now) override;
    flow::Flow* deliver_whole(tunnel::Session& session,
                              base::TrafficClass traffic_class,
                              base::MutableByteView packet,
                              base::TimePoint now) override;
    void on_flows_closed(tunnel::Session& session, flow::Flow& flow, base::TimePoint now) override;
    void on_path_changed(tunnel::Session& session, uint8_t path, base::TimePoint now) override;
    void on_path_silent(tunnel::Session& session, uint8_t path, base::TimePoint now) override;
    void on_peer_closed(tunnel::Session& session, base::TimePoint now) override;
    void on_held_delivered(tunnel::Session& /*session*/) override { engine_.flush(); }

  private:
    // Null: there is no room for another flow.
    flow::Flow* make_flow(NodeSession& node,
                          const packet::FiveTuple& tuple,
                          base::TrafficClass traffic_class,
                          const elision::OpenInfo& open,
                          uint32_t index,
                          base::TimePoint now,
                          flow::Direction begun = flow::Direction::Up);
    bool takes_flow(const NodeSession& node,
                    const packet::FiveTuple& tuple,
                    uint8_t tcp_flags,
                    base::TimePoint now);
    // `may_stay`: as Connections::note_ended().
    void end_flow(flow::Flow& flow, base::TimePoint now, bool may_stay = false);
    void drop_flow(flow::Flow& flow, base::TimePoint now, flow::Cause cause = flow::Cause::Closed);
    flow::Flow*
    make_flow_of_answer(NodeSession& node, const packet::FiveTuple& tuple, base::TimePoint now);
    bool may_go_up(flow::Flow& flow, size_t bytes, base::TimePoint now);
    bool find_first(std::unique_ptr<flow::FragmentCache>& fragments,
                    packet::PacketSummary& summary,
                    base::TimePoint now);

    const RelaySettings& settings_;
    dataplane::PacketEngine& engine_;
    const SessionTable& sessions_;
    RelayEvents& events_;
    base::DropCounters& drops_;
    std::function<void(const NodeSession&)> on_peer_closed_;
    ChargedSlots slots_;
    flow::FlowTable flows_;
    turns::SoleUser receivers_;
    Connections connections_;
    UserShares shares_;
    RefusalAnswers refusals_;
};

}  // namespace continuo::snapt::relay
