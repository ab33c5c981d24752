// The SNAPT of a flow, which carries it for life.
#include "cnapt/node/node.hpp"

#include <algorithm>

namespace continuo::cnapt::node {

using base::TimePoint;
using flow::Flow;

namespace {

// The part of a SNAPT's limit, as its divisor, by which the node stays below it: flows end at the
// two ends at different times, and word of an end may be lost. A choice.
constexpr size_t kLimitMarginDivisor = 16;

}  // namespace

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
        refuses(node_flow.flow->tuple.local.version)) {
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

// The flows that the hosts of a LAN may have together: the least limit of the SNAPTs that may get a
// new one. A SNAPT takes all hosts for one user and at its limit refuses any of them, so room is
// made here before.
size_t Node::flow_limit(base::IpVersion version) const {
    const auto fitness_for_it = [version](const SnaptLink& link) {
        return link.carries(version) ? fitness(link) : Fitness::None;
    };
    Fitness best = Fitness::None;
    for (const auto& link : links_) {
        best = std::max(best, fitness_for_it(*link));
    }
    size_t limit = flows_.max_flows();
    for (const auto& link : links_) {
        const Fitness fit = fitness_for_it(*link);
        const bool may_get_it =
            fit != Fitness::None && (fit == best || fit == Fitness::WithoutControl);
        const size_t there = link->accept.user_flows;
        if (may_get_it && there != 0) {
            limit = std::min(limit, there - there / kLimitMarginDivisor);
        }
    }
    return limit;
}

bool Node::carries(base::IpVersion version) const {
    return std::any_of(links_.begin(), links_.end(), [&](const auto& link) {
        return fitness(*link) != Fitness::None && link->carries(version);
    });
}

bool Node::refuses(base::IpVersion version) const {
    const bool is_any_up = std::any_of(links_.begin(), links_.end(), [](const auto& link) {
        return fitness(*link) != Fitness::None;
    });
    return is_any_up && !carries(version);
}

Node::Fitness Node::fitness(const SnaptLink& link) {
    if (!link.session || !link.is_up) {
        return Fitness::None;
    }
    if (!link.forwards()) {
        return Fitness::NotForwarding;
    }
    if (!link.is_listed) {
        return Fitness::Unlisted;
    }
    return link.is_control_open ? Fitness::Good : Fitness::WithoutControl;
}

policy::Decision Node::decide(const NodeFlow& node_flow) const {
    const policy::FlowNeeds needs = policy::needs_of(node_flow.classification);
    const base::IpVersion version = node_flow.flow->tuple.local.version;
    const auto fitness_for_it = [version](const SnaptLink& link) {
        return link.carries(version) ? fitness(link) : Fitness::None;
    };
    Fitness best = Fitness::None;
    for (const auto& link : links_) {
        best = std::max(best, fitness_for_it(*link));
    }
    std::vector<policy::SnaptView> views;
    views.reserve(links_.size());
    for (const auto& link : links_) {
        const Fitness fit = fitness_for_it(*link);
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

// Rules of the same name and different modes have different tags: the tag tells SNAPT the mode.
uint16_t Node::app_tag(SnaptLink& link, const classifier::Classification& classification) {
    const base::PathMode mode = classification.mode;
    if (classification.app.empty()) {
        if (link.default_mode != mode) {
            link.default_mode = mode;
            events_.on_new_app(link, 0, {}, mode);
        }
        return 0;
    }
    const std::pair key(mode, std::string(classification.app));
    const auto known = link.app_tags.find(key);
    if (known != link.app_tags.end()) {
        return known->second;
    }
    constexpr size_t kMaxApps = 255;
    if (link.app_tags.size() >= kMaxApps) {
        return 0;
    }
    const auto tag = static_cast<uint16_t>(link.app_tags.size() + 1);
    link.app_tags.emplace(key, tag);
    events_.on_new_app(link, tag, key.second, mode);
    return tag;
}

// SNAPT may not know them: its association is new, or the messages were lost with the connection.
void Node::name_apps(SnaptLink& link) {
    for (const auto& [key, tag] : link.app_tags) {
        events_.on_new_app(link, tag, key.second, key.first);
    }
    if (link.default_mode != base::PathMode::Handover) {
        events_.on_new_app(link, 0, {}, link.default_mode);
    }
}

}  // namespace continuo::cnapt::node
