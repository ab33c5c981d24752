#include "tests/support/roaming_node.hpp"

#include <algorithm>

namespace continuo::tests {

using base::Endpoint;
using session::PathState;

namespace {

// As in cnapt/node/node_paths.cpp.
constexpr base::Duration kProofLifetime = base::seconds(2);
constexpr base::Duration kFirstBar = base::seconds(1);
constexpr base::Duration kLongestBar = base::seconds(60);
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
    pair_.node.when_changed = [this](uint8_t) { choose(); };
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
    if (active_ == slot) {
        active_.reset();
    }
    update();
}

void RoamingNode::readdress(uint8_t slot, const Endpoint& address) {
    const uint32_t metric = uplinks_[slot].metric;
    uplinks_[slot] = {};
    uplinks_[slot].is_there = true;
    uplinks_[slot].metric = metric;
    pair_.path_addresses[slot] = address;
    pair_.node.session->paths().remove(slot);
    if (active_ == slot) {
        active_.reset();
    }
    update();
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
    active_.reset();
    update();
}

void RoamingNode::on_time() {
    if (bar_ends_at_ > pair_.now) {
        return;
    }
    bar_ends_at_ = base::kNever;
    for (const Uplink& uplink : uplinks_) {
        if (uplink.barred_until > pair_.now) {
            bar_ends_at_ = std::min(bar_ends_at_, uplink.barred_until);
        }
    }
    choose();
}

size_t RoamingNode::count() const {
    return static_cast<size_t>(std::count_if(uplinks_.begin(), uplinks_.end(),
                                             [](const Uplink& uplink) { return uplink.is_there; }));
}

void RoamingNode::update() {
    add_paths();
    choose();
    session::PathSet& paths = pair_.node.session->paths();
    if (active_ && paths.path(*active_).state == PathState::Challenged) {
        paths.announce_again(pair_.now);
    }
}

void RoamingNode::add_paths() {
    session::PathSet& paths = pair_.node.session->paths();
    for (uint8_t slot = 0; slot < kUplinks; ++slot) {
        if (!uplinks_[slot].is_there) {
            continue;
        }
        if (!paths.path(slot).tuples[kLtLd].is_known) {
            paths.add(slot, pair_.snapt_address, uplinks_[slot].mtu, pair_.now);
        }
        paths.ask_again(slot, pair_.now);
    }
}

template <typename Predicate>
std::optional<uint8_t> RoamingNode::best_without(const Predicate& is_left_out) const {
    std::optional<uint8_t> best;
    for (uint8_t slot = 0; slot < kUplinks; ++slot) {
        const Uplink& uplink = uplinks_[slot];
        if (uplink.is_there && !is_left_out(slot, pair_.node.session->paths().path(slot)) &&
            (!best || uplink.metric < uplinks_[*best].metric)) {
            best = slot;
        }
    }
    return best;
}

// Node::choose_uplink.
void RoamingNode::choose() {
    using session::Path;
    session::PathSet& paths = pair_.node.session->paths();
    const auto is_failing = [](uint8_t, const Path& path) { return path.is_failing(); };
    const auto is_unproven = [&](uint8_t slot, const Path& path) {
        return active_ != slot &&
               (path.state != PathState::Usable || pair_.now - path.heard_at > kProofLifetime);
    };
    auto best = best_without([&](uint8_t slot, const Path& path) {
        return path.is_failing() || uplinks_[slot].barred_until > pair_.now;
    });
    if (!best) {
        best = best_without(is_failing);
    }
    const bool may_carry = active_ && paths.path(*active_).state != PathState::Dead;
    if (may_carry && best && is_unproven(*best, paths.path(*best))) {
        paths.probe(*best, pair_.now);
        best = best_without([&](uint8_t slot, const Path& path) {
            return path.is_failing() || is_unproven(slot, path);
        });
    }
    if (!best && !active_) {
        best = best_without([](uint8_t, const Path&) { return false; });
    }
    if (best && active_ != best) {
        activate(*best);
    }
}

void RoamingNode::activate(uint8_t slot) {
    if (active_) {
        bar_if_failing(*active_);
    }
    active_ = slot;
    pair_.node.session->paths().activate(slot, pair_.now);
}

void RoamingNode::bar_if_failing(uint8_t slot) {
    if (!pair_.node.session->paths().path(slot).is_failing()) {
        return;
    }
    Uplink& uplink = uplinks_[slot];
    const bool is_again =
        uplink.bar != base::Duration{} && pair_.now - uplink.barred_until < kLongestBar;
    uplink.bar = is_again ? std::min<base::Duration>(uplink.bar * 2, kLongestBar) : kFirstBar;
    uplink.barred_until = pair_.now + uplink.bar;
    bar_ends_at_ = std::min(bar_ends_at_, uplink.barred_until);
}

void RoamingNode::on_path_silent(uint8_t slot) {
    if (pair_.node.session->paths().active() != slot) {
        return;
    }
    if (pair_.node.session->paths().path(slot).state == PathState::Doubtful) {
        probe_others(slot);
    } else {
        choose();
    }
}

void RoamingNode::probe_others(uint8_t slot) {
    for (uint8_t other = 0; other < kUplinks; ++other) {
        if (other != slot && uplinks_[other].is_there) {
            pair_.node.session->paths().probe(other, pair_.now);
        }
    }
}

}  // namespace continuo::tests
