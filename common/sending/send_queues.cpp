#include "common/sending/send_queues.hpp"

#include "common/wire/constants.hpp"

#include <algorithm>

namespace continuo::sending {

using base::DropReason;
using base::Duration;
using base::TimePoint;
using base::TrafficClass;
using flow::Flow;
using path::Destination;
using routing::Router;
using routing::Way;
using session::ClassSettings;
using session::outer_overhead;
using session::SentDatagrams;
using session::SessionCore;

namespace {

// The hold may take this fraction of the round trip of an ACK-clocked flow.
constexpr int64_t kClockedShare = 4;
// Flows passed over in the search for one that can share the datagram.
constexpr size_t kMaxPasses = 4;
// Flows passed over when they wait for the full socket of one path, before nothing is sent.
constexpr size_t kMaxPassesToSend = 64;

}  // namespace

SendQueues::SendQueues(SessionCore& core, const Router& router, const SentDatagrams& sent)
    : settings_(core.settings)
    , drops_(core.drops)
    , paths_(core.paths)
    , flows_(core.flows)
    , router_(router)
    , sent_(sent)
    , classes_{SendClass(base::kAllTrafficClasses[0], core.settings.classes[0]),
               SendClass(base::kAllTrafficClasses[1], core.settings.classes[1]),
               SendClass(base::kAllTrafficClasses[2], core.settings.classes[2]),
               SendClass(base::kAllTrafficClasses[3], core.settings.classes[3])} {}

void SendQueues::push(Flow& flow, packet::PacketPtr packet, TimePoint now) {
    SendClass& state = of(flow.traffic_class);
    const auto destination = paths_.selector().destination(flow.traffic_class, now);
    state.estimator.on_arrival(now, knobs(state, destination.value_or(Destination{})),
                               are_arrivals_gathered_);
    flow.paths.gap = now - flow.paths.queued_at;
    flow.paths.queued_at = now;
    const size_t dropped = state.queue.push(flow, std::move(packet), now);
    if (dropped > 0) {
        state.counters.queue_drops += dropped;
        drops_.add(DropReason::QueueFull, dropped);
    }
}

void SendQueues::requeue(Flow& flow, TrafficClass former) {
    of(former).queue.move_flow(flow, of(flow.traffic_class).queue);
}

void SendQueues::drop_flow(Flow& flow) {
    SendClass& state = of(flow.traffic_class);
    state.counters.queue_drops += state.queue.drop_flow(flow);
    for (SendClass& any : classes_) {
        any.split.forget(flow);
    }
}

void SendQueues::on_settings() {
    for (SendClass& state : classes_) {
        state.queue.set_limit_bytes(state.settings.queue_bytes);
    }
}

void SendQueues::on_path_changed() {
    for (SendClass& state : classes_) {
        state.estimator.on_path_changed();
    }
}

uint64_t SendQueues::bytes() const {
    uint64_t bytes = 0;
    for (const SendClass& state : classes_) {
        bytes += state.queue.bytes();
    }
    return bytes;
}

uint32_t SendQueues::packets() const {
    uint32_t packets = 0;
    for (const SendClass& state : classes_) {
        packets += state.queue.packets();
    }
    return packets;
}

size_t SendQueues::shed(bool by_bytes) {
    const auto held = [by_bytes](const SendClass& state) {
        return by_bytes ? state.queue.bytes() : state.queue.packets();
    };
    SendClass* const most = std::max_element(
        classes_.begin(), classes_.end(),
        [&](const SendClass& one, const SendClass& other) { return held(one) < held(other); });
    const size_t dropped = most->queue.halve();
    most->counters.queue_drops += dropped;
    drops_.add(DropReason::QueueFull, dropped);
    return dropped;
}

std::optional<TrafficClass> SendQueues::pick(TimePoint now) {
    if (settings_.rate != nullptr && !settings_.rate->may_pass(now)) {
        return std::nullopt;
    }
    std::array<TimePoint, base::kTrafficClasses> ready_since;
    ready_since.fill(base::kNever);
    for (SendClass& state : classes_) {
        state.is_blocked = false;
        state.goes_to.reset();
        if (!state.has_any()) {
            continue;
        }
        if (sent_.has_due() && !base::is_low_delay(state.traffic_class)) {
            state.is_blocked = true;  // waits behind repeated datagrams, which it would overtake
            continue;
        }
        const auto way = sendable_way(state, now);
        state.is_blocked = !way;
        if (way && flows_.has_spread()) {
            state.goes_to = way->destination;
        }
        if (way && release(state, way->destination).at <= now) {
            ready_since[base::index_of(state.traffic_class)] =
                state.split.is_empty() ? state.queue.waiting_since() : TimePoint{};
        }
    }
    return scheduler_.pick(ready_since, now);
}

std::optional<Way> SendQueues::next_way(SendClass& state, TimePoint now) const {
    const packet::Packet* next = flows_.has_spread() ? state.peek() : nullptr;
    if (next != nullptr) {
        return way_of(*state.queue.peek_flow(), *next, now);
    }
    return router_.route(state.traffic_class, now);
}

std::optional<Way>
SendQueues::way_of(const Flow& flow, const packet::Packet& packet, TimePoint now) const {
    if (!flows_.has(flow)) {
        return router_.route(flow.traffic_class, now);
    }
    const ClassSettings& settings = of(flow.traffic_class).settings;
    return router_.route(flow, packet, {settings.resequence, settings.striping}, now);
}

std::optional<Way> SendQueues::sendable_way(SendClass& state, TimePoint now) {
    for (size_t passes = 0;; ++passes) {
        const auto way = next_way(state, now);
        if (way && way->destination.budget_bytes >= way->destination.mtu) {
            return way;
        }
        const size_t most = std::min<size_t>(kMaxPassesToSend, state.queue.flows());
        if (passes >= most || !flows_.has_spread() || !state.queue.pass_turn()) {
            return std::nullopt;
        }
    }
}

bool SendQueues::goes_along(const Way& way, SendClass& state, TimePoint now) const {
    for (size_t passes = 0;; ++passes) {
        const packet::Packet* next = state.queue.peek();
        if (next == nullptr) {
            return false;
        }
        Flow& flow = *state.queue.peek_flow();
        const auto own = way_of(flow, *next, now);
        const bool is_alike = own && own->is_striped == way.is_striped &&
                              (way.is_striped || own->destination.path == way.destination.path);
        if (is_alike) {
            return true;
        }
        if (passes == kMaxPasses || !state.queue.pass_turn()) {
            return false;
        }
    }
}

void SendQueues::pin(Flow& flow, const packet::Packet& packet, uint8_t path, TimePoint now) const {
    if (flow.paths.mode != base::PathMode::Flow || flow.paths.pinned == path) {
        return;
    }
    const auto own = way_of(flow, packet, now);
    if (own && own->is_pinned && own->destination.path == path) {
        Router::commit(flow, path);
    }
}

// The path that the hold of the class is computed for. Any other would wake us before it may send.
std::optional<Destination> SendQueues::next_destination(const SendClass& state,
                                                        TimePoint now) const {
    return state.goes_to ? state.goes_to : paths_.selector().destination(state.traffic_class, now);
}

HoldKnobs SendQueues::knobs(const SendClass& state, const Destination& destination) const {
    const uint32_t overhead =
        outer_overhead(destination.to.address) + wire::kLongHeaderBytes + wire::kFullTagBytes;
    uint32_t outer = destination.mtu;
    if (state.settings.max_bytes != 0) {
        outer = std::min(outer, state.settings.max_bytes);
    }
    HoldKnobs knobs;
    knobs.hold = state.settings.hold;
    const auto full = static_cast<uint32_t>(static_cast<double>(outer) * state.settings.fill);
    knobs.target_bytes = full > overhead ? full - overhead : 1;
    if (const Duration rtt = paths_.path(destination.path).feedback().smoothed_rtt();
        state.queue.has_clocked() && rtt != Duration{}) {
        knobs.clocked_hold = rtt / kClockedShare;
    }
    knobs.min_bytes = state.settings.min_bytes > overhead ? state.settings.min_bytes - overhead : 0;
    return knobs;
}

Release SendQueues::release(const SendClass& state, const Destination& destination) const {
    if (!state.split.is_empty()) {
        return {TimePoint{}, ReleaseReason::Size};
    }
    if (state.queue.empty()) {
        return {base::kNever, ReleaseReason::Size};
    }
    const auto predicted =
        static_cast<uint64_t>(static_cast<double>(state.queue.bytes()) * state.compressed_ratio);
    return state.estimator.release(state.queue.waiting_since(), predicted,
                                   knobs(state, destination));
}

std::optional<Duration> SendQueues::patience(TimePoint now) const {
    TimePoint earliest = base::kNever;
    for (const SendClass& state : classes_) {
        if (!state.has_any()) {
            continue;
        }
        const auto destination = next_destination(state, now);
        earliest = destination ? std::min(earliest, release(state, *destination).at) : now;
    }
    return earliest == base::kNever ? std::nullopt
                                    : std::optional(std::max(earliest - now, Duration{}));
}

TimePoint SendQueues::next_deadline(TimePoint now) const {
    TimePoint earliest = base::kNever;
    const TimePoint paced_at = settings_.rate != nullptr ? settings_.rate->free_at() : TimePoint{};
    for (const SendClass& state : classes_) {
        const auto destination = next_destination(state, now);
        const bool is_open = destination && destination->budget_bytes >= destination->mtu;
        if (destination && (is_open || flows_.has_spread()) && !state.is_blocked) {
            earliest = std::min(earliest, std::max(release(state, *destination).at, paced_at));
        }
    }
    return earliest;
}

}  // namespace continuo::sending
