// HostShares: flows of the hosts behind a gateway, each with a share of the gateway's table. When
// the table is full the host with the most flows gives way: first its unanswered flows, and
// answered ones if it has more than its part. So no host can keep others out. Pure.
#pragma once

#include "common/base/ip_address.hpp"
#include "common/flow/flow_share.hpp"

#include <map>

namespace continuo::flow {

// Most hosts with their own share; further ones have one together. A /24 of a LAN.
inline constexpr size_t kMaxHosts = 256;
// A host with no more than this part of the limit keeps its answered flows. A choice.
inline constexpr size_t kLeastPartDivisor = 16;

class HostShares {
  public:
    // The host itself, and flows whose host is not known (yet).
    FlowShare& own() { return own_; }
    FlowShare& unknown() { return unknown_; }
    // Valid while it has flows.
    FlowShare& of(const base::IpAddress& host);

    // The flow to displace in a table of `limit` flows. `is_reserve_left`: an ordinary flow would
    // leave the reserve free. Null: the table's own rule applies.
    Flow* gives_way_to(bool is_favoured, bool is_reserve_left, size_t limit) const;
    size_t hosts() const { return shares_.size(); }

  private:
    FlowShare own_;
    FlowShare unknown_;
    FlowShare others_;
    std::map<base::IpAddress, FlowShare> shares_;
};

}  // namespace continuo::flow
