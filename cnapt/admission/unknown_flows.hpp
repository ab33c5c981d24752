// UnknownFlows: resets for TCP connections that the node does not know any more, as a host's TCP
// would send them. Their packets never reach the host: a SNAPT cannot open connections to the node.
// Data loop only.
#pragma once

#include "cnapt/admission/node_flow.hpp"
#include "cnapt/links/snapt_link.hpp"
#include "common/dataplane/packet_engine.hpp"
#include "common/flow/flow_table.hpp"

#include <memory>

namespace continuo::cnapt::admission {

// Most TCP packets without a flow, of all SNAPTs, that are answered with a reset per second; others
// are dropped. Each occupies a flow for as long as any that was reset.
inline constexpr uint32_t kMaxResetsPerSecond = 16;

class UnknownFlows {
  public:
    // All must outlive this.
    UnknownFlows(flow::FlowTable& flows, dataplane::PacketEngine& engine, base::DropCounters& drops)
        : flows_(flows), engine_(engine), drops_(drops) {}

    // Answers a packet from that SNAPT that belongs to no flow bound to it. Its connection gets a
    // flow with that ruleset, closed from the start; a new one with the same tuple replaces it.
    void reset(links::SnaptLink& link,
               const std::shared_ptr<const classifier::Ruleset>& ruleset,
               const packet::PacketSummary& summary,
               base::ByteView packet,
               base::TimePoint now);

  private:
    // For another reset in this second.
    bool has_room(base::TimePoint now);
    flow::Flow* begin(links::SnaptLink& link,
                      const std::shared_ptr<const classifier::Ruleset>& ruleset,
                      const packet::FiveTuple& tuple,
                      base::TimePoint now);

    flow::FlowTable& flows_;
    dataplane::PacketEngine& engine_;
    base::DropCounters& drops_;
    base::TimePoint resets_began_at_{};  // the second in which resets_ were sent
    uint32_t resets_ = 0;
};

}  // namespace continuo::cnapt::admission
