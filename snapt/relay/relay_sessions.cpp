// Sessions of the relay: start, new keys and end.
#include "common/dataplane/epoch_install.hpp"
#include "snapt/relay/relay.hpp"

#include <algorithm>
#include <ctime>
#include <utility>

namespace continuo::snapt::relay {

using base::Errc;
using base::Error;
using base::TimePoint;
using flow::Flow;

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
    return "stopped";
}

std::optional<base::Endpoint> remote_of(const session::Session& session) {
    const auto active = session.paths().active();
    if (!active) {
        return std::nullopt;
    }
    const session::Path& path = session.paths().path(*active);
    const session::Tuple& tuple = path.tuples()[base::index_of(base::TrafficClass::LtLd)];
    return tuple.is_known() ? std::optional(tuple.remote()) : std::nullopt;
}

NodeSession& Relay::owner_of(session::Session& session) const {
    NodeSession* node = by_wire_id_[session.settings().local_id];
    CTN_ASSERT(node != nullptr && &node->session == &session);
    return *node;
}

bool Relay::may_continue(const SessionGrant& grant) const {
    const NodeSession* node =
        grant.continuation ? by_wire_id_[grant.continuation->wire_session_up] : nullptr;
    return node != nullptr && is_same_node(node->grant, grant) &&
           node->grant.session_id == grant.session_id &&
           node->session.settings().peer_id == grant.peer_id &&
           node->session.may_grant(grant.continuation->epoch + 1);
}

bool is_same_node(const SessionGrant& one, const SessionGrant& other) {
    return one.user == other.user && one.account_id == other.account_id &&
           one.told_node == other.told_node && one.node_id == other.node_id;
}

size_t Relay::sessions_of(std::string_view user) const {
    return static_cast<size_t>(
        std::count_if(sessions_.begin(), sessions_.end(),
                      [user](const auto& node) { return node->grant.user == user; }));
}

const NodeSession* Relay::session_of(const SessionGrant& grant) const {
    const auto found = std::find_if(sessions_.begin(), sessions_.end(), [&grant](const auto& node) {
        return is_same_node(node->grant, grant);
    });
    return found == sessions_.end() ? nullptr : found->get();
}

bool Relay::is_silent(const NodeSession& node) const {
    return loop_.now() - node.heard_at() > kSilentKeepalives * settings_.keepalive;
}

// A network may end TCP and let UDP pass. Datagrams right after the end of the link may have left
// before the node ended.
bool Relay::is_here(const NodeSession& node) const {
    if (node.has_link) {
        const bool was_asked = node.asked_at > node.heard_at();
        return !(was_asked && loop_.now() - node.asked_at > settings_.sign_of_life_wait);
    }
    const TimePoint heard_at = node.session.heard_at();
    const bool is_heard = heard_at > node.link_lost_at + settings_.sign_of_life_wait / 5;
    return loop_.now() - node.link_lost_at < settings_.sign_of_life_wait ||
           (is_heard && !is_silent(node));
}

bool Relay::wants_sign_of_life(uint16_t wire_id) {
    NodeSession* node = by_wire_id_[wire_id];
    if (node == nullptr || !is_silent(*node) || node->asked_at > node->heard_at()) {
        return false;
    }
    node->asked_at = loop_.now();
    return true;
}

void Relay::close_silent(const std::function<bool(const NodeSession&)>& may_give_way) {
    const NodeSession* silent = nullptr;
    for (const auto& node : sessions_) {
        if (may_give_way(*node) && (silent == nullptr || node->heard_at() < silent->heard_at())) {
            silent = node.get();
        }
    }
    if (silent != nullptr) {
        close(silent->wire_id, SessionEnd::GaveWay);
    }
}

