// Choice of the path for each packet, and for copies of it (docs/PROTOCOL.md section 5.9).
#include "common/session/session.hpp"

#include <algorithm>

namespace continuo::session {

using base::ByteWriter;
using base::Duration;
using base::index_of;
using base::PathMode;
using base::TimePoint;
using base::TrafficClass;
using flow::Flow;
using flow::FlowPaths;

namespace {

// Longest COPY frame: type, space, varint of 28 bits.
constexpr uint32_t kMaxCopyFrameBytes = 6;
// A path with less room for a body carries no copies.
constexpr uint32_t kMinCopyBodyBytes = 200;
// Flows passed over in the search for one that can share the datagram.
constexpr size_t kMaxPasses = 4;
// Flows passed over when they wait for the full socket of one path, before nothing is sent.
constexpr size_t kMaxPassesToSend = 64;
// Interval at which reserve paths are refreshed, so that their mappings do not expire.
constexpr Duration kKeepReady = base::seconds(15);
// For this long after the last packet; an idle node asks nothing.
constexpr Duration kReadyFor = base::seconds(60);

}  // namespace

void Session::count_mode(const Flow& flow, int change) {
    size_t& count = flows_by_mode_[static_cast<size_t>(flow.paths.mode)];
    count = static_cast<size_t>(static_cast<int64_t>(count) + change);
    wants_ready_paths_ = wants_ready_paths_ || flow.paths.mode != PathMode::Handover;
}

void Session::set_mode(Flow& flow, PathMode mode) {
    if (flow.paths.mode == mode) {
        return;
    }
    const bool is_attached = flow.owner == this && flow_at(flow.index) == &flow;
    if (is_attached) {
        count_mode(flow, -1);
    }
    flow.paths.pinned = FlowPaths::kNone;
    flow.paths.mode = mode;
    if (is_attached) {
        count_mode(flow, 1);
    }
}

std::optional<Way>
Session::way_of(const Flow& flow, const packet::Packet& packet, TimePoint now) const {
    return flow_at(flow.index) == &flow
               ? router_.route(flow, packet, classes_[index_of(flow.traffic_class)].settings, now)
               : router_.route(flow.traffic_class, now);
}

std::optional<Way> Session::next_way(ClassState& state, TrafficClass traffic_class, TimePoint now) {
    const packet::Packet* next =
        has_spread_flows() && state.split_entry.empty() ? state.queue.peek() : nullptr;
    if (next != nullptr) {
        return way_of(*state.queue.peek_flow(), *next, now);
    }
    return router_.route(traffic_class, now);
}

// A flow that waits for its path does not hold up the others.
std::optional<Way>
Session::sendable_way(ClassState& state, TrafficClass traffic_class, TimePoint now) {
    for (size_t passes = 0;; ++passes) {
        const auto way = next_way(state, traffic_class, now);
        if (way && way->destination.budget_bytes >= way->destination.mtu) {
            return way;
        }
        const size_t most = std::min<size_t>(kMaxPassesToSend, state.queue.flows());
        if (passes >= most || !has_spread_flows() || !state.queue.pass_turn()) {
            return std::nullopt;
        }
    }
}

// Whether the next packet in the queue can share a datagram on that path; passes over some flows
// that cannot.
bool Session::goes_along(const Way& way, ClassState& state, TimePoint now) {
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

// Limits the draft so that its copy fits the copy's path.
void Session::leave_room(Draft& draft, const std::optional<CopyWay>& copy) const {
    if (!copy) {
        return;
    }
    const ClassSettings& settings = classes_[index_of(draft.header.traffic_class)].settings;
    const uint32_t outer = settings.max_bytes != 0
                               ? std::min<uint32_t>(settings.max_bytes, copy->destination.mtu)
                               : copy->destination.mtu;
    const uint32_t beside = outer_overhead(copy->destination.to.address) +
                            static_cast<uint32_t>(wire::kLongHeaderBytes) +
                            static_cast<uint32_t>(draft.epoch->sealer->tag_bytes()) +
                            kMaxCopyFrameBytes;
    if (outer >= beside + kMinCopyBodyBytes) {
        draft.body_limit = std::min(draft.body_limit, outer - beside);
    }
}

// `bytes`: approximate size of the original.
bool Session::may_copy(const CopyWay& copy, size_t count, size_t bytes, TimePoint now) {
    bool is_redundant = false;
    for (size_t i = 0; i < count; ++i) {
        const Flow& flow = *scratch_.packets[i].item.flow;
        is_redundant = is_redundant || flow.paths.mode == PathMode::Redundant;
    }
    if (is_redundant) {
        return true;
    }
    if (!copy.is_doubt) {
        return false;
    }
    if (!copy_budget_.take(bytes, now)) {
        ++counters_.copies_unsent;
        return false;
    }
    return true;
}

// Encodes the packets of the datagram sealed last anew, for another path.
void Session::send_copy(const wire::Copy& original,
                        ClassState& state,
                        size_t count,
                        const CopyWay& copy,
                        TransmitBatch& batch,
                        TimePoint now) {
    auto draft = start_draft(copy.destination, original.space.traffic_class, batch);
    if (!draft) {
        return;
    }
    elision::Encoder& encoder = draft->epoch->encoder;
    encoder.begin_datagram(draft->space_number, draft->space->next, now,
                           elision::Setting::Forbidden);
    ByteWriter body(draft->datagram.subspan(draft->header.size(), draft->body_limit));
    original.serialize(body);
    if (scratch_.order.count > 0) {
        scratch_.order.serialize(body);
    }
    for (size_t i = 0; i < count; ++i) {
        scratch_.packets[i].is_announced = false;  // only sets announce a flow for good
    }
    if (!encode(*draft, state, count, body)) {
        encoder.abort_datagram();
        ++counters_.copies_unsent;
        return;
    }
    encoder.end_datagram();
    finish_draft(*draft, body.size(), batch, now);
    ++counters_.copies_sent;
}

void Session::send_piece_copy(const wire::Copy& original,
                              const wire::Fragment& piece,
                              const CopyWay& copy,
                              TransmitBatch& batch,
                              TimePoint now) {
    auto draft = start_draft(copy.destination, original.space.traffic_class, batch);
    if (!draft) {
        return;
    }
    ByteWriter body(draft->datagram.subspan(draft->header.size(), draft->body_limit));
    original.serialize(body);
    piece.serialize(body);
    if (!body.ok()) {
        ++counters_.copies_unsent;
        return;
    }
    elision::Encoder& encoder = draft->epoch->encoder;
    encoder.begin_datagram(draft->space_number, draft->space->next, now,
                           elision::Setting::Forbidden);
    encoder.end_datagram();
    finish_draft(*draft, body.size(), batch, now);
    ++counters_.copies_sent;
}

void Session::note_use(TimePoint now) {
    wants_ready_paths_ = wants_ready_paths_ || !is_used(now);
    packets_at_ = now;
}

bool Session::is_used(TimePoint now) const {
    return now - packets_at_ <= kReadyFor;
}

void Session::keep_paths_ready(TimePoint now) {
    const size_t handover = flows_by_mode_[static_cast<size_t>(PathMode::Handover)];
    if (settings_.role == Role::Node && attached_ > handover) {
        paths_.node().keep_ready(kKeepReady, now);
    }
}

}  // namespace continuo::session
