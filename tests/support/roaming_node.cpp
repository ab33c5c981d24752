#include "tests/support/roaming_node.hpp"

#include "cnapt/path_facts.hpp"

#include <algorithm>

namespace continuo::tests {

using base::Endpoint;
using session::PathState;

namespace {

constexpr size_t kLtLd = base::index_of(base::TrafficClass::LtLd);

}  // namespace

RoamingNode::RoamingNode(SessionPair& pair) : pair_(pair) {
    pair_.node.session->paths().remove(0);
    pair_.node_address = {base::IpAddress::any(base::IpVersion::V4), 0};  // of no path
    for (uint8_t slot = 0; slot < kUplinks; ++slot) {
        const SimLink link;
        pair_.path_links.emplace(slot, SessionPair::PathLinks{LinkModel(link, pair_.random),
                                                              LinkModel(link, pair_.random)});
    }
    pair_.node.when_changed = [this](uint8_t path) { on_path_changed(path); };
    pair_.node.when_silent = [this](uint8_t slot) { on_path_silent(slot); };
}

void RoamingNode::appear(uint8_t slot, const Endpoint& address, uint32_t metric) {
    uplinks_[slot] = {};
    uplinks_[slot].is_there = true;
    uplinks_[slot].metric = metric;
    pair_.path_addresses[slot] = address;
    update();
}

void RoamingNode::vanish(uint8_t slot) {
    uplinks_[slot] = {};
    pair_.path_addresses.erase(slot);
    pair_.node.session->paths().remove(slot);
    manager_.forget(slot);
    update();
    lose_stream(slot);
}

void RoamingNode::readdress(uint8_t slot, const Endpoint& address) {
    const uint32_t metric = uplinks_[slot].metric;
    uplinks_[slot] = {};
    uplinks_[slot].is_there = true;
    uplinks_[slot].metric = metric;
    pair_.path_addresses[slot] = address;
    pair_.node.session->paths().remove(slot);
    manager_.forget(slot);
    update();
    lose_stream(slot);
}

void RoamingNode::set_metric(uint8_t slot, uint32_t metric) {
    uplinks_[slot].metric = metric;
    update();
}

void RoamingNode::resize(uint8_t slot, uint16_t mtu) {
    uplinks_[slot].mtu = mtu;
    pair_.node.session->paths().set_mtu(slot, mtu, pair_.now);
    update();
}

void RoamingNode::rebind(uint8_t slot, const Endpoint& address) {
    pair_.path_addresses[slot] = address;
}

void RoamingNode::on_session_began() {
    manager_.begin();
    if (stream_slot_) {
        open_stream();  // the association began over it
    }
    update();
}

void RoamingNode::on_time() {
    if (connects_) {
        follow_stream();
    }
    if (manager_.stream_due() <= pair_.now) {
        consider_stream();
    }
    if (tick_at_ > pair_.now) {
        return;
    }
    tick_at_ = pair_.now + policy::PathManager::kTick;
    policy::PathSteps steps;
    manager_.on_tick(facts(), pair_.now, steps);
    carry_out(steps);
}

void RoamingNode::on_path_changed(uint8_t path) {
    if (path == wire::kTcpPath && !manager_.is_on_stream()) {
        manager_.on_stream_answered(pair_.now);
        consider_stream();
    } else {
        choose();
    }
}

size_t RoamingNode::count() const {
    return static_cast<size_t>(std::count_if(uplinks_.begin(), uplinks_.end(),
                                             [](const Uplink& uplink) { return uplink.is_there; }));
}

void RoamingNode::update() {
    add_paths();
    choose();
    session::PathSet& paths = pair_.node.session->paths();
    const auto active = manager_.active();
    if (active && !manager_.is_on_stream() &&
        paths.path(*active).state() == PathState::Challenged) {
        paths.announce_again(pair_.now);
    }
}

void RoamingNode::add_paths() {
    session::PathSet& paths = pair_.node.session->paths();
    for (uint8_t slot = 0; slot < kUplinks; ++slot) {
        if (!uplinks_[slot].is_there) {
            continue;
        }
        if (!paths.path(slot).tuples()[kLtLd].is_known) {
            paths.add(slot, pair_.snapt_address, uplinks_[slot].mtu, pair_.now);
            if (manager_.is_on_stream() && manager_.active()) {
                paths.path(slot).give_up();
            }
        }
        if (!manager_.is_on_stream()) {
            paths.path(slot).ask_again(pair_.now);
        } else if (manager_.may_ask_udp(way_facts(slot))) {
            paths.path(slot).retry(pair_.snapt_address, pair_.now);
        }
    }
}

policy::WayFacts RoamingNode::way_facts(uint8_t slot) const {
    policy::WayFacts way = cnapt::way_facts(*pair_.node.session, slot);
    way.network = slot;
    way.rank = uplinks_[slot].metric;
    way.has_route = true;
    return way;
}

policy::PathFacts RoamingNode::facts() const {
    const session::Session& session = *pair_.node.session;
    policy::PathFacts facts =
        cnapt::path_facts(session, session.settings().local_id, manager_.active());
    for (uint8_t slot = 0; slot < kUplinks; ++slot) {
        if (uplinks_[slot].is_there) {
            facts.ways.push_back(way_facts(slot));
        }
    }
    facts.stream.is_open = stream_slot_.has_value();
    facts.stream.slot = stream_slot_;
    facts.has_control = facts.stream.is_open;
    return facts;
}

void RoamingNode::carry_out(const policy::PathSteps& steps) {
    for (const policy::PathStep& step : steps) {
        carry_out(step);
    }
}

void RoamingNode::carry_out(const policy::PathStep& step) {
    using Kind = policy::PathStep::Kind;
    session::PathSet& paths = pair_.node.session->paths();
    switch (step.kind) {
    case Kind::Activate:
        paths.activate(step.slot, pair_.now);
        break;
    case Kind::Probe:
        paths.path(step.slot).probe(pair_.now);
        break;
    case Kind::Retry:
        paths.path(step.slot).retry(pair_.snapt_address, pair_.now);
        break;
    case Kind::Bury:
        paths.path(step.slot).bury(pair_.now);
        break;
    case Kind::UseStream:
        use_stream();
        break;
    case Kind::MoveStream:
        reconnect_at(pair_.now, step.slot);
        break;
    case Kind::RenewStream:
        reconnect_at(pair_.now, std::nullopt);
        break;
    case Kind::Moved:
        // Control asks its connection, and makes another where that does not answer.
        if (connects_ && (!stream_slot_ || !carries_stream(*stream_slot_))) {
            reconnect_at(pair_.now, manager_.active());
        }
        break;
    case Kind::NextPort:
    case Kind::Redirect:
    case Kind::Lost:
        break;
    }
}

void RoamingNode::choose() {
    policy::PathSteps steps;
    manager_.choose(facts(), pair_.now, steps);
    carry_out(steps);
}

void RoamingNode::on_path_silent(uint8_t slot) {
    policy::PathSteps steps;
    manager_.on_silent(facts(), slot, pair_.node.session->paths().path(slot).state(), pair_.now,
                       steps);
    carry_out(steps);
}

}  // namespace continuo::tests