// Killed nodes, or nodes that lost their state, must not keep their user out. No session is
// displaced where that makes no room, as after a limit was lowered.
void Relay::make_place(std::string_view user) {
    const auto is_own = [&](const NodeSession& node) {
        return node.grant.user == user && !is_here(node);
    };
    const auto is_anybodys = [&](const NodeSession& node) {
        return !is_here(node) && is_silent(node);
    };
    const auto count = [&](const auto& may_give_way) {
        return static_cast<size_t>(std::count_if(sessions_.begin(), sessions_.end(),
                                                 [&](auto& node) { return may_give_way(*node); }));
    };
    const size_t absent = count(is_own);
    const size_t limit = settings_.max_user_sessions;
    if (limit != 0 && sessions_of(user) < limit + absent) {
        while (is_at_limit(user)) {
            close_silent(is_own);
        }
    }
    if (sessions_.size() < settings_.max_sessions + count(is_anybodys)) {
        while (sessions_.size() >= settings_.max_sessions) {
            close_silent(is_anybodys);
        }
    }
}

base::Result<Reservation> Relay::reserve(const SessionGrant& grant) {
    if (may_continue(grant)) {
        NodeSession* node = by_wire_id_[grant.continuation->wire_session_up];
        node->grant.protection = grant.protection;
        node->grant.key_id = grant.key_id;
        node->handshake_at = loop_.now();
        return Reservation{node->wire_id, grant.continuation->epoch + 1, true};
    }
    // The node has restarted: its previous session is over.
    std::optional<control::SessionId> replaced;
    for (size_t i = sessions_.size(); i-- > 0;) {
        if (sessions_[i]->grant.user == grant.user && sessions_[i]->grant.node == grant.node) {
            const control::SessionId& former = sessions_[i]->grant.session_id;
            replaced = former == grant.session_id ? sessions_[i]->replaced : former;
            close(sessions_[i]->wire_id, SessionEnd::Replaced);
        }
    }
    make_place(grant.user);
    if (sessions_.size() >= settings_.max_sessions || is_at_limit(grant.user)) {
        return Error{Errc::LimitReached, "sessions"};
    }
    UserShare& share = shares_.try_emplace(grant.user).first->second;
    share.tracked = &tracked_.try_emplace(grant.user).first->second;
    take_meter(share, grant);
    uint16_t wire_id = 0;
    do {
        wire_id = static_cast<uint16_t>(random_.u64());
    } while (wire_id == 0 || by_wire_id_[wire_id] != nullptr);
    session::SessionSettings settings;
    settings.role = session::Role::Snapt;
    settings.local_id = wire_id;
    settings.peer_id = grant.peer_id;
    settings.node_ipv4 = grant.lease_ipv4.value_or(base::IpAddress::any(base::IpVersion::V4));
    settings.node_ipv6 = grant.lease_ipv6.value_or(base::IpAddress::any(base::IpVersion::V6));
    settings.classes = class_settings_of(share);
    settings.rate = &share.down_rate;
    settings.memory = &engine_.kept_memory();
    settings.rekey_datagrams = settings_.rekey_datagrams;
    settings.is_readable = grant.protection.kind == control::ProtectionKind::HmacSha256;
    auto node = std::make_unique<NodeSession>(settings, *this, engine_.scratch(), random_);
    node->grant = grant;
    node->grant.meter.reset();
    node->replaced = replaced;
    node->wire_id = wire_id;
    node->number = ++begun_sessions_;
    node->since = loop_.now();
    node->handshake_at = node->since;
    node->since_utc_s = std::time(nullptr);
    node->share = &share;
    ++node->share->sessions;
    by_wire_id_[wire_id] = node.get();
    for (const auto& lease : {grant.lease_ipv4, grant.lease_ipv6}) {
        if (lease) {
            by_lease_[*lease] = node.get();
        }
    }
    engine_.add(node->session);
    sessions_.push_back(std::move(node));
    return Reservation{wire_id, 1, false};
}

