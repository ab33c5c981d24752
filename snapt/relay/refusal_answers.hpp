// RefusalAnswers: packets that have no place, or whose user's quota is used up, are answered: TCP
// is reset, others get ICMP. The operator is told, too.
#pragma once

#include "common/dataplane/packet_engine.hpp"
#include "common/flow/flow_table.hpp"
#include "snapt/relay/node_session.hpp"

namespace continuo::snapt::relay {

// Packets of a user that are answered because there is no place for their flow, or its quota is
// used up, in a second; others are dropped as they are. A user who asks for more takes nobody
// else's answers. A choice.
inline constexpr uint32_t kMaxRefusalsPerSecond = 100;

class RefusalAnswers {
  public:
    // All references must outlive it. The addresses are those that answers come from.
    RefusalAnswers(dataplane::PacketEngine& engine,
                   flow::FlowTable& flows,
                   base::DropCounters& drops,
                   const base::IpAddress& own_ipv4,
                   const base::IpAddress& own_ipv6)
        : engine_(engine), flows_(flows), drops_(drops), own_ipv4_(own_ipv4), own_ipv6_(own_ipv6) {}

    // In the log, now and then: the user or all have too many flows.
    void tell(NodeSession& node, base::TimePoint now) const;
    void answer(NodeSession& node, base::ByteView packet, base::TimePoint now);
    void answer(NodeSession& node, const session::FlowOpening& opening, base::TimePoint now);
    // A segment or packet from the node of a user whose quota is used up.
    void refuse_up(NodeSession& node,
                   flow::Flow& flow,
                   const packet::HeaderFields& fields,
                   base::TimePoint now);
    // A packet for it.
    void refuse_down(NodeSession& node,
                     const packet::PacketSummary& summary,
                     base::ByteView packet,
                     base::TimePoint now);

  private:
    static bool may_answer(NodeSession& node, base::TimePoint now);
    void send(NodeSession& node, base::ByteView answer, base::TimePoint now);

    dataplane::PacketEngine& engine_;
    flow::FlowTable& flows_;
    base::DropCounters& drops_;
    base::IpAddress own_ipv4_;
    base::IpAddress own_ipv6_;
};

}  // namespace continuo::snapt::relay
