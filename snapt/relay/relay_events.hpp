// RelayEvents: what the relay tells, on the data loop.
#pragma once

#include "common/packet/five_tuple.hpp"

#include <vector>

namespace continuo::snapt::relay {

struct NodeSession;

class RelayEvents {
  public:
    virtual ~RelayEvents() = default;
    virtual void on_session_closed(const NodeSession& session) = 0;
    virtual void on_session_moved(const NodeSession& session) = 0;
    // Nothing that is sent to the node is answered.
    virtual void on_session_silent(const NodeSession& session) = 0;
    // Flows that ended unanswered: the kernel's connection tracking is to forget them.
    // Returns true if Relay::on_flows_forgotten() follows, false if not possible now.
    virtual bool on_flows_gone(std::vector<packet::FiveTuple> flows) = 0;
    // A user's packets wait for another look at its credit.
    virtual void on_credit_used() = 0;
};

}  // namespace continuo::snapt::relay
