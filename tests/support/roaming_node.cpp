#include "tests/support/roaming_node.hpp"

#include "cnapt/node/path_choice.hpp"

#include <algorithm>
#include <utility>

namespace continuo::tests {

using base::Endpoint;
using path::PathState;

namespace {

// As in cnapt/node/link_choice.cpp.
constexpr base::Duration kBusyFor = base::seconds(1);
constexpr base::Duration kTick = base::milliseconds(500);

}  // namespace

RoamingNode::RoamingNode(SessionPair& pair) : pair_(pair) {
    pair_.node.session->paths().node().remove(0);
    pair_.node_address = {base::IpAddress::any(base::IpVersion::V4), 0};  // of no path
    for (uint8_t slot = 0; slot < kUplinks; ++slot) {
        const SimLink link;
        pair_.path_links.emplace(slot, SessionPair::PathLinks{LinkModel(link, pair_.random),
                                                              LinkModel(link, pair_.random)});
    }
    pair_.node.when_changed = [this](uint8_t) { choose(); };
    pair_.node.when_silent = [this](uint8_t) { choose(); };
}

void RoamingNode::appear(uint8_t slot, const Endpoint& address, uint32_t metric) {
    uplinks_[slot] = {};
    uplinks_[slot].is_there = true;
    uplinks_[slot].metric = metric;
    uplinks_[slot].address = address.address;
    pair_.path_addresses[slot] = address;
    update();
}

void RoamingNode::vanish(uint8_t slot) {
    uplinks_[slot] = {};
    pair_.path_addresses.erase(slot);
    pair_.node.session->paths().node().remove(slot);
    update();
}

void RoamingNode::readdress(uint8_t slot, const Endpoint& address) {
    const uint32_t metric = uplinks_[slot].metric;
    pair_.node.session->paths().node().remove(slot);
    appear(slot, address, metric);
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
    manager_ = {};
    update();
}

void RoamingNode::on_time() {
    if (choose_at_ <= pair_.now) {
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
    routing::PathSet& paths = pair_.node.session->paths();
    if (active() && paths.path(*active()).state() == PathState::Challenged) {
        paths.node().announce_again(pair_.now);
    }
}

void RoamingNode::add_paths() {
    routing::PathSet& paths = pair_.node.session->paths();
    for (uint8_t slot = 0; slot < kUplinks; ++slot) {
        if (!uplinks_[slot].is_there) {
            continue;
        }
        if (!cnapt::node::is_added(paths.path(slot))) {
            paths.node().add(slot, pair_.snapt_address, uplinks_[slot].mtu, pair_.now);
        }
        if (is_failing(paths.path(slot).state())) {
            hints_.push_back(slot);
        }
    }
}

bool RoamingNode::is_busy() {
    const tunnel::Session& session = *pair_.node.session;
    uint64_t traffic = session.queues().packets();
    for (const base::TrafficClass traffic_class : base::kAllTrafficClasses) {
        const auto& counters = session.queues().counters(traffic_class);
        traffic += counters.packets + counters.queue_drops;
    }
    if (std::exchange(traffic_, traffic) != traffic) {
        busy_at_ = pair_.now;
    }
    return busy_at_ != base::TimePoint{} && pair_.now - busy_at_ < kBusyFor;
}

void RoamingNode::choose() {
    std::vector<policy::UplinkFacts> facts;
    std::vector<policy::PathView> views;
    for (uint8_t slot = 0; slot < kUplinks; ++slot) {
        if (uplinks_[slot].is_there) {
            policy::UplinkFacts each;
            each.slot = slot;
            each.local = uplinks_[slot].address;
            each.network = slot + 1U;
            each.remote = pair_.snapt_address.address;
            each.cost = uplinks_[slot].metric;
            facts.push_back(each);
            views.push_back(cnapt::node::view_of_udp(*pair_.node.session, slot));
        }
    }
    const std::array<uint16_t, 1> ports = {pair_.snapt_address.port};
    const std::vector<uint8_t> hints = std::exchange(hints_, {});
    const policy::PathPlan plan =
        manager_.decide({facts, views, ports, 0, hints, is_busy(), false, ports[0]}, pair_.now);
    routing::PathSet& paths = pair_.node.session->paths();
    if (plan.activate) {
        cnapt::node::move_to(paths, *plan.activate, pair_.now);
    }
    for (const policy::Candidate& candidate : plan.probe) {
        cnapt::node::ask_path(paths, candidate, pair_.now);
    }
    choose_at_ = std::min<base::TimePoint>(plan.next_at, pair_.now + kTick);
}

}  // namespace continuo::tests
