#include "snapt/relay/session_table.hpp"

#include <algorithm>

namespace continuo::snapt::relay {

using base::TimePoint;

std::string_view to_string(SessionEnd end) {
    switch (end) {
    case SessionEnd::Replaced:
        return "replaced";
    case SessionEnd::Left:
        return "left";
    case SessionEnd::Idle:
        return "idle";
    case SessionEnd::NotAllowed:
        return "not_allowed";
    case SessionEnd::ByOperator:
        return "ended_by_operator";
    case SessionEnd::OldHandshake:
        return "old_handshake";
    case SessionEnd::Drained:
        return "drained";
    case SessionEnd::GaveWay:
        return "gave_way";
    case SessionEnd::Stopped:
        return "stopped";
    }
    return {};
}

std::optional<base::Endpoint> remote_of(const tunnel::Session& session) {
    const auto active = session.paths().active();
    if (!active) {
        return std::nullopt;
    }
    const path::Path& path = session.paths().path(*active);
    const path::Tuple& tuple = path.validation().tuple(base::TrafficClass::LtLd);
    return tuple.is_known() ? std::optional(tuple.remote()) : std::nullopt;
}

bool is_same_node(const SessionGrant& one, const SessionGrant& other) {
    return one.user == other.user && one.account_id == other.account_id &&
           one.told_node == other.told_node && one.node_id == other.node_id;
}

NodeSession* SessionTable::find(const base::IpAddress& lease) const {
    const auto found = by_lease_.find(lease);
    return found == by_lease_.end() ? nullptr : found->second;
}

NodeSession& SessionTable::owner_of(const tunnel::Session& session) const {
    NodeSession* node = by_wire_id_[session.settings().local_id];
    CTN_ASSERT(node != nullptr && &node->session == &session);
    return *node;
}

bool SessionTable::may_continue(const SessionGrant& grant) const {
    const NodeSession* node =
        grant.continuation ? by_wire_id_[grant.continuation->wire_session_up] : nullptr;
    return node != nullptr && is_same_node(node->grant, grant) &&
           node->grant.session_id == grant.session_id &&
           node->session.settings().peer_id == grant.peer_id &&
           node->session.epochs().may_grant(grant.continuation->epoch + 1);
}

size_t SessionTable::count(const Condition& counts) const {
    return static_cast<size_t>(std::count_if(sessions_.begin(), sessions_.end(),
                                             [&](const auto& node) { return counts(*node); }));
}

size_t SessionTable::count_of(std::string_view user) const {
    return count([user](const NodeSession& node) { return node.grant.user == user; });
}

const NodeSession* SessionTable::session_of(const SessionGrant& grant) const {
    const auto found = std::find_if(sessions_.begin(), sessions_.end(), [&grant](const auto& node) {
        return is_same_node(node->grant, grant);
    });
    return found == sessions_.end() ? nullptr : found->get();
}

bool SessionTable::is_silent(const NodeSession& node) const {
    return loop_.now() - node.heard_at() > kSilentKeepalives * settings_.keepalive;
}

// A network may end TCP and let UDP pass. Datagrams right after the end of the link may have left
// before the node ended.
bool SessionTable::is_here(const NodeSession& node) const {
    if (node.has_link) {
        const bool was_asked = node.asked_at > node.heard_at();
        return !(was_asked && loop_.now() - node.asked_at > settings_.sign_of_life_wait);
    }
    const TimePoint heard_at = node.session.heard_at();
    const bool is_heard = heard_at > node.link_lost_at + settings_.sign_of_life_wait / 5;
    return loop_.now() - node.link_lost_at < settings_.sign_of_life_wait ||
           (is_heard && !is_silent(node));
}

bool SessionTable::wants_sign_of_life(uint16_t wire_id) {
    NodeSession* node = by_wire_id_[wire_id];
    if (node == nullptr || !is_silent(*node) || node->asked_at > node->heard_at()) {
        return false;
    }
    node->asked_at = loop_.now();
    return true;
}

bool SessionTable::is_full(std::string_view user) const {
    return sessions_.size() >= settings_.max_sessions || is_at_limit(user);
}

const NodeSession* SessionTable::most_silent(const Condition& may_give_way) const {
    const NodeSession* silent = nullptr;
    for (const auto& node : sessions_) {
        if (may_give_way(*node) && (silent == nullptr || node->heard_at() < silent->heard_at())) {
            silent = node.get();
        }
    }
    return silent;
}

// Killed nodes, or nodes that lost their state, must not keep their user out. No session is
// displaced where that makes no room, as after a limit was lowered.
const NodeSession* SessionTable::to_give_way(std::string_view user) const {
    const auto is_own = [&](const NodeSession& node) {
        return node.grant.user == user && !is_here(node);
    };
    const auto is_anybodys = [&](const NodeSession& node) {
        return !is_here(node) && is_silent(node);
    };
    if (is_at_limit(user) && count_of(user) < settings_.max_user_sessions + count(is_own)) {
        return most_silent(is_own);
    }
    const size_t most = settings_.max_sessions;
    const bool helps = sessions_.size() >= most && sessions_.size() < most + count(is_anybodys);
    return helps ? most_silent(is_anybodys) : nullptr;
}

NodeSession& SessionTable::add(std::unique_ptr<NodeSession> node) {
    NodeSession& added = *node;
    added.number = ++begun_;
    by_wire_id_[added.wire_id] = &added;
    for (const auto& lease : {added.grant.lease_ipv4, added.grant.lease_ipv6}) {
        if (lease) {
            by_lease_[*lease] = &added;
        }
    }
    sessions_.push_back(std::move(node));
    return added;
}

std::unique_ptr<NodeSession> SessionTable::remove(const NodeSession& node) {
    by_wire_id_[node.wire_id] = nullptr;
    std::erase_if(by_lease_, [&](const auto& entry) { return entry.second == &node; });
    const auto place = std::find_if(sessions_.begin(), sessions_.end(),
                                    [&](const auto& other) { return other.get() == &node; });
    std::unique_ptr<NodeSession> removed = std::move(*place);
    sessions_.erase(place);
    return removed;
}

}  // namespace continuo::snapt::relay
