// Connections: what the kernel's connection tracking has of nodes: places for new flows, and what
// becomes of a connection when its flow ends.
#pragma once

#include "common/flow/flow_table.hpp"
#include "snapt/nat/connection_room.hpp"
#include "snapt/relay/gone_flows.hpp"
#include "snapt/relay/left_connections.hpp"
#include "snapt/relay/relay_events.hpp"

#include <functional>
#include <string>
#include <unordered_map>

namespace continuo::snapt::relay {

struct UserShare;

// Unanswered UDP whose time is up (flow::timeout::kUdpUnanswered) stays in the NAT for the NAT's
// own time while its user has at most its limit of flows divided by this. So flows that only the
// NAT knows are at most three quarters of the limit: as many as a quarter in each 30 s, for another
// 90 s. DNS is too short-lived for that, and TCP that begins without SYN is remembered for hours.
inline constexpr size_t kFewFlowsDivisor = 4;

// Connections of a user that the kernel tracks and that have no flow. Outlives the user's sessions.
struct TrackedShare {
    GoneFlows::Share gone;        // to be forgotten
    LeftConnections::Share left;  // connections that may go on
    bool is_empty() const { return gone.flows == 0 && left.count() == 0; }
};

class Connections {
  public:
    // Both must outlive it. `max_user_flows`: 0 is none.
    Connections(const flow::FlowTable& flows,
                RelayEvents& events,
                uint64_t hash_seed,
                size_t max_user_flows)
        : flows_(flows), events_(events), max_user_flows_(max_user_flows), left_(hash_seed) {}

    // Once a second: the kernel's table as it is now.
    void set_table(const nat::ConnectionTable& table);
    void set_max_user_flows(size_t flows) { max_user_flows_ = flows; }
    // Flows of a user at most, with what connection tracking has room for; 0: no limit.
    size_t user_flows() const { return room_.user_flows(max_user_flows_); }
    // Flows of all nodes that connection tracking has room for.
    size_t most_flows() const { return std::min(most(), flows_.max_flows()); }
    // Flows and left connections of all nodes.
    size_t size() const { return flows_.size() + left_.size(); }
    const nat::ConnectionRoom& room() const { return room_; }
    const GoneFlows& gone() const { return gone_; }
    const LeftConnections& left() const { return left_; }

    TrackedShare& share_of(const std::string& user) { return shares_[user]; }
    // Drops users whose connections are all forgotten, unless they are here.
    void drop_empty(const std::function<bool(const std::string& user)>& is_here);

    // Whether what the kernel has still to forget leaves the user a place for a flow.
    bool has_room(const UserShare& share, bool is_favoured) const;
    // A flow is about to begin: a connection without one gives way.
    void make_room(TrackedShare& share);
    void note_begun(const packet::FiveTuple& tuple) { left_.remove(tuple); }
    // At the flow's end. `may_stay`: also an unanswered one stays with the NAT.
    void note_ended(const flow::Flow& flow, base::TimePoint now, bool may_stay = false);
    // Whether connection tracking keeps an unanswered flow whose time is up.
    bool may_stay_with_nat(const flow::Flow& flow) const;

    // Forgets connections whose time is over, and those that are too many.
    void look(base::TimePoint now);
    // The kernel is told, unless it is forgetting others.
    void tell_gone();
    // The same at once, if this user has many.
    void hurry(const TrackedShare& share);
    // The flows of RelayEvents::on_flows_gone() are forgotten.
    void on_forgotten();

  private:
    size_t most() const { return room_.most().value_or(SIZE_MAX); }
    // Connections of a user without a flow.
    size_t most_left() const { return user_flows() == 0 ? SIZE_MAX : user_flows(); }
    bool forget_oldest(TrackedShare& share);
    TrackedShare* most_left_of_all();  // null: nobody has any

    const flow::FlowTable& flows_;
    RelayEvents& events_;
    size_t max_user_flows_;
    std::unordered_map<std::string, TrackedShare> shares_;  // by user
    GoneFlows gone_;
    LeftConnections left_;
    nat::ConnectionRoom room_;
};

}  // namespace continuo::snapt::relay
