// Sending: probes of paths, upkeep. Aggregates are in session_aggregate.cpp, super-packets in
// session_super.cpp.
#include "common/session/session.hpp"

#include <algorithm>
#include <utility>

namespace continuo::session {

using base::ByteWriter;
using base::DropReason;
using base::index_of;
using base::TimePoint;
using base::TrafficClass;

namespace {

// A super-packet that takes longer than 1/kLongestAtRate s at the session's rate is cut up, or all
// others would wait for it. A choice, like the burst of a rate.
constexpr uint64_t kLongestAtRate = 20;
// CLOSED frames in a datagram: each costs the other end 32 look-ups.
constexpr size_t kMostClosed = 4;
// A question is as much longer than its frame, so that three answers, whose header is two bytes
// longer, fit into three times its size: the detour moves the tuple that they go to.
constexpr size_t kClassQuestionPad = 3;

}  // namespace

bool Session::poll_transmit(TransmitBatch& batch, TimePoint now) {
    if (current_ == nullptr) {
        return false;
    }
    if (paths_.active() != sends_on_ || paths_.connections() != sends_on_connection_) {
        on_active_changed(now);
    }
    if (std::exchange(wants_ready_paths_, false)) {
        keep_paths_ready(now);
    }
    while (batch.has_room()) {
        if (send_probe(batch, now) || send_again(batch, now)) {
            continue;
        }
        const auto traffic_class = pick(now);
        // Behind a full datagram it would meet a full queue in the path.
        if (traffic_class && !leaves_room_for_ack(*traffic_class)) {
            const auto ack = next_lone_ack(now);
            if (ack && ack->due_at <= now && send_upkeep(batch, now)) {
                continue;
            }
        }
        const bool is_urgent = traffic_class && base::is_low_delay(*traffic_class);
        if ((!is_urgent && send_kept(batch, now)) ||
            (traffic_class && send_class(*traffic_class, batch, now))) {
            continue;
        }
        if (!send_upkeep(batch, now)) {
            paths_.on_app_limited();
            return false;
        }
    }
    return true;
}

std::optional<Draft> Session::start_draft(const Destination& destination,
                                          TrafficClass traffic_class,
                                          TransmitBatch& batch,
                                          EpochState* under) {
    EpochState* epoch = under != nullptr ? under : sending();
    if (epoch == nullptr || epoch->sealed_datagrams >= wire::kMaxKeyDatagrams) {
        return std::nullopt;
    }
    Draft draft;
    draft.epoch = epoch;
    draft.destination = destination;
    draft.space_number = wire::space_of(traffic_class, destination.path, 0);
    draft.space = &epoch->send_spaces[space_slot(draft.space_number)];
    draft.header.epoch = static_cast<uint8_t>(epoch->number % wire::kEpochModulus);
    draft.header.traffic_class = traffic_class;
    draft.header.path = destination.path;
    draft.header.session_id = settings_.peer_id;
    draft.header.long_sequence =
        wire::needs_long_form(draft.space->next, draft.space->highest_acknowledged);
    draft.header.sequence = static_cast<uint32_t>(draft.space->next);
    const uint32_t overhead = outer_overhead(destination.to.address) +
                              static_cast<uint32_t>(draft.header.size()) +
                              static_cast<uint32_t>(epoch->sealer->tag_bytes());
    const ClassSettings& settings = classes_[index_of(traffic_class)].settings;
    const uint32_t outer = settings.max_bytes != 0
                               ? std::min<uint32_t>(settings.max_bytes, destination.mtu)
                               : destination.mtu;
    draft.body_limit = outer > overhead ? outer - overhead : 0;
    draft.datagram = batch.free_space();
    return draft;
}

std::optional<Draft>
Session::start_draft(const Way& way, TrafficClass traffic_class, TransmitBatch& batch) {
    auto draft = start_draft(way.destination, traffic_class, batch);
    if (draft) {
        draft->is_pinned = way.is_pinned;
        draft->has_order = way.is_striped;
    }
    return draft;
}

// The body would expand at the SNAPT to more than the outer bytes of a node allow (docs/PROTOCOL.md
// section 7.1).
bool Session::expands_too_far(const Draft& draft, size_t inner_bytes, size_t body_bytes) const {
    const size_t datagram = draft.header.size() + body_bytes + draft.epoch->sealer->tag_bytes();
    const size_t outer =
        outer_bytes(draft.destination.path, draft.destination.to.address, datagram);
    return settings_.role == Role::Node && inner_bytes > wire::kMaxExpansion * outer;
}

bool Session::send_probe(TransmitBatch& batch, TimePoint now) {
    const auto probe = paths_.next_probe(now);
    if (!probe) {
        return false;
    }
    Path& path = paths_.path(probe->path);
    const TrafficClass tuple_class = probe->tuple_class.value_or(probe->traffic_class);
    Destination destination{probe->path, tuple_class, probe->to, probe->from, path.mtu()};
    const path::ClassWay usual = path.feedback().way_of(probe->traffic_class);
    const path::ClassWay way = probe->way.value_or(usual);
    destination.is_unmarked = way != path::ClassWay::Own;
    const Tuple& tuple = path.validation().tuple(tuple_class);
    const uint32_t overhead = outer_overhead(probe->to.address);
    const size_t padded = probe->is_padded
                              ? wire::kAnnounceBodyBytes
                              : std::max<size_t>(probe->outer_bytes, overhead) - overhead;
    // An unproven tuple gets one short frame, and no more room than it needs: an answer and a
    // challenge fit into three times the size of the node's challenge.
    const uint64_t shortest =
        wire::kLongHeaderBytes + wire::Challenge::kBytes + sending()->sealer->tag_bytes();
    const uint64_t most = std::max<uint64_t>(padded, shortest);
    if (!tuple.may_take(most)) {
        drops_.add(DropReason::AmplificationLimit);
        path.on_withheld(*probe);
        return true;
    }
    auto draft = start_draft(destination, probe->traffic_class, batch);
    if (!draft) {
        return false;
    }
    draft->epoch->encoder.begin_datagram(draft->space_number, draft->space->next, now,
                                         elision::Setting::Forbidden);
    ByteWriter body(
        draft->datagram.subspan(draft->header.size(), std::max<size_t>(kControlBodyBytes, padded)));
    probe->serialize(body);
    if (probe->has_ping || probe->wants_ack) {
        wire::Ping{}.serialize(body);
        draft->has_ping = probe->has_ping;
    }
    draft->is_size_probe = probe->outer_bytes != 0;
    const bool is_own_tuple = usual == path::ClassWay::Detour && tuple_class != TrafficClass::LtLd;
    draft->is_other_way = way != usual || is_own_tuple;
    if (probe->announce && probe->announce->active) {
        write_received(*draft, body, now);
        asked_to_repeat_at_ = now;
    }
    // The few bytes allowed to an unproven tuple are for the answer. A class question stays short.
    if (probe->outer_bytes == 0 && !probe->is_class_question &&
        (tuple.is_proven() || padded != 0)) {
        write_frames(*draft, body, false, now, tuple.is_proven() ? SIZE_MAX : 0);
    }
    draft->epoch->encoder.end_datagram();
    const size_t unpadded = draft->header.size() + body.size() + draft->epoch->sealer->tag_bytes();
    // To the node a CHALLENGE without PAD says that its address has changed.
    const size_t wanted =
        std::max(padded, probe->is_class_question ? unpadded + kClassQuestionPad : 0);
    if (unpadded < wanted) {
        wire::Pad{wanted - unpadded}.serialize(body);
    }
    finish_draft(*draft, body.size(), batch, now);
    return true;
}

// Whether the next datagram of the queue has room for a piggybacked acknowledgement.
bool Session::leaves_room_for_ack(TrafficClass traffic_class) {
    constexpr uint32_t kRoom = 128;  // beside the packet, including the headers of the datagram
    ClassState& state = classes_[index_of(traffic_class)];
    const packet::Packet* const next = state.split_entry.empty() ? state.queue.peek() : nullptr;
    const auto active = paths_.active();
    return next != nullptr && next->offload.gso == packet::GsoType::None && active &&
           next->length + kRoom <= paths_.path(*active).mtu();
}

bool Session::send_upkeep(TransmitBatch& batch, TimePoint now) {
    EpochState* epoch = sending();
    std::optional<Destination> destination;
    if (keepalive_due_) {
        destination = paths_.selector().destination(TrafficClass::LtLd, now);
    }
    const bool is_keepalive = has_control_room(destination);
    const auto ack = next_lone_ack(now);
    const bool owes_ack = ack && ack->due_at <= now;
    if (!is_keepalive && owes_ack) {
        destination = ack->destination;
    } else if (!is_keepalive && epoch->encoder.wants_floor()) {
        destination = paths_.selector().upkeep_destination(now);
    }
    if (!has_control_room(destination)) {
        return false;
    }
    auto draft = start_draft(*destination, TrafficClass::LtLd, batch);
    if (!draft) {
        return false;
    }
    ByteWriter body(draft->datagram.subspan(draft->header.size(), kControlBodyBytes));
    epoch->encoder.begin_datagram(draft->space_number, draft->space->next, now);
    write_floors(epoch->encoder, body);
    if (!epoch->encoder.floors().empty()) {
        wire::Ping{}.serialize(body);
        draft->has_ping = true;
    }
    write_frames(*draft, body, !is_keepalive, now);
    if (body.size() > 0) {
        // A node that asks because it hears nothing tells then what has come.
        if (settings_.role == Role::Snapt && owes_ack && ack->answers_ping &&
            paths_.path(destination->path).feedback().has_unconfirmed_class(now)) {
            wire::Ping{}.serialize(body);
        }
        write_closed(*epoch, body, body.room(), now);
    }
    epoch->encoder.end_datagram();
    if (body.size() == 0 && !is_keepalive) {
        return false;  // the byte credit did not allow it
    }
    if (is_keepalive) {
        keepalive_due_ = false;
        Path* const path = paths_.active_path();
        if (path != nullptr && settings_.role == Role::Node) {
            path->node().on_keepalive(kept_alive_at_, now);
        }
    }
    finish_draft(*draft, body.size(), batch, now);
    if (settings_.role == Role::Node && !is_keepalive && owes_ack &&
        ack->acknowledged_path == destination->path) {
        paths_.path(destination->path).node().expect_more(now);
    }
    return true;
}

void Session::write_floors(const elision::Encoder& encoder, ByteWriter& body) {
    for (const elision::Floor& floor : encoder.floors()) {
        wire::Floor{wire::space_from_number(floor.space), static_cast<uint32_t>(floor.sequence)}
            .serialize(body);
    }
}

// Writes flows that have ended, unless another flow has their index by now, in at most that many
// bytes. They are only piggybacked: no datagram leaves for them alone.
void Session::write_closed(EpochState& epoch, ByteWriter& body, size_t spare, TimePoint now) {
    for (size_t i = 0; i < kMostClosed && !closed_.is_empty(); ++i) {
        wire::Closed frame;
        size_t bytes = wire::Closed::kHeadBytes + wire::Closed::kMaxIndexBytes;
        for (; !closed_.is_empty() && bytes <= spare && frame.count < wire::kMaxClosedFlows;
             bytes += wire::Closed::kMaxIndexBytes) {
            const uint32_t index = closed_.take();
            if (settings_.role == Role::Node) {
                closed_.rest(index, now + elision::skew_for(paths_.largest_rtt()));
            }
            if (flow_at(index) == nullptr && frame.add(index)) {
                epoch.encoder.count_user(index);
            }
        }
        if (frame.count == 0) {
            return;
        }
        frame.serialize(body);
        spare -= std::min(spare, frame.size());
    }
}

std::optional<TrafficClass> Session::pick(TimePoint now) {
    if (settings_.rate != nullptr && !settings_.rate->may_pass(now)) {
        return std::nullopt;
    }
    std::array<TimePoint, base::kTrafficClasses> ready_since;
    ready_since.fill(base::kNever);
    for (size_t i = 0; i < classes_.size(); ++i) {
        ClassState& state = classes_[i];
        state.is_blocked = false;
        state.goes_to.reset();
        if (state.queue.empty() && state.split_entry.empty()) {
            continue;
        }
        if (sent_ring_.has_due() && !base::is_low_delay(base::kAllTrafficClasses[i])) {
            state.is_blocked = true;  // waits behind repeated datagrams, which it would overtake
            continue;
        }
        const auto way = sendable_way(state, base::kAllTrafficClasses[i], now);
        state.is_blocked = !way;
        if (way && has_spread_flows()) {
            state.goes_to = way->destination;
        }
        if (way && ready_at(state, knobs(state, way->destination), nullptr) <= now) {
            ready_since[i] = state.split_entry.empty() ? state.queue.waiting_since() : TimePoint{};
        }
    }
    return scheduler_.pick(ready_since, now);
}

bool Session::send_class(TrafficClass traffic_class, TransmitBatch& batch, TimePoint now) {
    ClassState& state = classes_[index_of(traffic_class)];
    const auto way = sendable_way(state, traffic_class, now);
    if (!way) {
        return false;
    }
    const packet::Packet* next = state.split_entry.empty() ? state.queue.peek() : nullptr;
    const uint64_t before = state.counters.inner_bytes;
    const bool is_super = next != nullptr && next->offload.gso != packet::GsoType::None &&
                          !compress_next(state, *way, now);
    bool is_sent = false;
    if (is_super && settings_.rate != nullptr && settings_.rate->is_limited() &&
        uint64_t{next->length} * 8 > settings_.rate->bits_per_s() / kLongestAtRate) {
        cut_or_drop(state, state.queue.take());
        return true;
    }
    if (is_super) {
        is_sent = send_super(traffic_class, *way, batch, now);
    } else {
        scratch_.load.begin();
        is_sent = send_aggregate(traffic_class, *way, batch, now);
        if (const auto spent = scratch_.load.end(state.counters.inner_bytes - before, now)) {
            compression_.on_compressed(*spent, now);
        }
    }
    if (settings_.rate != nullptr) {
        settings_.rate->take(state.counters.inner_bytes - before, now);
    }
    return is_sent;
}

void Session::on_sent(const TransmitBatch& batch, const TransmitItem& item) {
    const bool is_up = item.session->settings_.role == Role::Node;
    for (const Attribution& part : batch.attributions(item)) {
        if (part.flow == nullptr || part.flow->counters == nullptr) {
            continue;
        }
        if (!is_up) {
            item.session->count_way(*part.flow, item.path, part.packets, part.waited_us);
            item.session->unheard_.on_sent(part);
            continue;
        }
        flow::LiveCounters& counters = part.flow->counters->counters;
        flow::add(counters.packets_up, part.packets);
        flow::add(counters.inner_up, part.inner_bytes);
        flow::add(counters.payload_up, part.payload_bytes);
        flow::add(counters.pre_up, part.inner_bytes);
        flow::add(counters.post_up, part.outer_bytes);
    }
}

}  // namespace continuo::session
