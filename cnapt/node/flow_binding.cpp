// The SNAPT of a flow, which carries it for life.
#include "cnapt/node/node.hpp"

#include <algorithm>

namespace continuo::cnapt::node {

using base::TimePoint;
using flow::Flow;

std::optional<size_t> Node::former_snapt(const packet::FiveTuple& flow) const {
    for (size_t i = 0; journal_ && i < links_.size(); ++i) {
        if (journal_->is_bound_to(flow, links_[i]->name)) {
            return i;
        }
    }
    return std::nullopt;
}

// A flow keeps its SNAPT for life, even over a restart of this process.
void Node::bind(NodeFlow& node_flow, TimePoint now) {
    policy::Decision decision = decide(node_flow);
    if (const auto former = former_snapt(node_flow.flow->tuple)) {
        if (!links_[*former]->session) {
            return;  // waits for it as for any
        }
        decision.verdict = policy::Verdict::Serve;
        decision.snapt = former;
        decision.traffic_class = node_flow.classification.traffic_class;
    }
    if (decision.verdict == policy::Verdict::NoSnapt &&
        refuses(links_, node_flow.flow->tuple.local.version)) {
        refuse(node_flow, "no SNAPT carries this IP version", now);
        return;
    }
    if (decision.verdict == policy::Verdict::NoSnapt || !decision.snapt) {
        return;  // forward drops until there is one; a retransmission asks again
    }
    if (decision.verdict == policy::Verdict::Refuse) {
        refuse(node_flow, std::string(decision.reason), now);
        return;
    }
    SnaptLink& link = *links_[*decision.snapt];
    Flow& flow = *node_flow.flow;
    node_flow.link = &link;
    node_flow.committed_bits_per_s = decision.committed_bits_per_s;
    link.committed_bits_per_s += decision.committed_bits_per_s;
    if (flow.traffic_class != decision.traffic_class) {
        flows_.reclassify(flow, decision.traffic_class, now);
    }
    flow.app = app_tag(link, node_flow.classification);
    link.session->set_mode(flow, node_flow.classification.mode);
    link.session->attach(flow);
    if (journal_) {
        journal_->bind(flow.tuple, link.name);
    }
}

policy::Decision Node::decide(const NodeFlow& node_flow) const {
    const policy::FlowNeeds needs = policy::needs_of(node_flow.classification);
    const base::IpVersion version = node_flow.flow->tuple.local.version;
    const Fitness best = best_fitness(links_, version);
    std::vector<policy::SnaptView> views;
    views.reserve(links_.size());
    for (const auto& link : links_) {
        const Fitness fit = link->fitness(version);
        const bool is_preferred = std::find(needs.preferred.begin(), needs.preferred.end(),
                                            link->name) != needs.preferred.end();
        policy::SnaptView view;
        view.name = link->name;
        view.committed_bits_per_s = link->committed_bits_per_s;
        view.load = link->load;
        view.price = link->price;
        view.is_alive = fit != Fitness::None &&
                        (fit == best || (is_preferred && fit == Fitness::WithoutControl));
        if (link->session && link->active_slot()) {
            const auto rtt = link->session->paths().path(*link->active_slot()).smoothed_rtt();
            if (rtt != base::Duration{}) {
                view.one_way_delay = rtt / 2;
            }
        }
        views.push_back(view);
    }
    return policy::choose_snapt(views, needs, node_flow.ruleset->admission().when_unmet);
}

uint16_t Node::app_tag(SnaptLink& link, const classifier::Classification& classification) {
    return link.app_tags.tag_of(classification.app, classification.mode, teller(link));
}

AppTags::Tell Node::teller(SnaptLink& link) {
    return [this, &link](uint16_t tag, const std::string& name, base::PathMode mode) {
        events_.on_new_app(link, tag, name, mode);
    };
}

}  // namespace continuo::cnapt::node
