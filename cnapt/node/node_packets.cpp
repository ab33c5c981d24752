// Packets from applications: flow, class, queue.
#include "cnapt/node/node.hpp"
#include "common/dataplane/flow_tracking.hpp"
#include "common/packet/reply.hpp"
#include "common/packet/rewrite.hpp"

#include <algorithm>

namespace continuo::cnapt::node {

using base::DropReason;
using base::TimePoint;
using flow::Flow;
using packet::NodeSide;
using packet::PacketPtr;
using packet::Protocol;

namespace {

// Most packets per wake-up: with more, the device's queue could overflow meanwhile.
constexpr size_t kMostBeforeRest = 12;
// A shorter pause saves nothing.
constexpr base::Duration kShortestRest = base::microseconds(100);

bool is_syn(const packet::PacketSummary& summary) {
    return (summary.tcp_flags & (packet::tcp_flag::kSyn | packet::tcp_flag::kAck)) ==
           packet::tcp_flag::kSyn;
}

// Its SNAPT is lost and nothing has come back of it, while another one would take it or none of
// those that answer can.
bool is_stranded(const Node& node, const Flow& flow) {
    const SnaptLink* link = flow::details_as<const NodeFlow>(flow)->link;
    const base::IpVersion version = flow.tuple.local.version;
    return flow.state == flow::FlowState::Opening && !flow.was_answered && link != nullptr &&
           !link->is_up && (node.carries(version) || node.refuses(version));
}

}  // namespace

void Node::on_tun_readable() {
    const TimePoint now = loop_.now();
    const bool is_stream = loop_.is_steady();
    const uint64_t waiting = is_stream ? queued_bytes() : 0;
    for (const auto& link : links_) {
        if (link->session) {
            link->session->set_arrivals_gathered(loop_.has_rested());
        }
    }
    size_t packets = 0;
    const size_t bytes = tun_port_->read_burst(
        now, is_stream, dataplane::kTunBurst,
        [&](PacketPtr packet) {
            ++packets;
            on_packet(std::move(packet), now);
        },
        [&] {
            driver_.pump(now);
            return true;
        },
        [] { return true; });
    loop_.note_moved(bytes);
    tun_port_->coalescer().flush();  // replies to refused flows
    driver_.pump(now);
    if (is_stream && packets <= kMostBeforeRest && queued_bytes() == waiting + bytes) {
        rest(now);
    }
}

uint64_t Node::queued_bytes() const {
    uint64_t bytes = 0;
    for (const auto& link : links_) {
        bytes += link->session ? link->session->queued_bytes() : 0;
    }
    return bytes;
}

// All packets that just came are held, and so will be the next ones. Nothing is due before the hold
// of the first one ends.
void Node::rest(TimePoint now) {
    base::Duration least = io::kLongestRest;
    for (const auto& link : links_) {
        if (const auto patience = link->session ? link->session->patience(now) : std::nullopt) {
            least = std::min(least, *patience);
        }
    }
    if (least >= kShortestRest && !driver_.is_holding()) {
        loop_.rest(least);
    }
}

void Node::on_packet(PacketPtr packet, TimePoint now) {
    const auto identified =
        dataplane::identify(packet->bytes(), NodeSide::Source, fragments_, drops_, now);
    if (!identified) {
        return;
    }
    const packet::PacketSummary& summary = *identified;
    if (summary.tuple.local != settings_.ipv4 && summary.tuple.local != settings_.ipv6) {
        drops_.add(DropReason::NotOurSource);
        return;
    }
    Flow* flow = flows_.find(summary.tuple);
    if (flow != nullptr && is_unknown(*flow) && !is_syn(summary)) {
        drops_.add(DropReason::NoBinding);
        answer_refused(packet->bytes());
        return;
    }
    // A SYN says that the connection has not begun anywhere else.
    const bool begins_elsewhere = flow != nullptr && is_syn(summary) && is_stranded(*this, *flow);
    if (flow != nullptr && !summary.is_icmp_error &&
        (begins_elsewhere || flows_.on_packet(*flow, flow::Direction::Up, summary, now) ==
                                 flow::PacketVerdict::NewConnection)) {
        end_flow(*flow, now);
        flows_.erase(*flow);
        flow = nullptr;
    }
    if (flow == nullptr) {
        const bool is_tcp = summary.tuple.protocol == Protocol::Tcp;
        const bool is_midstream = is_tcp && !is_syn(summary);
        if (journal_ && is_tcp && !is_midstream) {
            journal_->release(summary.tuple);  // this is a new connection
        }
        if (summary.is_icmp_error || !summary.is_first_fragment ||
            (is_midstream && !former_snapt(summary.tuple))) {
            drops_.add(DropReason::NoBinding);
            if (is_tcp && !summary.is_icmp_error && summary.is_first_fragment) {
                answer_refused(packet->bytes());
            }
            return;
        }
        if (refuses(summary.tuple.local.version) && !former_snapt(summary.tuple)) {
            drops_.add(DropReason::VersionNotCarried);
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

Flow* Node::begin_flow(const packet::PacketSummary& summary, TimePoint now) {
    if (ruleset_ == nullptr) {
        drops_.add(DropReason::NoSession);
        return nullptr;
    }
    const auto end = [&](Flow& displaced) { displace(displaced, now); };
    const bool is_favoured = flow::is_favoured(summary.tuple, base::TrafficClass::LtHd);
    const bool has_room =
        is_gateway()
            ? flows_.make_room(is_favoured, hosts_, flow_limit(summary.tuple.local.version), end)
            : flows_.make_room(is_favoured, nullptr, 0, end);
    flow::FlowOrigin origin;
    origin.share = is_gateway() ? &hosts_.unknown() : nullptr;
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
    look_up(kept);
    // Pings are not held: people read their round-trip times.
    const bool may_wait =
        summary.tuple.protocol == Protocol::Tcp || summary.tuple.protocol == Protocol::Udp;
    if (may_wait && ruleset_->needs_process(facts_of(kept))) {
        kept.waits_until = now + kProcessWait;
        waiting_flows_.push_back(&kept);
        wait_timer_.set(std::min(wait_timer_.deadline(), kept.waits_until));
        return flow;
    }
    classify(kept, now);
    return flow;
}

void Node::classify(NodeFlow& node_flow, TimePoint now) {
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
    if (is_first && refuses_on_link(node_flow, now)) {
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
        flow.app = app_tag(*node_flow.link, classification);
        node_flow.link->session->set_mode(flow, classification.mode);
        if (flow.traffic_class != classification.traffic_class) {
            change_class(node_flow, classification.traffic_class, now);
        }
    }
}

classifier::FlowFacts Node::facts_of(const NodeFlow& node_flow) const {
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

void Node::refuse(NodeFlow& node_flow, std::string reason, TimePoint now) {
    node_flow.refused_reason = std::move(reason);
    flows_.refuse(*node_flow.flow, now);
    if (node_flow.link != nullptr && node_flow.link->session) {
        node_flow.link->session->detach(*node_flow.flow, now);
    }
    for (const PacketPtr& packet : node_flow.waiting) {
        drops_.add(DropReason::PolicyDenied);
        answer_refused(packet->bytes());
    }
    node_flow.waiting.clear();
}

// The application learns it at once.
void Node::answer_refused(base::ByteView packet) {
    std::array<uint8_t, packet::kMaxReplyBytes> reply{};
    size_t length = packet::write_tcp_reset(packet, reply);
    if (length == 0) {
        length = packet::write_icmp_prohibited(packet, reply);
    }
    if (length > 0) {
        tun_port_->write_packet(base::ByteView(reply).first(length), nullptr, 0);
    }
}

void Node::forward(NodeFlow& node_flow, PacketPtr packet, bool syn, TimePoint now) {
    if (node_flow.waits_until != base::kNever) {
        if (node_flow.waiting.size() >= kMaxWaitingPackets) {
            drops_.add(DropReason::QueueFull);
            return;
        }
        node_flow.waiting.push_back(std::move(packet));
        return;
    }
    Flow& flow = *node_flow.flow;
    if (node_flow.link == nullptr && flow.state != flow::FlowState::Refused) {
        bind(node_flow, now);
    }
    if (flow.state == flow::FlowState::Refused) {
        drops_.add(DropReason::PolicyDenied);
        answer_refused(packet->bytes());
        return;
    }
    if (node_flow.link == nullptr || !node_flow.link->session) {
        drops_.add(DropReason::NoSession);
        return;
    }
    SnaptLink& link = *node_flow.link;
    if (syn) {
        packet::clamp_mss(packet->bytes(), largest_segment(link, flow, now),
                          packet->offload.partial_checksum);
    }
    consider_promotion(node_flow, packet->length, now);
    link.session->on_packet(flow, std::move(packet), now);
    note_need(link, now);
    driver_.touch(*link.session);
}

void Node::consider_promotion(NodeFlow& node_flow, uint32_t bytes, TimePoint now) {
    Flow& flow = *node_flow.flow;
    const classifier::Promotion& rule = node_flow.ruleset->promotion();
    if (!rule.is_enabled || !base::is_low_throughput(flow.traffic_class) ||
        !node_flow.promotion.on_bytes(rule, bytes, now)) {
        return;
    }
    change_class(node_flow, policy::promoted(flow.traffic_class), now);
}

void Node::change_class(NodeFlow& node_flow, base::TrafficClass traffic_class, TimePoint now) {
    const base::TrafficClass former = node_flow.flow->traffic_class;
    if (flows_.reclassify(*node_flow.flow, traffic_class, now)) {
        node_flow.link->session->requeue(*node_flow.flow, former);
    }
}

// Classifies with what is known by now and sends the waiting packets.
void Node::release_waiting(NodeFlow& node_flow, TimePoint now) {
    node_flow.waits_until = base::kNever;
    std::erase(waiting_flows_, &node_flow);
    classify(node_flow, now);
    std::vector<PacketPtr> packets = std::move(node_flow.waiting);
    node_flow.waiting.clear();
    for (PacketPtr& packet : packets) {
        const auto result = packet::summarize(packet->bytes(), NodeSide::Source);
        forward(node_flow, std::move(packet), result.summary && is_syn(*result.summary), now);
    }
}

void Node::on_wait_over() {
    const TimePoint now = loop_.now();
    TimePoint next = base::kNever;
    const std::vector<NodeFlow*> waiting = waiting_flows_;
    for (NodeFlow* node_flow : waiting) {
        if (node_flow->waits_until <= now) {
            release_waiting(*node_flow, now);
        } else {
            next = std::min(next, node_flow->waits_until);
        }
    }
    wait_timer_.set(next);
    driver_.pump(now);
}

// The flow's place is needed. The SNAPT is told, as its limit counts the flow, too.
void Node::displace(Flow& flow, TimePoint now) {
    const auto* node_flow = flow::details_as<const NodeFlow>(flow);
    if (node_flow->link != nullptr && node_flow->link->session) {
        node_flow->link->session->detach(flow, now, session::EndNotice::Closed);
    }
    end_flow(flow, now);
    flows_.erase(flow);
}

// Called before the table erases the flow: nobody may hold it any more.
void Node::end_flow(Flow& flow, TimePoint now) {
    auto* node_flow = flow::details_as<NodeFlow>(flow);
    tun_port_->coalescer().flush(&flow);
    if (node_flow->link != nullptr && node_flow->link->session) {
        node_flow->link->session->detach(flow, now);
    }
    if (node_flow->link != nullptr) {
        node_flow->link->committed_bits_per_s -= node_flow->committed_bits_per_s;
    }
    if (journal_) {
        journal_->release(flow.tuple);
    }
    driver_.forget(flow);
    std::erase(waiting_flows_, node_flow);
    flow.details = nullptr;
    delete node_flow;
}

}  // namespace continuo::cnapt::node