base::Result<void> Relay::install(uint16_t wire_id, const control::EpochKeys& keys) {
    NodeSession* node = by_wire_id_[wire_id];
    if (node == nullptr) {
        return Error{Errc::NotFound, "session"};
    }
    auto install =
        CTN_TRY(dataplane::make_install(session::Role::Snapt, node->grant.protection, keys,
                                        {settings_.recording.keys, wire_id, node->grant.peer_id}));
    node->session.install_epoch(std::move(install), loop_.now());
    engine_.touch(node->session);
    engine_.pump();
    return {};
}

void Relay::close(uint16_t wire_id, SessionEnd why) {
    NodeSession* node = by_wire_id_[wire_id];
    if (node == nullptr) {
        return;
    }
    node->end = why;
    const bool is_by_operator = why == SessionEnd::ByOperator || why == SessionEnd::Drained;
    const TimePoint now = loop_.now();
    engine_.flush();
    flows_.for_each([&](Flow& flow) {
        if (flow.details == node) {
            note_ended(flow, now);
            end_flow(flow, now);
            flows_.erase(flow, is_by_operator ? flow::Cause::Admin : flow::Cause::SessionEnd);
        }
    });
    if (why == SessionEnd::NotAllowed || is_by_operator) {
        tell_ended(*node);
    }
    count_tunnel(*node, true);
    engine_.end(node->session);
    forget_input(*node);
    by_wire_id_[wire_id] = nullptr;
    std::erase_if(by_lease_, [&](const auto& entry) { return entry.second == node; });
    const auto place = std::find_if(sessions_.begin(), sessions_.end(),
                                    [&](const auto& s) { return s.get() == node; });
    const std::unique_ptr<NodeSession> ended = std::move(*place);
    sessions_.erase(place);
    if (--ended->share->sessions == 0) {
        drop_idle_shares();
    }
    events_.on_session_closed(*ended);
}

void Relay::set_modes(uint16_t wire_id, std::span<const control::AppMode> modes) {
    constexpr size_t kMaxModes = 1024;
    NodeSession* node = by_wire_id_[wire_id];
    if (node == nullptr) {
        return;
    }
    for (const control::AppMode& entry : modes) {
        const bool has_room = node->modes.size() < kMaxModes || node->modes.contains(entry.tag);
        const bool is_possible = entry.tag <= UINT16_MAX;  // in a flow
        if (has_room && is_possible && node->mode_of(entry.tag) != entry.mode) {
            node->modes[entry.tag] = entry.mode;
            node->has_new_modes = true;
        }
    }
    if (!node->has_new_modes) {
        return;
    }
    if (const TimePoint next = modes_applied_at_ + kModesInterval; loop_.now() < next) {
        modes_timer_.set(next);
    } else {
        apply_modes();
    }
}

void Relay::apply_modes() {
    modes_applied_at_ = loop_.now();
    flows_.for_each([](Flow& flow) {
        auto* node = flow::details_as<NodeSession>(flow);
        if (node->has_new_modes) {
            node->session.set_mode(flow, node->mode_of(flow.app));
        }
    });
    for (const auto& node : sessions_) {
        if (std::exchange(node->has_new_modes, false)) {
            engine_.touch(node->session);
        }
    }
    engine_.pump();
}

void Relay::set_classes(const dataplane::ClassTable& table) {
    settings_.classes = table.settings;
    settings_.tos = table.tos;
    for (const auto& node : sessions_) {
        node->session.set_class_settings(class_settings_of(*node->share));
    }
}

void Relay::set_limits(size_t sessions, size_t user_sessions, size_t user_flows) {
    settings_.max_sessions = sessions;
    settings_.max_user_sessions = user_sessions;
    settings_.max_user_flows = user_flows;
}

void Relay::open_stream(uint16_t wire_id, dataplane::StreamPort port) {
    if (NodeSession* node = by_wire_id_[wire_id]) {
        node->stream = std::move(port);
        node->has_link = true;
        on_stream_room(wire_id);
    }
}

