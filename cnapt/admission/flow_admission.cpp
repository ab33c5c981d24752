#include "cnapt/admission/flow_admission.hpp"

#include "common/base/log.hpp"
#include "common/dataplane/flow_tracking.hpp"
#include "common/packet/reply.hpp"
#include "common/packet/rewrite.hpp"

#include <utility>

namespace continuo::cnapt::admission {

using base::DropReason;
using base::TimePoint;
using flow::Flow;
using packet::NodeSide;
using packet::PacketPtr;
using packet::Protocol;

namespace {

constexpr uint16_t kDnsPort = 53;
constexpr base::Duration kRefusalLogInterval = base::seconds(60);

bool is_syn(const packet::PacketSummary& summary) {
    return (summary.tcp_flags & (packet::tcp_flag::kSyn | packet::tcp_flag::kAck)) ==
           packet::tcp_flag::kSyn;
}

// Its SNAPT is lost and nothing has come back of it, while another one would take it or none of
// those that answer can.
bool is_stranded(const links::SnaptLinks& links, const Flow& flow) {
    const links::SnaptLink* link = flow::details_as<const NodeFlow>(flow)->link;
    const base::IpVersion version = flow.tuple.local.version;
    return flow.state == flow::FlowState::Opening && !flow.was_answered && link != nullptr &&
           !link->is_up && (carries(links, version) || refuses(links, version));
}

}  // namespace

FlowAdmission::FlowAdmission(const AdmissionParts& parts,
                             AdmissionSettings settings,
                             OnNeed on_need,
                             FlowBinder::OnNewApp on_new_app)
    : parts_(parts)
    , settings_(std::move(settings))
    , on_need_(std::move(on_need))
    , slots_(settings_.max_flows)
    , flows_(settings_.max_flows, slots_, {.hash_seed = parts.random.u64(), .drops = &parts.drops})
    , binder_(parts.links, flows_, std::move(on_new_app))
    , unknown_(flows_, parts.engine, parts.drops)
    , waiting_(parts.loop, [this] { on_wait_over(); })
    , owners_(parts.loop, [this](const packet::FiveTuple& tuple, FoundOwner owner) {
        on_owner_found(tuple, std::move(owner));
    }) {}

base::Result<void> FlowAdmission::start(std::string& failure) {
    if (!settings_.journal.empty()) {
        failure = "cannot use " + settings_.journal;
        CTN_TRY(binder_.open_journal(settings_.journal, parts_.random));
    }
    return owners_.start(settings_.is_gateway, failure);
}

void FlowAdmission::end_all() {
    binder_.close_journal();
    const TimePoint now = parts_.loop.now();
    flows_.for_each([&](Flow& flow) { erase(flow, now); });
}

void FlowAdmission::on_packet(PacketPtr packet, TimePoint now) {
    const auto identified =
        dataplane::identify(packet->bytes(), NodeSide::Source, fragments_, parts_.drops, now);
    if (!identified) {
        return;
    }
    const packet::PacketSummary& summary = *identified;
    if (summary.tuple.local != settings_.ipv4 && summary.tuple.local != settings_.ipv6) {
        parts_.drops.add(DropReason::NotOurSource);
        return;
    }
    Flow* flow = flows_.find(summary.tuple);
    if (flow != nullptr && is_unknown(*flow) && !is_syn(summary)) {
        parts_.drops.add(DropReason::NoBinding);
        answer_refused(packet->bytes());
        return;
    }
    // A SYN says that the connection has not begun anywhere else.
    const bool begins_elsewhere =
        flow != nullptr && is_syn(summary) && is_stranded(parts_.links, *flow);
    if (flow != nullptr && !summary.is_icmp_error &&
        (begins_elsewhere || flows_.on_packet(*flow, flow::Direction::Up, summary, now) ==
                                 flow::PacketVerdict::NewConnection)) {
        erase(*flow, now);
        flow = nullptr;
    }
    if (flow == nullptr) {
        const bool is_tcp = summary.tuple.protocol == Protocol::Tcp;
        const bool is_midstream = is_tcp && !is_syn(summary);
        if (is_tcp && !is_midstream) {
            binder_.forget(summary.tuple);
        }
        if (summary.is_icmp_error || !summary.is_first_fragment ||
            (is_midstream && binder_.former(summary.tuple) == nullptr)) {
            parts_.drops.add(DropReason::NoBinding);
            if (is_tcp && !summary.is_icmp_error && summary.is_first_fragment) {
                answer_refused(packet->bytes());
            }
            return;
        }
        if (refuses(parts_.links, summary.tuple.local.version) &&
            binder_.former(summary.tuple) == nullptr) {
            parts_.drops.add(DropReason::VersionNotCarried);
            answer_refused(packet->bytes());
            return;
        }
        flow = begin_flow(summary, now);
        if (flow == nullptr) {
            if (ruleset_ != nullptr) {
                tell_refusal(summary.tuple, now);
                answer_refused(packet->bytes());
            }
            return;
        }
        flows_.on_packet(*flow, flow::Direction::Up, summary, now);
    }
    forward(*flow::details_as<NodeFlow>(*flow), std::move(packet), is_syn(summary), now);
}

Flow* FlowAdmission::begin_flow(const packet::PacketSummary& summary, TimePoint now) {
    if (ruleset_ == nullptr) {
        parts_.drops.add(DropReason::NoSession);
        return nullptr;
    }
    const auto end = [&](Flow& displaced) { displace(displaced, now); };
    const bool is_favoured = flow::is_favoured(summary.tuple, base::TrafficClass::LtHd);
    const bool has_room =
        settings_.is_gateway
            ? flows_.make_room(is_favoured, hosts_, flow_limit(summary.tuple.local.version), end)
            : flows_.make_room(is_favoured, nullptr, 0, end);
    flow::FlowOrigin origin;
    origin.share = settings_.is_gateway ? &hosts_.unknown() : nullptr;
    Flow* flow =
        has_room ? flows_.create(summary.tuple, base::TrafficClass::LtHd, now, origin) : nullptr;
    if (flow == nullptr) {
        return nullptr;
    }
    auto node_flow = std::make_unique<NodeFlow>();
    node_flow->flow = flow;
    node_flow->dscp = static_cast<uint8_t>(summary.tos >> 2);
    flow->details = node_flow.get();
    NodeFlow& kept = *node_flow.release();  // end_flow deletes it
    owners_.ask(summary.tuple);
    // Pings are not held: people read their round-trip times.
    const bool may_wait =
        summary.tuple.protocol == Protocol::Tcp || summary.tuple.protocol == Protocol::Udp;
    if (may_wait && ruleset_->needs_process(facts_of(kept))) {
        waiting_.add(kept, now);
        return flow;
    }
    classify(kept, now);
    return flow;
}

void FlowAdmission::classify(NodeFlow& node_flow, TimePoint now) {
    const bool is_first = !node_flow.is_classified;
    node_flow.ruleset = ruleset_;
    node_flow.classification = ruleset_->classify(facts_of(node_flow));
    node_flow.is_classified = true;
    Flow& flow = *node_flow.flow;
    const auto& classification = node_flow.classification;
    flow.may_compress = classification.may_compress;
    if (classification.action == classifier::Action::Deny) {
        refuse(node_flow, "denied by policy", now);
        return;
    }
    if (const auto* network = is_first ? refusing_network(flow.tuple) : nullptr) {
        refuse(node_flow, "in the network of " + network->interface + " (capture.on_link)", now);
        return;
    }
    if (is_first) {
        if (flow.traffic_class != classification.traffic_class) {
            flows_.reclassify(flow, classification.traffic_class, now);
        }
        bind(node_flow, now);
        return;
    }
    // A late answer about the process may change the class, not the SNAPT.
    if (node_flow.link != nullptr && node_flow.link->session) {
        binder_.retag(node_flow);
        if (flow.traffic_class != classification.traffic_class) {
            change_class(node_flow, classification.traffic_class, now);
        }
    }
}

// New flows to public addresses in the network of an uplink. Flows in the tunnel stay there,
// whatever network the node has moved to. So do DNS questions: ResolverWatch decides by which way a
// name server answers.
const uplinks::OnLinkNetwork*
FlowAdmission::refusing_network(const packet::FiveTuple& tuple) const {
    const uplinks::OnLinkNetwork* network =
        tuple.remote_port == kDnsPort ? nullptr : on_link_.refusing(tuple.remote);
    return network == nullptr || binder_.former(tuple) != nullptr ? nullptr : network;
}

classifier::FlowFacts FlowAdmission::facts_of(const NodeFlow& node_flow) const {
    classifier::FlowFacts facts;
    facts.tuple = node_flow.flow->tuple;
    facts.dscp = node_flow.dscp;
    if (node_flow.owner.inode != 0) {
        facts.user = classifier::FlowUser{node_flow.owner.user_id, node_flow.user};
    }
    if (!node_flow.owner.process.empty()) {
        facts.process = node_flow.owner.process;
    }
    if (!node_flow.owner.parent.empty()) {
        facts.parent = node_flow.owner.parent;
    }
    return facts;
}

void FlowAdmission::bind(NodeFlow& node_flow, TimePoint now) {
    if (auto reason = binder_.bind(node_flow, now)) {
        refuse(node_flow, std::move(*reason), now);
    }
}

void FlowAdmission::refuse(NodeFlow& node_flow, std::string reason, TimePoint now) {
    node_flow.refused_reason = std::move(reason);
    flows_.refuse(*node_flow.flow, now);
    if (node_flow.link != nullptr && node_flow.link->session) {
        node_flow.link->session->detach(*node_flow.flow, now);
    }
}

// The application learns it at once.
void FlowAdmission::answer_refused(base::ByteView packet) {
    std::array<uint8_t, packet::kMaxReplyBytes> reply{};
    size_t length = packet::write_tcp_reset(packet, reply);
    if (length == 0) {
        length = packet::write_icmp_prohibited(packet, reply);
    }
    if (length > 0) {
        parts_.engine.answer(base::ByteView(reply).first(length));
    }
}

void FlowAdmission::forward(NodeFlow& node_flow, PacketPtr packet, bool syn, TimePoint now) {
    if (WaitingFlows::is_waiting(node_flow)) {
        if (!WaitingFlows::keep(node_flow, std::move(packet))) {
            parts_.drops.add(DropReason::QueueFull);
        }
        return;
    }
    Flow& flow = *node_flow.flow;
    if (node_flow.link == nullptr && flow.state != flow::FlowState::Refused) {
        bind(node_flow, now);
    }
    if (flow.state == flow::FlowState::Refused) {
        parts_.drops.add(DropReason::PolicyDenied);
        answer_refused(packet->bytes());
        return;
    }
    if (node_flow.link == nullptr || !node_flow.link->session) {
        parts_.drops.add(DropReason::NoSession);
        return;
    }
    links::SnaptLink& link = *node_flow.link;
    if (syn) {
        packet::clamp_mss(packet->bytes(), link.largest_segment(flow, now),
                          packet->offload.partial_checksum);
    }
    consider_promotion(node_flow, packet->length, now);
    link.session->on_packet(flow, std::move(packet), now);
    if (std::exchange(link.needed_at, now) != now) {
        on_need_(link, now);
    }
    parts_.engine.touch(*link.session);
}

void FlowAdmission::consider_promotion(NodeFlow& node_flow, uint32_t bytes, TimePoint now) {
    Flow& flow = *node_flow.flow;
    const classifier::Promotion& rule = node_flow.ruleset->promotion();
    if (!rule.is_enabled || !base::is_low_throughput(flow.traffic_class) ||
        !node_flow.promotion.on_bytes(rule, bytes, now)) {
        return;
    }
    change_class(node_flow, policy::promoted(flow.traffic_class), now);
}

void FlowAdmission::change_class(NodeFlow& node_flow,
                                 base::TrafficClass traffic_class,
                                 TimePoint now) {
    const base::TrafficClass former = node_flow.flow->traffic_class;
    if (flows_.reclassify(*node_flow.flow, traffic_class, now)) {
        node_flow.link->session->requeue(*node_flow.flow, former);
    }
}

// Classifies with what is known by now and sends the waiting packets.
void FlowAdmission::release_waiting(NodeFlow& node_flow, TimePoint now) {
    std::vector<PacketPtr> packets = waiting_.take(node_flow);
    classify(node_flow, now);
    for (PacketPtr& packet : packets) {
        const auto result = packet::summarize(packet->bytes(), NodeSide::Source);
        forward(node_flow, std::move(packet), result.summary && is_syn(*result.summary), now);
    }
}

void FlowAdmission::on_wait_over() {
    const TimePoint now = parts_.loop.now();
    while (NodeFlow* node_flow = waiting_.next_due(now)) {
        release_waiting(*node_flow, now);
    }
    parts_.engine.pump(now);
}

// A late answer may still change the class.
void FlowAdmission::on_owner_found(const packet::FiveTuple& tuple, FoundOwner owner) {
    Flow* flow = flows_.find(tuple);
    if (flow == nullptr) {
        return;
    }
    const bool is_of_process = owner.socket.inode != 0;
    if (settings_.is_gateway && (is_of_process || owner.host)) {
        flow::FlowTable::set_share(*flow, is_of_process ? hosts_.own() : hosts_.of(*owner.host));
    }
    const TimePoint now = parts_.loop.now();
    auto& node_flow = *flow::details_as<NodeFlow>(*flow);
    node_flow.owner = std::move(owner.socket);
    node_flow.user = std::move(owner.user);
    if (WaitingFlows::is_waiting(node_flow)) {
        release_waiting(node_flow, now);
    } else if (flow->state != flow::FlowState::Refused) {
        classify(node_flow, now);
    }
    parts_.engine.pump(now);
}

// Every flow was made here and is bound to one SNAPT: packets from another one belong to no flow.
Flow* FlowAdmission::flow_of(const tunnel::Session& session, const packet::FiveTuple& tuple) const {
    Flow* flow = flows_.find(tuple);
    const auto* node_flow = flow == nullptr ? nullptr : flow::details_as<const NodeFlow>(*flow);
    const bool is_bound_to_it = node_flow != nullptr && node_flow->link != nullptr &&
                                node_flow->link->session.get() == &session &&
                                !node_flow->is_unknown;
    return is_bound_to_it ? flow : nullptr;
}

Flow* FlowAdmission::on_stray(links::SnaptLink& link,
                              const packet::PacketSummary& summary,
                              base::ByteView packet,
                              TimePoint now) {
    Flow* flow = resume(link, summary, now);
    if (flow == nullptr) {
        parts_.drops.add(DropReason::NoBinding);
        unknown_.reset(link, ruleset_, summary, packet, now);
    }
    return flow;
}

// The node may have nothing more to send, or sent it before there was a session, when it was
// dropped and the flow started unbound.
Flow* FlowAdmission::resume(const links::SnaptLink& link,
                            const packet::PacketSummary& summary,
                            TimePoint now) {
    if (!binder_.was_bound_to(summary.tuple, link)) {
        return nullptr;
    }
    Flow* flow = flows_.find(summary.tuple);
    if (flow == nullptr) {
        return begin_flow(summary, now);
    }
    auto& node_flow = *flow::details_as<NodeFlow>(*flow);
    if (node_flow.link != nullptr || flow->state == flow::FlowState::Refused) {
        return nullptr;
    }
    if (!WaitingFlows::is_waiting(node_flow)) {
        bind(node_flow, now);
    }
    return flow;
}

bool FlowAdmission::has_flows(const links::SnaptLink& link) {
    if (link.session && link.session->flows() != 0) {
        return true;
    }
    bool is_bound = false;  // a refused one is, and not attached any more
    flows_.for_each([&](const Flow& flow) {
        is_bound = is_bound || flow::details_as<const NodeFlow>(flow)->link == &link;
    });
    return is_bound;
}

void FlowAdmission::move_flows(links::SnaptLink& link, tunnel::Session& former, TimePoint now) {
    flows_.for_each([&](Flow& flow) {
        auto* node_flow = flow::details_as<NodeFlow>(flow);
        const bool is_bound = node_flow->link == &link && flow.state != flow::FlowState::Refused;
        if (is_bound && (flow.owner == &former || flow.owner == nullptr)) {
            former.detach(flow, now);
            link.session->attach(flow);
        }
    });
}

void FlowAdmission::expire(TimePoint now) {
    flows_.expire(now, [&](Flow& flow) { end_flow(flow, now); });
}

// The flow's place is needed. The SNAPT is told, as its limit counts the flow, too.
void FlowAdmission::displace(Flow& flow, TimePoint now) {
    const auto* node_flow = flow::details_as<const NodeFlow>(flow);
    if (node_flow->link != nullptr && node_flow->link->session) {
        node_flow->link->session->detach(flow, now, session::EndNotice::Closed);
    }
    erase(flow, now);
}

void FlowAdmission::erase(Flow& flow, TimePoint now) {
    end_flow(flow, now);
    flows_.erase(flow);
}

// Called before the table erases the flow: nobody may hold it any more.
void FlowAdmission::end_flow(Flow& flow, TimePoint now) {
    auto* node_flow = flow::details_as<NodeFlow>(flow);
    parts_.engine.flush(flow);
    binder_.release(*node_flow, now);
    parts_.engine.forget(flow);
    waiting_.remove(*node_flow);
    flow.details = nullptr;
    delete node_flow;
}

// The operator is told at intervals, the sender each time.
void FlowAdmission::tell_refusal(const packet::FiveTuple& flow, TimePoint now) {
    if (refusal_told_at_ == TimePoint{} || now - refusal_told_at_ >= kRefusalLogInterval) {
        refusal_told_at_ = now;
        const bool is_own =
            !settings_.is_gateway || flow_limit(flow.local.version) == flows_.max_flows();
        base::log(base::LogLevel::Warning, "too many flows: %zu; new ones are refused (%s)",
                  flows_.size(), is_own ? "limits.flows" : "limits.user_flows of the SNAPT");
    }
}

}  // namespace continuo::cnapt::admission
