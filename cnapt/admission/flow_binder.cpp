#include "cnapt/admission/flow_binder.hpp"

#include <algorithm>

namespace continuo::cnapt::admission {

using base::TimePoint;
using flow::Flow;

base::Result<void> FlowBinder::open_journal(const std::string& path, base::Random& random) {
    journal_ = CTN_TRY(BindingJournal::open(path, flows_.max_flows(), random));
    return {};
}

links::SnaptLink* FlowBinder::former(const packet::FiveTuple& flow) const {
    const auto link = std::find_if(links_.begin(), links_.end(),
                                   [&](const auto& one) { return was_bound_to(flow, *one); });
    return link == links_.end() ? nullptr : link->get();
}

std::optional<std::string> FlowBinder::bind(NodeFlow& node_flow, TimePoint now) {
    Flow& flow = *node_flow.flow;
    policy::Decision decision = decide(node_flow);
    links::SnaptLink* link = former(flow.tuple);
    if (link != nullptr) {
        if (!link->session) {
            return std::nullopt;  // waits for it as for any
        }
        decision.traffic_class = node_flow.classification.traffic_class;
    } else if (decision.verdict == policy::Verdict::NoSnapt &&
               refuses(links_, flow.tuple.local.version)) {
        return "no SNAPT carries this IP version";
    } else if (decision.verdict == policy::Verdict::Refuse) {
        return std::string(decision.reason);
    } else if (!decision.snapt) {
        return std::nullopt;
    } else {
        link = links_[*decision.snapt].get();
    }
    node_flow.link = link;
    node_flow.committed_bits_per_s = decision.committed_bits_per_s;
    link->committed_bits_per_s += decision.committed_bits_per_s;
    if (flow.traffic_class != decision.traffic_class) {
        flows_.reclassify(flow, decision.traffic_class, now);
    }
    retag(node_flow);
    link->session->attach(flow);
    if (journal_) {
        journal_->bind(flow.tuple, link->name);
    }
    return std::nullopt;
}

void FlowBinder::retag(NodeFlow& node_flow) {
    links::SnaptLink& link = *node_flow.link;
    const classifier::Classification& told = node_flow.classification;
    node_flow.flow->app = link.app_tags.tag_of(told.app, told.mode, teller(link));
    link.session->set_mode(*node_flow.flow, told.mode);
}

void FlowBinder::release(NodeFlow& node_flow, TimePoint now) {
    if (node_flow.link != nullptr) {
        if (node_flow.link->session) {
            node_flow.link->session->detach(*node_flow.flow, now);
        }
        node_flow.link->committed_bits_per_s -= node_flow.committed_bits_per_s;
    }
    forget(node_flow.flow->tuple);
}

void FlowBinder::forget(const packet::FiveTuple& flow) {
    if (journal_) {
        journal_->release(flow);
    }
}

policy::Decision FlowBinder::decide(const NodeFlow& node_flow) const {
    const policy::FlowNeeds needs = policy::needs_of(node_flow.classification);
    const base::IpVersion version = node_flow.flow->tuple.local.version;
    const links::Fitness best = links::best_fitness(links_, version);
    std::vector<policy::SnaptView> views;
    views.reserve(links_.size());
    for (const auto& link : links_) {
        const links::Fitness fit = link->fitness(version);
        const bool is_preferred = std::find(needs.preferred.begin(), needs.preferred.end(),
                                            link->name) != needs.preferred.end();
        policy::SnaptView view;
        view.name = link->name;
        view.committed_bits_per_s = link->committed_bits_per_s;
        view.load = link->load;
        view.price = link->price;
        view.is_alive = fit != links::Fitness::None &&
                        (fit == best || (is_preferred && fit == links::Fitness::WithoutControl));
        if (link->session && link->active_slot()) {
            const uint8_t path = link->is_on_stream() ? wire::kTcpPath : *link->active_slot();
            const auto rtt = link->session->paths().path(path).feedback().smoothed_rtt();
            if (rtt != base::Duration{}) {
                view.one_way_delay = rtt / 2;
            }
        }
        views.push_back(view);
    }
    return policy::choose_snapt(views, needs, node_flow.ruleset->admission().when_unmet);
}

links::AppTags::Tell FlowBinder::teller(links::SnaptLink& link) const {
    return [this, &link](uint16_t tag, const std::string& name, base::PathMode mode) {
        on_new_app_(link, tag, name, mode);
    };
}

}  // namespace continuo::cnapt::admission