void Relay::close_stream(uint16_t wire_id) {
    if (NodeSession* node = by_wire_id_[wire_id]) {
        node->stream = {};
        node->has_link = false;
        node->link_lost_at = loop_.now();
        node->lane.stream.reset();
        node->session.paths().path(wire::kTcpPath).set_room(0);  // the node returns in some way
    }
}

void Relay::on_stream_room(uint16_t wire_id) {
    NodeSession* node = by_wire_id_[wire_id];
    if (node != nullptr && node->stream) {
        node->session.paths().path(wire::kTcpPath).set_room(node->stream.queue->room_bytes());
        engine_.touch(node->session);
        engine_.pump();
    }
}

bool Relay::send_stream(const session::TransmitItem& item, base::ByteView bytes) {
    return engine_.send_stream(owner_of(*item.session).stream, item, bytes, stream_port());
}

uint16_t Relay::stream_port() const {
    return settings_.listen.empty() ? uint16_t{0} : settings_.listen.front().port;
}

// In one pass: there may be many sessions.
void Relay::look_at_rates(TimePoint now) {
    uint64_t up_bytes = engine_.ended().received.inner_bytes;
    uint64_t down_bytes = dataplane::sent_figures(engine_.ended().classes).inner_bytes;
    for (const auto& node : sessions_) {
        const uint64_t up = node->session.counters().inner_bytes_received;
        const uint64_t down = dataplane::inner_bytes_sent(node->session);
        node->rates.look(up, down, now);
        for (const base::TrafficClass traffic_class : base::kAllTrafficClasses) {
            const size_t index = base::index_of(traffic_class);
            node->class_rates[index].look(node->up_class_bytes[index],
                                          node->session.class_counters(traffic_class).inner_bytes,
                                          now);
        }
        count_tunnel(*node, false);
        up_bytes += up;
        down_bytes += down;
    }
    rates_.look(up_bytes, down_bytes, now);
}

// Whole steps, or with `is_last` everything; its slots are then released.
void Relay::count_tunnel(NodeSession& node, bool is_last) {
    for (const base::TrafficClass traffic_class : base::kAllTrafficClasses) {
        const size_t index = base::index_of(traffic_class);
        const auto& now = node.session.counters().overhead[index];
        auto& [slot, counted] = node.tunnel[index];
        // Counted bytes may later turn out to belong to a packet.
        const uint64_t up = now.received - std::min(now.received, counted.received);
        const uint64_t down = now.sent - std::min(now.sent, counted.sent);
        if (up + down >= (is_last ? 1 : kOverheadStep)) {
            if (slot == nullptr) {
                flow::SlotRequest request;
                request.session_number = node.grant.accounting_number;
                request.flow_id = flow::kTunnelFlowIdBase +
                                  uint64_t{request.session_number} * base::kTrafficClasses + index;
                request.traffic_class = traffic_class;
                request.opened_at_us = flows_.utc_us(loop_.now());
                slot = slots_.take_for_tunnel(request);
            }
            if (slot != nullptr) {
                flow::add(slot->counters.tunnel_up, up);
                flow::add(slot->counters.tunnel_down, down);
                slot->last_at_us.store(flows_.utc_us(loop_.now()), std::memory_order_relaxed);
                counted.received += up;
                counted.sent += down;
            }
        }
        if (is_last && slot != nullptr) {
            slots_.release_of_tunnel(std::exchange(slot, nullptr), flow::Cause::SessionEnd);
        }
    }
}

base::DropCounters Relay::all_drops() const {
    base::DropCounters sum = engine_.all_drops();
    for (const auto& node : sessions_) {
        sum.add(base::DropReason::InputFull, node->dropped_inputs());
    }
    sum.add(base::DropReason::StrangersFull, strangers_.queue.dropped());
    return sum;
}

}  // namespace continuo::snapt::relay
