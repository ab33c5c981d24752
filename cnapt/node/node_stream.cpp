// Node: datagrams over TCP, inside the control link, while UDP does not get through.
#include "cnapt/node/node.hpp"
#include "common/base/log.hpp"

#include <algorithm>

namespace continuo::cnapt::node {

using base::TimePoint;
using session::PathState;
using uplinks::kBothVersions;
using uplinks::Uplink;
using uplinks::Uplinks;

namespace {

constexpr base::Duration kNextPortAfter = base::seconds(2);
constexpr base::Duration kNextPortInterval = base::seconds(1);
// Fraction of the silence after which the next port is tried, while nothing is sent.
constexpr int64_t kNextPortShare = 8;
constexpr base::Duration kNextPortLongest = base::seconds(300);
// A connection that a NAT has forgotten stays silent until TCP gives it up; a link that pauses
// recovers.
constexpr base::Duration kStuckAfter = base::seconds(3);
constexpr base::Duration kMendInterval = base::seconds(10);
// TCP that owes an answer for this long, or this many round trips, ends its trial or moves to
// another uplink: as long as UDP is waited for.
constexpr base::Duration kStreamSilentAfter = kAskStreamAfter;
constexpr int64_t kStreamSilentAfterRtts = 4;
// A capture does not show the port of the connection: it is not known here.
constexpr uint16_t kUnknownPort = 0;

}  // namespace

void Node::open_stream(SnaptLink& link,
                       dataplane::StreamPort port,
                       const base::Endpoint& address,
                       std::optional<uint8_t> slot) {
    const TimePoint now = loop_.now();
    link.stream = std::move(port);
    link.stream_address = address;
    link.stream_slot = slot;
    link.fallback.reset_answer();
    if (!link.session) {
        return;
    }
    session::PathSet& paths = link.session->paths();
    paths.add(wire::kTcpPath, link.stream_address, session::Path{}.mtu, now);
    paths.set_room(wire::kTcpPath, link.stream.queue->room_bytes());
    if (link.is_on_stream) {
        paths.activate(wire::kTcpPath, now);  // by the new connection
    }
    consider_stream(link, now);
    engine_.touch(*link.session);
    engine_.pump(now);
}

void Node::close_stream(SnaptLink& link) {
    link.stream = {};
    link.stream_slot.reset();
    if (!link.session) {
        return;
    }
    const TimePoint now = loop_.now();
    link.session->paths().remove(wire::kTcpPath);
    if (link.is_on_stream) {
        link.fallback.on_stream_ended(now);
        // TCP may be back at once, by the same uplink, where the best route leads nowhere.
        const auto former = link.active_slot;
        const Uplink* best = former && !is_cut(*former) ? uplinks_->at(*former) : nullptr;
        if (best == nullptr || !is_path(link, *best)) {
            best = best_uplink(link, cut_slots());
        }
        link.moving_since = now;
        if (best != nullptr) {
            activate(link, best->slot, now);
        } else {
            link.is_on_stream = false;
            link.active_slot.reset();
        }
        if (link.active_slot != former) {
            events_.on_path_moved(link);
        }
    }
    engine_.touch(*link.session);
    engine_.pump(now);
}

void Node::on_stream(SnaptLink& link, dataplane::DatagramQueue& queue) {
    if (!link.session || !link.stream) {
        queue.clear();
        return;
    }
    const TimePoint now = loop_.now();
    const auto hand_over = [&](std::span<session::ReceivedDatagram> datagrams) {
        link.session->on_datagrams(datagrams, now);
        loop_.note_moved(datagrams.front().bytes.size());
    };
    // Datagrams that SNAPT repeats were sealed for another path.
    const auto is_allowed = [](base::ByteView) { return true; };
    engine_.receiver().pull(queue, link.local_id, link.stream_address, kUnknownPort, is_allowed,
                            hand_over);
    engine_.flush();
    engine_.touch(*link.session);
    engine_.pump(now);
}

void Node::on_stream_room(SnaptLink& link) {
    if (link.session && link.stream) {
        link.session->paths().set_room(wire::kTcpPath, link.stream.queue->room_bytes());
        engine_.touch(*link.session);
        engine_.pump();
    }
}

// The announcement creates the next connection, and makes SNAPT repeat datagrams under way.
void Node::on_stream_lost(SnaptLink& link) {
    if (link.session && link.is_on_stream) {
        const TimePoint now = loop_.now();
        link.session->paths().activate(wire::kTcpPath, now);
        engine_.touch(*link.session);
        engine_.pump(now);
    }
}

bool Node::send_stream(const session::TransmitItem& item, base::ByteView bytes) {
    return engine_.send_stream(link_of(*item.session)->stream, item, bytes, kUnknownPort);
}

void Node::consider_stream(SnaptLink& link, TimePoint now) {
    if (!link.session || !link.stream || !link.active_slot || link.is_on_stream) {
        return;
    }
    session::PathSet& paths = link.session->paths();
    const session::Path& active = paths.path(*link.active_slot);
    UdpFacts udp;
    udp.silent_since = active.liveness.silent_since();
    udp.was_proven = active.received_datagrams > 0;
    for (const Uplink* uplink : uplinks_->list()) {
        udp.has_other_answered =
            udp.has_other_answered || (uplink->slot != *link.active_slot &&
                                       paths.path(uplink->slot).state == PathState::Usable);
    }
    const TcpFallback::Decision decision = link.fallback.decide(udp, now);
    if (decision.step == TcpFallback::Step::AskStream) {
        paths.probe(wire::kTcpPath, now);
        for (const Uplink* uplink : uplinks_->list()) {
            if (uplink->slot != *link.active_slot) {
                paths.probe(uplink->slot, now);
            }
        }
        engine_.touch(*link.session);
    } else if (decision.step == TcpFallback::Step::UseStream) {
        use_stream(link, "UDP does not get through", now);
    }
    if (decision.again_at < fallback_timer_.deadline()) {
        fallback_timer_.set(decision.again_at);
    }
}

// The interruption of a move counts from the silence that causes it, not from its detection.
TimePoint Node::silent_since(const SnaptLink& link, TimePoint now) {
    if (link.is_on_stream) {
        return now;  // TCP has carried since
    }
    const session::Path& path = link.session->paths().path(*link.active_slot);
    return path.is_failing() ? std::min(now, path.liveness.silent_since()) : now;
}

void Node::use_stream(SnaptLink& link, const char* reason, TimePoint now) {
    session::PathSet& paths = link.session->paths();
    if (const Uplink* former = uplinks_->at(*link.active_slot)) {
        link.moving_from = former->interface + " " + former->address.to_string();
    }
    link.moving_since = std::min(link.moving_since, silent_since(link, now));
    for (const Uplink* uplink : uplinks_->list()) {
        paths.give_up(uplink->slot);  // only an answer to retry() brings it back
    }
    link.is_on_stream = true;
    link.fallback.on_stream_used(now);
    const Uplink* const by = link.stream_slot ? uplinks_->at(*link.stream_slot) : nullptr;
    if (by != nullptr && link.active_slot != by->slot) {
        link.active_slot = by->slot;
        link.addresses.in_use = by->address.version;
        events_.on_path_moved(link);
    }
    paths.activate(wire::kTcpPath, now);
    base::log(base::LogLevel::Info, "%s: %s, data goes over TCP", link.name.c_str(), reason);
    engine_.touch(*link.session);
}

// Paths given up for TCP are asked like paths that fell silent. A throttled one is not used again
// for as long as TCP is kept at first, longer if it recurs.
void Node::leave_stream(SnaptLink& link, uint8_t slot, TimePoint now) {
    link.fallback.on_udp_used(now);
    link.throttled &= static_cast<session::PathMask>(~session::mask_of(slot));
    session::PathSet& paths = link.session->paths();
    for (const Uplink* uplink : uplinks_->list()) {
        if (uplink->slot == slot || paths.path(uplink->slot).state != PathState::Dead) {
            continue;
        }
        if (link.throttle.keeps_stream() &&
            (link.throttled & session::mask_of(uplink->slot)) != 0) {
            bar_uplink(link, uplink->slot, UdpThrottle::kFirstStay, UdpThrottle::kLongestStay, now);
        }
        paths.bury(uplink->slot, now);
    }
}

void Node::retry_udp(SnaptLink& link, TimePoint now) {
    if (!link.session || !link.is_on_stream) {
        return;
    }
    uint64_t traffic = 0;
    for (const base::TrafficClass traffic_class : base::kAllTrafficClasses) {
        traffic += link.session->class_counters(traffic_class).packets;
    }
    if (link.fallback.wants_retry(traffic, now)) {
        ask_next_port(link, now);
    }
}

// Keeps TCP where UDP is throttled; another interface is another network.
bool Node::may_ask_udp(const SnaptLink& link, const Uplink& uplink) const {
    const bool is_throttled =
        link.throttle.keeps_stream() && (link.throttled & session::mask_of(uplink.slot)) != 0;
    return is_path(link, uplink) && !is_throttled;
}

// Asks one port of each IP version at a time, so that it is clear which one answers.
void Node::ask_next_port(SnaptLink& link, TimePoint now) {
    const auto& uplinks = uplinks_->list();
    if (std::any_of(uplinks.begin(), uplinks.end(),
                    [&](const Uplink* uplink) { return may_ask_udp(link, *uplink); })) {
        for (const base::IpVersion version : kBothVersions) {
            take_next_port(link, version);
        }
        ask_udp(link, now);
    }
}

void Node::ask_udp(SnaptLink& link, TimePoint now) {
    for (const Uplink* uplink : uplinks_->list()) {
        if (may_ask_udp(link, *uplink)) {
            link.session->paths().retry(uplink->slot, link.addresses.of(uplink->address.version),
                                        now);
        }
    }
    engine_.touch(*link.session);
    engine_.pump(now);
}

// Includes the other addresses of the interface.
session::PathMask Node::slots_beside(uint8_t slot) const {
    session::PathMask slots = session::mask_of(slot);
    const Uplink* one = uplinks_->at(slot);
    for (const Uplink* uplink : uplinks_->list()) {
        if (one != nullptr && uplink->interface_index == one->interface_index) {
            slots |= session::mask_of(uplink->slot);
        }
    }
    return slots;
}

// The other uplinks that were found throttled and left too recently to be used again.
session::PathMask Node::barred_slots(const SnaptLink& link, TimePoint now) {
    session::PathMask slots = 0;
    for (size_t slot = 0; slot < link.bars.size(); ++slot) {
        if (link.bars[slot].until > now) {
            slots |= session::mask_of(static_cast<uint8_t>(slot));
        }
    }
    return slots;
}

void Node::watch_throttle(SnaptLink& link, TimePoint now) {
    if (!link.session || !link.active_slot) {
        return;
    }
    const session::PathSet& paths = link.session->paths();
    const session::SessionCounters& counters = link.session->counters();
    UdpTraffic traffic;
    traffic.session_id = link.accept.wire_session_up;
    traffic.received_datagrams = counters.datagrams_received;
    traffic.lost_datagrams = link.session->missing_datagrams();
    traffic.received_inner_bytes = counters.inner_bytes_received;
    traffic.sent_bytes = counters.overhead_sent();
    for (const base::TrafficClass traffic_class : base::kAllTrafficClasses) {
        traffic.sent_bytes += link.session->class_counters(traffic_class).wire_bytes;
        traffic.sent_datagrams += link.session->class_counters(traffic_class).datagrams;
    }
    traffic.lost_up_datagrams = paths.path(*link.active_slot).lost_datagrams;
    traffic.loss_up = paths.path(*link.active_slot).loss.value_or(0);
    const session::PathMask same_network = slots_beside(*link.active_slot);
    const Uplink* active = uplinks_->at(*link.active_slot);
    traffic.network = active != nullptr ? active->interface_index : 0;
    for (const Uplink* uplink : uplinks_->list()) {
        const session::Path& path = paths.path(uplink->slot);
        const bool is_other = (same_network & session::mask_of(uplink->slot)) == 0;
        if (is_other && link.session->uses_several_paths() && path.received_datagrams > 0) {
            link.other_heard_at = std::max(link.other_heard_at, path.heard_at);
        }
    }
    traffic.other_heard_at = link.other_heard_at;
    traffic.is_stream_silent = is_stream_silent(link, now);
    switch (link.throttle.on_tick(traffic, link.is_on_stream, bool(link.stream), now)) {
    case UdpThrottle::Step::TryStream:
        link.throttled = same_network | (link.throttled & barred_slots(link, now));
        use_stream(link, "UDP loses much", now);
        ask_udp(link, now);  // an idle uplink that answers is better
        break;
    case UdpThrottle::Step::TryUdp:
        link.throttled = 0;
        link.stream_mended_at = now;  // by UDP, if that answers
        ask_next_port(link, now);
        break;
    case UdpThrottle::Step::None:
        break;
    }
}

void Node::take_next_port(SnaptLink& link, base::IpVersion version) {
    if (link.udp_ports.empty() || !link.addresses.has(version)) {
        return;
    }
    uint16_t& port = link.addresses.of(version).port;
    const auto current = std::find(link.udp_ports.begin(), link.udp_ports.end(), port);
    const auto next = current == link.udp_ports.end() ? current : std::next(current);
    port = next == link.udp_ports.end() ? link.udp_ports.front() : *next;
}

void Node::try_next_port(SnaptLink& link, TimePoint now) {
    if (!link.session || link.is_on_stream || !link.active_slot || link.udp_ports.size() < 2) {
        return;
    }
    session::PathSet& paths = link.session->paths();
    const session::Path& path = paths.path(*link.active_slot);
    const TimePoint since = path.liveness.silent_since();
    if (since == base::kNever || now - since < kNextPortAfter) {
        return;
    }
    // A node with nothing to send asks an absent SNAPT ever less often.
    const base::Duration interval =
        path.packets_sent_at > link.port_taken_at
            ? kNextPortInterval
            : std::clamp<base::Duration>((now - since) / kNextPortShare, kNextPortInterval,
                                         kNextPortLongest);
    if (now - link.port_taken_at < interval) {
        return;
    }
    link.port_taken_at = now;
    take_next_port(link, link.addresses.in_use);
    paths.redirect(link.address(), now);
    engine_.touch(*link.session);
    engine_.pump(now);
}

bool Node::is_stream_silent(const SnaptLink& link, TimePoint now) {
    const session::Path& path = link.session->paths().path(wire::kTcpPath);
    const base::Duration patience =
        std::max<base::Duration>(kStreamSilentAfter, kStreamSilentAfterRtts * path.smoothed_rtt());
    const TimePoint since = path.liveness.silent_since();
    return link.is_on_stream && since != base::kNever &&
           now - std::max(since, link.stream_mended_at) >= patience;
}

// An uplink on another interface than the active one that was not bad recently; null: there is
// none.
const Uplink* Node::other_uplink(const SnaptLink& link, TimePoint now) {
    const auto left_out =
        static_cast<session::PathMask>(slots_beside(*link.active_slot) | barred_slots(link, now));
    const Uplink* const other = best_uplink(link, cut_slots() | Uplinks::SlotSet(left_out));
    const bool has_route =
        other != nullptr && Uplinks::has_route(*other, link.addresses, monitor_->snapshot());
    return has_route ? other : nullptr;
}

bool Node::goes_nowhere(const SnaptLink& link) {
    return link.session && link.active_slot && !link.is_on_stream &&
           link.session->paths().path(*link.active_slot).is_failing();
}

// The uplink may be why TCP is silent: the next connection uses another.
bool Node::move_stream(SnaptLink& link, TimePoint now) {
    const Uplink* const other = is_stream_silent(link, now) ? other_uplink(link, now) : nullptr;
    if (other == nullptr) {
        return false;
    }
    const uint8_t former = *link.active_slot;
    bar_uplink(link, former, kFirstBar, kLongestBar, now);
    link.active_slot = other->slot;
    link.addresses.in_use = other->address.version;
    link.stream_mended_at = now;
    base::log(base::LogLevel::Info, "%s: TCP is silent, its next connection is made by %s",
              link.name.c_str(), other->interface.c_str());
    events_.on_path_moved(link);
    return true;
}

void Node::mend_stream(SnaptLink& link, TimePoint now) {
    if (link.session && link.active_slot && move_stream(link, now)) {
        return;
    }
    // UDP that is silent waits for TCP's answer as well.
    const bool is_wanted = goes_nowhere(link) && link.is_control_open;
    if (!link.session || !link.active_slot || (!link.is_on_stream && !is_wanted)) {
        return;
    }
    // Where there is another uplink, all are tried.
    const bool is_race = is_wanted && other_uplink(link, now) != nullptr;
    const session::Path& path = link.session->paths().path(wire::kTcpPath);
    const base::Duration patience =
        is_race
            ? std::max<base::Duration>(kAskedBefore, kStreamSilentAfterRtts * path.smoothed_rtt())
            : kStuckAfter;
    const TimePoint since = path.liveness.silent_since();
    const bool is_silent = since != base::kNever && now - since >= patience;
    if (is_silent && now - link.stream_mended_at >= kMendInterval) {
        link.stream_mended_at = now;
        events_.on_stream_stuck(link);
    }
}

void Node::on_fallback_due() {
    const TimePoint now = loop_.refresh_now();
    for (const auto& link : links_) {
        consider_stream(*link, now);
    }
    engine_.pump(now);
}

}  // namespace continuo::cnapt::node
