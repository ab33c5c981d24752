// FlowAdmission: the way up of a packet until the queue of its session. Finds its flow or begins
// one, which gets its process, its class and a SNAPT for life; or refuses it, and tells the
// application at once. Has the node's table of flows, for both directions. Data loop only.
#pragma once

#include "cnapt/admission/flow_binder.hpp"
#include "cnapt/admission/owner_lookup.hpp"
#include "cnapt/admission/unknown_flows.hpp"
#include "cnapt/admission/waiting_flows.hpp"
#include "cnapt/uplinks/on_link.hpp"
#include "common/dataplane/packet_engine.hpp"
#include "common/flow/flow_table.hpp"
#include "common/flow/fragment_cache.hpp"

#include <functional>
#include <memory>
#include <string>

namespace continuo::cnapt::admission {

struct AdmissionSettings {
    base::IpAddress ipv4;  // cnapt0's own
    base::IpAddress ipv6;
    size_t max_flows = 0;
    std::string journal;  // file of the bindings; empty: they end with the process
    bool is_gateway = false;
};

// All must outlive the FlowAdmission, but its flows end before the sessions of the links.
struct AdmissionParts {
    io::EventLoop& loop;
    dataplane::PacketEngine& engine;
    base::DropCounters& drops;
    base::Random& random;
    const links::SnaptLinks& links;
};

class FlowAdmission {
  public:
    // The link has got packets: once a wake-up.
    using OnNeed = std::function<void(links::SnaptLink& link, base::TimePoint now)>;

    FlowAdmission(const AdmissionParts& parts,
                  AdmissionSettings settings,
                  OnNeed on_need,
                  FlowBinder::OnNewApp on_new_app);
    FlowAdmission(const FlowAdmission&) = delete;
    FlowAdmission& operator=(const FlowAdmission&) = delete;

    // On failure `failure` has the text.
    base::Result<void> start(std::string& failure);
    // Before the sessions end. The bindings outlive this process.
    void end_all();

    void set_ruleset(std::shared_ptr<const classifier::Ruleset> ruleset) {
        ruleset_ = std::move(ruleset);
    }
    // Networks of uplinks with public addresses.
    void set_on_link(uplinks::OnLinkNetworks networks) { on_link_ = std::move(networks); }
    const uplinks::OnLinkNetworks& on_link() const { return on_link_; }

    // --- Up
    void on_packet(packet::PacketPtr packet, base::TimePoint now);

    // --- Down
    // The flow of a packet from that session; null: it has none.
    flow::Flow* flow_of(const tunnel::Session& session, const packet::FiveTuple& tuple) const;
    // A whole packet from a SNAPT that has no flow. Begins it again if it was bound to that SNAPT
    // before this process started; otherwise drops the packet, returns null, and resets TCP.
    flow::Flow* on_stray(links::SnaptLink& link,
                         const packet::PacketSummary& summary,
                         base::ByteView packet,
                         base::TimePoint now);

    // --- All flows
    flow::FlowTable& flows() { return flows_; }
    bool has_flows(const links::SnaptLink& link);
    // Flows keep their SNAPT and go on in its new association.
    void move_flows(links::SnaptLink& link, tunnel::Session& former, base::TimePoint now);
    // SNAPT may not know the names of policy rules.
    void tell_apps(links::SnaptLink& link) { binder_.tell_apps(link); }
    void expire(base::TimePoint now);

  private:
    flow::Flow* begin_flow(const packet::PacketSummary& summary, base::TimePoint now);
    flow::Flow*
    resume(const links::SnaptLink& link, const packet::PacketSummary& summary, base::TimePoint now);
    void classify(NodeFlow& node_flow, base::TimePoint now);
    classifier::FlowFacts facts_of(const NodeFlow& node_flow) const;
    const uplinks::OnLinkNetwork* refusing_network(const packet::FiveTuple& tuple) const;
    void bind(NodeFlow& node_flow, base::TimePoint now);
    void forward(NodeFlow& node_flow, packet::PacketPtr packet, bool is_syn, base::TimePoint now);
    void consider_promotion(NodeFlow& node_flow, uint32_t bytes, base::TimePoint now);
    void change_class(NodeFlow& node_flow, base::TrafficClass traffic_class, base::TimePoint now);
    void refuse(NodeFlow& node_flow, std::string reason, base::TimePoint now);
    void answer_refused(base::ByteView packet);
    void tell_refusal(const packet::FiveTuple& flow, base::TimePoint now);
    void release_waiting(NodeFlow& node_flow, base::TimePoint now);
    void on_wait_over();
    void on_owner_found(const packet::FiveTuple& tuple, FoundOwner owner);
    size_t flow_limit(base::IpVersion version) const {
        return links::flow_limit(parts_.links, version, flows_.max_flows());
    }
    void displace(flow::Flow& flow, base::TimePoint now);
    void erase(flow::Flow& flow, base::TimePoint now);
    void end_flow(flow::Flow& flow, base::TimePoint now);

    AdmissionParts parts_;
    AdmissionSettings settings_;
    OnNeed on_need_;
    std::shared_ptr<const classifier::Ruleset> ruleset_;
    uplinks::OnLinkNetworks on_link_;
    flow::HeapSlots slots_;
    flow::HostShares hosts_;  // a gateway's hosts
    flow::FlowTable flows_;
    flow::FragmentCache fragments_;
    FlowBinder binder_;
    UnknownFlows unknown_;
    WaitingFlows waiting_;
    OwnerLookup owners_;
    base::TimePoint refusal_told_at_{};  // when it was last logged
};

}  // namespace continuo::cnapt::admission
