// UserShares: the users who have sessions, and what acts on all sessions of one: rates, and quotas
// and credit as its meter has them. Down, packets above a rate wait; up, they are dropped.
#pragma once

#include "common/dataplane/packet_engine.hpp"
#include "snapt/relay/connections.hpp"
#include "snapt/relay/node_session.hpp"
#include "snapt/relay/relay_events.hpp"

#include <array>
#include <functional>
#include <string>
#include <unordered_map>

namespace continuo::snapt::relay {

// Length of the queue in a class of a user with a rate, except for a few super-packets. A choice.
inline constexpr base::Duration kRateQueue = base::milliseconds(250);
inline constexpr uint64_t kLeastRateQueue = uint64_t{128} * 1024;

class UserShares {
  public:
    using Classes = std::array<session::ClassSettings, base::kTrafficClasses>;

    // All references must outlive it. `bits_per_s`: of each user, each way; 0: no limit.
    UserShares(dataplane::PacketEngine& engine,
               Connections& connections,
               RelayEvents& events,
               const Classes& classes,
               uint64_t bits_per_s)
        : engine_(engine)
        , connections_(connections)
        , events_(events)
        , classes_(classes)
        , bits_per_s_(bits_per_s) {}

    // The share of a session that begins; then add its session.
    UserShare& join(const SessionGrant& grant);
    void add(NodeSession& node) { node.share->nodes.push_back(&node); }
    void remove(NodeSession& node);

    Classes classes_of(const UserShare& share) const;
    void set_classes(const Classes& classes);
    void set_user_rate(uint64_t bits_per_s) { bits_per_s_ = bits_per_s; }
    // Applies or removes the rates of all. `stop` is called once for a user whose quota is used up.
    void look(const std::function<void(UserShare&)>& stop);
    // The rate of one, with each packet: what a late look lets through is lost.
    void follow_meter(UserShare& share) {
        if (share.meter->throttled_bits_per_s() != share.throttled_bits_per_s) {
            follow_new_rate(share);
        }
    }
    void drop_idle();
    // Flows of all users that are answered and not closed. Linear in users.
    size_t running_flows() const;

  private:
    void apply_rate(UserShare& share);
    void follow_new_rate(UserShare& share);

    dataplane::PacketEngine& engine_;
    Connections& connections_;
    RelayEvents& events_;
    Classes classes_;
    uint64_t bits_per_s_;
    std::unordered_map<std::string, UserShare> shares_;  // by user
};

}  // namespace continuo::snapt::relay
