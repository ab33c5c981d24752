// Which packet of a class is next by its way (Router), and copies (docs/PROTOCOL.md section 5.9).
#include "common/session/session.hpp"

#include <algorithm>

namespace continuo::session {

using base::ByteWriter;
using base::index_of;
using base::PathMode;
using base::TimePoint;
using base::TrafficClass;
using flow::Flow;

namespace {

// A path that has less room for a body takes no copies.
constexpr uint32_t kMinCopyBodyBytes = 200;
// Flows that may be passed by in the search for one that goes along.
constexpr size_t kMaxPasses = 4;
// Where many flows wait for the full socket of one path, before nothing is sent by another.
constexpr size_t kMaxPassesToSend = 64;

}  // namespace

void Session::set_mode(Flow& flow, PathMode mode) {
    if (flow.paths.mode == mode) {
        return;
    }
    const bool is_attached = flow.owner == this && flow_at(flow.index) == &flow;
    if (is_attached) {
        router_.remove(flow);
    } else {
        router_.unpin(flow, flow.traffic_class);
    }
    flow.paths.mode = mode;
    if (is_attached) {
        router_.add(flow);
    }
}

std::optional<Way>
Session::way_of(const Flow& flow, const packet::Packet& packet, TimePoint now) const {
    const TrafficClass traffic_class = flow.traffic_class;
    return flow_at(flow.index) == &flow
               ? router_.way_of(flow, packet, classes_[index_of(traffic_class)].settings, now)
               : router_.usual_way(traffic_class, now);
}

std::optional<Way>
Session::next_way(ClassState& state, TrafficClass traffic_class, TimePoint now) const {
    const packet::Packet* next =
        router_.spreads() && state.split_entry.empty() ? state.queue.peek() : nullptr;
    return next != nullptr ? way_of(*state.queue.peek_flow(), *next, now)
                           : router_.usual_way(traffic_class, now);
}

// One flow that has to wait for its path does not keep those of others waiting.
std::optional<Way>
Session::sendable_way(ClassState& state, TrafficClass traffic_class, TimePoint now) {
    for (size_t passes = 0;; ++passes) {
        const auto way = next_way(state, traffic_class, now);
        if (way && way->destination.budget_bytes >= way->destination.mtu) {
            return way;
        }
        const size_t most = std::min<size_t>(kMaxPassesToSend, state.queue.flows());
        if (passes >= most || !router_.spreads() || !state.queue.pass_turn()) {
            return std::nullopt;
        }
    }
}

// Whether what is next in the queue can be in a datagram that takes that way; looks past some flows
// that cannot.
bool Session::goes_along(const Way& way, ClassState& state, TimePoint now) {
    for (size_t passes = 0;; ++passes) {
        const packet::Packet* next = state.queue.peek();
        if (next == nullptr) {
            return false;
        }
        Flow& flow = *state.queue.peek_flow();
        const auto own = way_of(flow, *next, now);
        const bool is_alike =
            own && own->is_striped == way.is_striped &&
            (way.is_striped ? own->row == way.row : own->destination.path == way.destination.path);
        if (is_alike) {
            router_.commit(flow, *own);
            return true;
        }
        if (passes == kMaxPasses || !state.queue.pass_turn()) {
            return false;
        }
    }
}

// The copy is not longer than its path takes.
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
                            wire::Copy::kMostBytes;
    if (outer >= beside + kMinCopyBodyBytes) {
        draft.body_limit = std::min(draft.body_limit, outer - beside);
    }
}

// `bytes`: of the original, about.
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

// The packets of the datagram that was sealed last, anew, for another path.
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
        scratch_.packets[i].is_announced = false;  // only what sets tells of a flow for good
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

}  // namespace continuo::session
