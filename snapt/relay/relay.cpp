#include "snapt/relay/relay.hpp"

#include "common/dataplane/epoch_install.hpp"
#include "common/dataplane/flow_tracking.hpp"

#include <algorithm>
#include <ctime>
#include <utility>

namespace continuo::snapt::relay {

using base::Errc;
using base::Error;
using base::TimePoint;
using flow::Flow;

namespace {

constexpr base::Duration kHousekeepingInterval = base::milliseconds(500);
// Packets that justify a pass over all sessions; after a smaller batch there is none for a while.
constexpr size_t kWorthAPass = 8;
constexpr base::Duration kNextPassAfter = base::milliseconds(5);

void on_written(const packet::FrameInfo& info, bool written) {
    if (const Flow* flow = dataplane::count_written(info, written, flow::Direction::Up)) {
        auto* node = flow::details_as<NodeSession>(*flow);
        node->up_bytes += info.inner_bytes;
        node->up_class_bytes[base::index_of(flow->traffic_class)] += info.inner_bytes;
    }
}

}  // namespace

Relay::Relay(io::EventLoop& loop,
             const RelaySettings& settings,
             flow::SlotSource& slots,
             base::Random& random,
             RelayEvents& events)
    : loop_(loop)
    , settings_(settings)
    , random_(random)
    , events_(events)
    , engine_(loop,
              listeners_,
              drops_,
              {kSmallPackets, kLargePackets, settings.max_kept_bytes, settings.recording.packets},
              &inputs_)
    , sessions_(loop, settings_)
    , flows_(settings_,
             engine_,
             sessions_,
             slots,
             random,
             events,
             drops_,
             [this](const NodeSession& node) { on_peer_closed(node); })
    , listeners_(loop, settings_, sessions_, engine_)
    , turns_(loop, settings_, engine_, inputs_, sessions_, listeners_, flows_.table(), drops_)
    , housekeeping_(loop, [this] { on_housekeeping(); })
    , modes_timer_(loop, [this] { apply_modes(); }) {
    engine_.driver().set_clock(settings_.clock);
}

Relay::~Relay() {
    while (!sessions().empty()) {
        close(sessions().back()->wire_id);
    }
}

base::Result<void> Relay::start(std::string& failure) {
    failure = "cannot open TUN device " + settings_.device;
    host::TunOptions options;
    options.persistent = true;
    options.mtu = settings_.inner_mtu;
    CTN_TRY(engine_.open_tun(settings_.device, options, on_written, [this] { on_tun_readable(); }));
    engine_.tun().set_make_room([this](bool is_large) { return make_room(is_large); });
    engine_.tun().set_hold_back([this](base::ByteView frame, const packet::FrameInfo& info) {
        return turns_.holds_back(frame, info);
    });
    CTN_TRY(listeners_.open([this](Listener& listener) { turns_.on_readable(listener); }, failure));
    engine_.watch_tun();
    housekeeping_.set(loop_.now() + kHousekeepingInterval);
    failure.clear();
    return {};
}

void Relay::on_tun_readable() {
    const TimePoint now = loop_.now();
    const bool is_sole = flows_.has_sole_receiver(now);
    const TimePoint until = settings_.clock() + (is_sole ? kRound : kSharedRound);
    const auto has_time = [&] { return settings_.clock() < until; };
    // While others send, each packet seems to follow a pause, and would be read alone.
    const bool is_stream = !is_sole || !turns_.is_idle();
    loop_.note_moved(engine_.tun().read_burst(
        now, is_stream, is_sole ? dataplane::kTunBurst : kTunPackets,
        [&](packet::PacketPtr packet) { flows_.on_tun_packet(std::move(packet), now); },
        [&] {
            engine_.pump(now);
            return has_time();
        },
        has_time));
    engine_.pump(now);
}

// Packets for a node that takes nothing must not block those of others.
bool Relay::make_room(bool is_large) {
    if (loop_.now() < no_room_until_) {
        return false;
    }
    tunnel::Session* fattest = nullptr;
    uint64_t most = 0;
    for (const auto& node : sessions()) {
        const uint64_t held =
            is_large ? node->session.queues().bytes() : node->session.queues().packets();
        if (held > most) {
            most = held;
            fattest = &node->session;
        }
    }
    const size_t dropped = fattest != nullptr ? fattest->shed(is_large) : 0;
    if (dropped < kWorthAPass) {
        no_room_until_ = loop_.now() + kNextPassAfter;
    }
    return dropped > 0;
}

// The session ends after its call returns. By then it may have ended otherwise, and another may
// have its id.
void Relay::on_peer_closed(const NodeSession& node) {
    loop_.post([this, wire_id = node.wire_id, number = node.number] {
        const NodeSession* const now = sessions_.find(wire_id);
        if (now != nullptr && now->number == number) {
            close(wire_id, SessionEnd::Left);
        }
    });
}

void Relay::on_housekeeping() {
    const TimePoint now = loop_.now();
    housekeeping_.set(now + kHousekeepingInterval);
    flows_.on_housekeeping(now);
    for (size_t i = sessions().size(); i-- > 0;) {
        NodeSession& node = *sessions()[i];
        node.session.unheard().look(now);
        if (now - node.heard_at() > settings_.idle_timeout) {
            close(node.wire_id, SessionEnd::Idle);
        }
    }
}

base::Result<Reservation> Relay::reserve(const SessionGrant& grant) {
    if (sessions_.may_continue(grant)) {
        NodeSession* node = sessions_.find(grant.continuation->wire_session_up);
        node->grant.protection = grant.protection;
        node->grant.key_id = grant.key_id;
        node->handshake_at = loop_.now();
        return Reservation{node->wire_id, grant.continuation->epoch + 1, true};
    }
    // The node has restarted: its previous session is over.
    std::optional<control::SessionId> replaced;
    for (size_t i = sessions().size(); i-- > 0;) {
        const NodeSession& other = *sessions()[i];
        if (other.grant.user == grant.user && other.grant.node == grant.node) {
            const control::SessionId& former = other.grant.session_id;
            replaced = former == grant.session_id ? other.replaced : former;
            close(other.wire_id, SessionEnd::Replaced);
        }
    }
    while (const NodeSession* silent = sessions_.to_give_way(grant.user)) {
        close(silent->wire_id, SessionEnd::GaveWay);
    }
    if (sessions_.is_full(grant.user)) {
        return Error{Errc::LimitReached, "sessions"};
    }
    UserShare& share = flows_.shares().join(grant);
    uint16_t wire_id = 0;
    do {
        wire_id = static_cast<uint16_t>(random_.u64());
    } while (wire_id == 0 || sessions_.find(wire_id) != nullptr);
    session::SessionSettings settings;
    settings.role = path::Role::Snapt;
    settings.local_id = wire_id;
    settings.peer_id = grant.peer_id;
    settings.node_ipv4 = grant.lease_ipv4.value_or(base::IpAddress::any(base::IpVersion::V4));
    settings.node_ipv6 = grant.lease_ipv6.value_or(base::IpAddress::any(base::IpVersion::V6));
    settings.classes = flows_.shares().classes_of(share);
    settings.rate = &share.down_rate;
    settings.memory = &engine_.kept_memory();
    settings.rekey_datagrams = settings_.rekey_datagrams;
    settings.is_readable = grant.protection.kind == control::ProtectionKind::HmacSha256;
    auto node = std::make_unique<NodeSession>(settings, flows_, engine_.scratch(), random_);
    node->grant = grant;
    node->grant.meter.reset();
    node->replaced = replaced;
    node->wire_id = wire_id;
    node->since = loop_.now();
    node->handshake_at = node->since;
    node->since_utc_s = std::time(nullptr);
    node->share = &share;
    flows_.shares().add(*node);
    engine_.add(sessions_.add(std::move(node)).session);
    return Reservation{wire_id, 1, false};
}

base::Result<void> Relay::install(uint16_t wire_id, const control::EpochKeys& keys) {
    NodeSession* node = sessions_.find(wire_id);
    if (node == nullptr) {
        return Error{Errc::NotFound, "session"};
    }
    auto install =
        CTN_TRY(dataplane::make_install(path::Role::Snapt, node->grant.protection, keys,
                                        {settings_.recording.keys, wire_id, node->grant.peer_id}));
    node->session.install_epoch(std::move(install), loop_.now());
    engine_.touch(node->session);
    engine_.pump();
    return {};
}

void Relay::close(uint16_t wire_id, SessionEnd why) {
    NodeSession* node = sessions_.find(wire_id);
    if (node == nullptr) {
        return;
    }
    node->end = why;
    const bool is_by_operator = why == SessionEnd::ByOperator || why == SessionEnd::Drained;
    const TimePoint now = loop_.now();
    engine_.flush();
    flows_.end_flows_of(*node, is_by_operator ? flow::Cause::Admin : flow::Cause::SessionEnd, now);
    if (why == SessionEnd::NotAllowed || is_by_operator) {
        listeners_.tell_ended(*node);
    }
    flows_.count_tunnel(*node, true, now);
    engine_.end(node->session);
    turns_.forget(*node);
    const std::unique_ptr<NodeSession> ended = sessions_.remove(*node);
    flows_.shares().remove(*ended);
    events_.on_session_closed(*ended);
}

void Relay::set_modes(uint16_t wire_id, std::span<const control::AppMode> modes) {
    constexpr size_t kMaxModes = 1024;
    NodeSession* node = sessions_.find(wire_id);
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
    flows_.table().for_each([](Flow& flow) {
        auto* node = flow::details_as<NodeSession>(flow);
        if (node->has_new_modes) {
            node->session.set_mode(flow, node->mode_of(flow.app));
        }
    });
    for (const auto& node : sessions()) {
        if (std::exchange(node->has_new_modes, false)) {
            engine_.touch(node->session);
        }
    }
    engine_.pump();
}

void Relay::set_classes(const dataplane::ClassTable& table) {
    settings_.tos = table.tos;
    flows_.shares().set_classes(table.settings);
}

void Relay::set_limits(size_t sessions, size_t user_sessions, size_t user_flows) {
    settings_.max_sessions = sessions;
    settings_.max_user_sessions = user_sessions;
    flows_.connections().set_max_user_flows(user_flows);
}

void Relay::set_user_rate(uint64_t bits_per_s) {
    flows_.shares().set_user_rate(bits_per_s);
    look_at_meters();
}

void Relay::look_at_meters() {
    flows_.shares().look([this](UserShare& share) { flows_.end_flows_of(share, loop_.now()); });
    engine_.pump();
}

void Relay::on_flows_forgotten() {
    flows_.connections().on_forgotten();
    flows_.shares().drop_idle();
}

void Relay::open_stream(uint16_t wire_id, dataplane::StreamPort port) {
    if (NodeSession* node = sessions_.find(wire_id)) {
        node->stream = std::move(port);
        node->has_link = true;
        on_stream_room(wire_id);
    }
}

void Relay::close_stream(uint16_t wire_id) {
    if (NodeSession* node = sessions_.find(wire_id)) {
        node->stream = {};
        node->has_link = false;
        node->link_lost_at = loop_.now();
        node->lane.stream.reset();
        node->session.paths().path(wire::kTcpPath).set_room(0);  // the node returns in some way
    }
}

void Relay::on_stream_room(uint16_t wire_id) {
    NodeSession* node = sessions_.find(wire_id);
    if (node != nullptr && node->stream) {
        node->session.paths().path(wire::kTcpPath).set_room(node->stream.queue->room_bytes());
        engine_.touch(node->session);
        engine_.pump();
    }
}

void Relay::on_stream(uint16_t wire_id,
                      dataplane::DatagramQueue& queue,
                      const base::Endpoint& from) {
    if (NodeSession* node = sessions_.find(wire_id)) {
        turns_.on_stream(*node, queue, from);
    } else {
        queue.clear();
    }
}

void Relay::drain(uint16_t wire_id, TimePoint from) {
    NodeSession* node = sessions_.find(wire_id);
    if (node != nullptr && (node->drains_from == base::kNever || from == base::kNever)) {
        node->drains_from = from;  // a node that is told again gets no further time
    }
}

// In one pass: there may be many sessions.
void Relay::look_at_rates(TimePoint now) {
    uint64_t up_bytes = engine_.ended().received.inner_bytes;
    uint64_t down_bytes = dataplane::sent_figures(engine_.ended().classes).inner_bytes;
    for (const auto& node : sessions()) {
        const uint64_t up = node->session.counters().inner_bytes_received;
        const uint64_t down = dataplane::inner_bytes_sent(node->session);
        node->rates.look(up, down, now);
        for (const base::TrafficClass traffic_class : base::kAllTrafficClasses) {
            const size_t index = base::index_of(traffic_class);
            node->class_rates[index].look(
                node->up_class_bytes[index],
                node->session.queues().counters(traffic_class).inner_bytes, now);
        }
        flows_.count_tunnel(*node, false, now);
        up_bytes += up;
        down_bytes += down;
    }
    rates_.look(up_bytes, down_bytes, now);
}

base::DropCounters Relay::all_drops() const {
    base::DropCounters sum = engine_.all_drops();
    for (const auto& node : sessions()) {
        sum.add(base::DropReason::InputFull, node->dropped_inputs());
    }
    sum.add(base::DropReason::StrangersFull, turns_.dropped_of_strangers());
    return sum;
}

}  // namespace continuo::snapt::relay
