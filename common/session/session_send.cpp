// What a session sends: probes of paths, upkeep, super-packets. Aggregates are in
// session_aggregate.cpp.
#include "common/compress/incompressible.hpp"
#include "common/packet/segmenter.hpp"
#include "common/session/session.hpp"

#include <algorithm>

namespace continuo::session {

using base::ByteWriter;
using base::DropReason;
using base::index_of;
using base::MutableByteView;
using base::TimePoint;
using base::TrafficClass;
using flow::Flow;

namespace {

// A datagram without packets is small; room for frames of one.
constexpr uint32_t kControlBodyBytes = 1300;
constexpr size_t kMaxAcksPerDatagram = 8;

wire::Ack to_frame(const AckContent& content, bool previous_epoch) {
    wire::Ack ack;
    ack.space = wire::space_from_number(content.space);
    ack.previous_epoch = previous_epoch;
    for (size_t i = 0; i < content.run_count; ++i) {
        ack.add({static_cast<uint32_t>(content.runs[i].first),
                 static_cast<uint32_t>(content.runs[i].last)});
    }
    return ack;
}

}  // namespace

bool Session::poll_transmit(TransmitBatch& batch, TimePoint now) {
    if (current_ == nullptr) {
        return false;
    }
    if (const auto active = paths_.active(); active != sends_on_) {
        sends_on_ = active;
        for (ClassState& state : classes_) {
            state.estimator.on_path_changed();
        }
    }
    while (batch.has_room()) {
        if (send_probe(batch, now) || send_again(batch, now)) {
            continue;
        }
        if (const auto traffic_class = pick(now);
            traffic_class && send_class(*traffic_class, batch, now)) {
            continue;
        }
        if (!send_upkeep(batch, now)) {
            return false;
        }
    }
    return true;
}

std::optional<Session::Draft> Session::start_draft(const Destination& destination,
                                                   TrafficClass traffic_class,
                                                   TransmitBatch& batch) {
    EpochState* epoch = sending();
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

void Session::finish_draft(Draft& draft, size_t body_bytes, TransmitBatch& batch, TimePoint now) {
    ByteWriter header(draft.datagram);
    draft.header.serialize(header);
    crypto::SealedUnit unit;
    const size_t length = draft.header.size() + body_bytes + draft.epoch->sealer->tag_bytes();
    unit.datagram = draft.datagram.first(length);
    unit.header_bytes = static_cast<uint8_t>(draft.header.size());
    unit.space = draft.space_number;
    unit.sequence = draft.space->next++;
    draft.epoch->sealer->seal(std::span(&unit, 1));
    ++draft.epoch->sealed_datagrams;
    const uint32_t outer =
        outer_bytes(draft.destination.path, draft.destination.to.address, length);
    paths_.on_sent(draft.destination, length, !batch.open_attributions().empty(), now);
    if (draft.header.traffic_class == TrafficClass::LtLd &&
        paths_.active() == draft.destination.path) {
        kept_alive_at_ = now;
    }
    TransmitItem item;
    item.session = this;
    item.path = draft.destination.path;
    item.traffic_class = draft.destination.tuple_class;
    item.marked_class = draft.header.traffic_class;
    item.to = draft.destination.to;
    item.from = draft.destination.from;
    item.length = static_cast<uint32_t>(length);
    const auto members = batch.open_attributions();
    if (members.empty()) {
        counters_.overhead_sent += outer;
    } else {
        std::array<uint32_t, kMaxPacketsPerDatagram> weights{};
        std::array<uint32_t, kMaxPacketsPerDatagram> shares{};
        for (size_t i = 0; i < members.size(); ++i) {
            weights[i] = static_cast<uint32_t>(members[i].inner_bytes);
        }
        flow::divide_in_proportion(outer, std::span(weights).first(members.size()),
                                   std::span(shares).first(members.size()));
        for (size_t i = 0; i < members.size(); ++i) {
            members[i].outer_bytes = shares[i];
        }
    }
    if (!members.empty()) {
        paths_.on_data_sent(item.path, outer, outer, now);
        remember(batch, item, draft, unit.sequence, now);
    }
    batch.commit(item);
}

bool Session::send_probe(TransmitBatch& batch, TimePoint now) {
    const auto probe = paths_.next_probe(now);
    if (!probe) {
        return false;
    }
    const Path& path = paths_.path(probe->path);
    Destination destination{probe->path, probe->traffic_class, probe->to, probe->from, path.mtu,
                            UINT64_MAX};
    const Tuple& tuple = path.tuples[index_of(probe->traffic_class)];
    const uint32_t overhead = outer_overhead(probe->to.address);
    const size_t padded = probe->is_padded
                              ? wire::kAnnounceBodyBytes
                              : std::max<size_t>(probe->outer_bytes, overhead) - overhead;
    const uint32_t outer = overhead + std::max(static_cast<uint32_t>(padded), 64U);
    if (!tuple.is_proven && tuple.unproven_sent_bytes + outer >
                                tuple.unproven_received_bytes * wire::kAmplificationFactor) {
        drops_.add(DropReason::AmplificationLimit);
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
    if (probe->announce) {
        probe->announce->serialize(body);
    }
    if (probe->challenge) {
        probe->challenge->serialize(body);
    }
    if (probe->response) {
        probe->response->serialize(body);
    }
    if (probe->announce && probe->announce->active) {
        write_received(*draft, body);
    }
    if (probe->outer_bytes == 0) {
        write_frames(*draft, body, false, now);
    }
    draft->epoch->encoder.end_datagram();
    const size_t unpadded = draft->header.size() + body.size() + draft->epoch->sealer->tag_bytes();
    if (unpadded < padded) {
        wire::Pad{padded - unpadded}.serialize(body);
    }
    finish_draft(*draft, body.size(), batch, now);
    return true;
}

bool Session::send_upkeep(TransmitBatch& batch, TimePoint now) {
    EpochState* epoch = sending();
    const bool wants_ack =
        epoch->ledger.want_ack(now, false) ||
        (previous_ && epoch == current_.get() && previous_->ledger.want_ack(now, false));
    const bool wants_floor = epoch->encoder.wants_floor();
    if (!wants_ack && !keepalive_due_ && !wants_floor) {
        return false;
    }
    const auto destination = paths_.destination(TrafficClass::LtLd, now);
    if (!destination || destination->budget_bytes < kControlBodyBytes) {
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
    }
    write_frames(*draft, body, true, now);
    epoch->encoder.end_datagram();
    if (body.size() == 0 && !keepalive_due_) {
        return false;  // the byte credit did not allow it
    }
    keepalive_due_ = false;
    finish_draft(*draft, body.size(), batch, now);
    return true;
}

void Session::write_floors(const elision::Encoder& encoder, ByteWriter& body) {
    for (const elision::Floor& floor : encoder.floors()) {
        wire::Floor{wire::space_from_number(floor.space), static_cast<uint32_t>(floor.sequence)}
            .serialize(body);
    }
}

// Acknowledgements that are due. FLOOR frames are written by who began the datagram.
size_t Session::write_frames(Draft& draft, ByteWriter& body, bool alone, TimePoint now) {
    const size_t before = body.size();
    const bool is_current = draft.epoch == current_.get();
    for (EpochState* epoch : {draft.epoch, is_current ? previous_.get() : nullptr}) {
        if (epoch == nullptr || !epoch->ledger.want_ack(now, !alone)) {
            continue;
        }
        std::array<AckContent, kMaxAcksPerDatagram> contents;
        const size_t count = epoch->ledger.build(contents, now, body.room());
        size_t ack_bytes = 0;
        for (size_t i = 0; i < count; ++i) {
            const wire::Ack ack = to_frame(contents[i], epoch != draft.epoch);
            if (ack.run_count > 0 && ack.size() <= body.room()) {
                ack.serialize(body);
                ack_bytes += ack.size();
                ++counters_.acks_sent;
            }
        }
        epoch->ledger.on_ack_sent(ack_bytes +
                                  (alone ? outer_overhead(draft.destination.to.address) + 22 : 0));
    }
    return body.size() - before;
}

std::optional<TrafficClass> Session::pick(TimePoint now) {
    std::array<TimePoint, base::kTrafficClasses> ready_since;
    ready_since.fill(base::kNever);
    for (size_t i = 0; i < classes_.size(); ++i) {
        const ClassState& state = classes_[i];
        if (state.queue.empty() && state.split_entry.empty()) {
            continue;
        }
        const auto destination = paths_.destination(base::kAllTrafficClasses[i], now);
        if (!destination || destination->budget_bytes < destination->mtu) {
            continue;
        }
        if (ready_at(state, knobs(state, *destination), nullptr) <= now) {
            ready_since[i] = state.split_entry.empty() ? state.queue.waiting_since() : TimePoint{};
        }
    }
    return scheduler_.pick(ready_since, now);
}

bool Session::send_class(TrafficClass traffic_class, TransmitBatch& batch, TimePoint now) {
    ClassState& state = classes_[index_of(traffic_class)];
    const auto destination = paths_.destination(traffic_class, now);
    if (!destination) {
        return false;
    }
    if (state.split_entry.empty()) {
        const packet::Packet* next = state.queue.peek();
        if (next != nullptr && next->offload.gso != packet::GsoType::None) {
            return send_super(traffic_class, *destination, batch, now);
        }
    }
    return send_aggregate(traffic_class, *destination, batch, now);
}

bool Session::send_super(TrafficClass traffic_class,
                         const Destination& destination,
                         TransmitBatch& batch,
                         TimePoint now) {
    ClassState& state = classes_[index_of(traffic_class)];
    ClassQueue::Item item = state.queue.take();
    const packet::Offload& offload = item.packet->offload;
    const auto regular = packet::parse_regular(item.packet->bytes(), offload);
    auto draft = start_draft(destination, traffic_class, batch);
    if (!regular || !draft || flow_at(item.flow->index) != item.flow ||
        offload.segment_bytes == 0 || draft->epoch->encoder.wants_floor()) {
        cut_into_segments(state, std::move(item));
        return true;
    }
    const auto payload_bytes = static_cast<uint32_t>(regular->payload.size());
    const uint32_t segment_bytes = offload.segment_bytes;
    const uint32_t segments =
        std::max<uint32_t>(1, (payload_bytes + segment_bytes - 1) / segment_bytes);
    const uint32_t last_bytes = payload_bytes - (segments - 1) * segment_bytes;
    EpochState& epoch = *draft->epoch;
    const auto form = epoch.encoder.plan_segments(item.flow->index, regular->fields, segment_bytes,
                                                  segments, last_bytes, now);
    // One header form for the whole run keeps the datagrams equal.
    draft->header.long_sequence =
        wire::needs_long_form(draft->space->next + segments, draft->space->highest_acknowledged);
    const size_t header_bytes = draft->header.size();
    const size_t fixed = header_bytes + 1 + form.header_bytes + epoch.sealer->tag_bytes();
    const size_t datagram_bytes = fixed + segment_bytes;
    const uint32_t overhead = outer_overhead(destination.to.address);
    if (form.header_bytes == 0 || datagram_bytes + overhead > destination.mtu ||
        segments > 2 * kMaxSegmentsPerSend || datagram_bytes * segments > 2 * kMaxUdpPayloadBytes ||
        destination.budget_bytes < (datagram_bytes + overhead) * segments) {
        cut_into_segments(state, std::move(item));
        return true;
    }
    const size_t headers = regular->fields.header_bytes();
    const size_t per_send = std::min(kMaxSegmentsPerSend, kMaxUdpPayloadBytes / datagram_bytes);
    state.counters.queue_delay.add(now - item.packet->queued_at);
    for (uint32_t done = 0; done < segments;) {
        const auto count = static_cast<uint32_t>(std::min<size_t>(per_send, segments - done));
        const MutableByteView arena = batch.free_space();
        size_t used = 0;
        uint64_t payload_sent = 0;
        for (uint32_t i = 0; i < count; ++i) {
            const uint32_t segment = done + i;
            const uint32_t bytes = segment + 1 == segments ? last_bytes : segment_bytes;
            const MutableByteView datagram = arena.subspan(used, fixed + bytes);
            draft->header.sequence = static_cast<uint32_t>(draft->space->next + i);
            ByteWriter writer(datagram);
            draft->header.serialize(writer);
            constexpr uint8_t kLastRawSlot0 = 0x40;  // wire::SectionHead{}.serialize_last
            writer.u8(kLastRawSlot0);
            elision::write_segment_header(form, segment, writer.reserve(form.header_bytes).data());
            writer.bytes(regular->payload.subspan(size_t{segment} * segment_bytes, bytes));
            crypto::SealedUnit& unit = scratch_.units[i];
            unit.datagram = datagram;
            unit.header_bytes = static_cast<uint8_t>(header_bytes);
            unit.space = draft->space_number;
            unit.sequence = draft->space->next + i;
            used += datagram.size();
            payload_sent += bytes;
        }
        epoch.sealer->seal(std::span(scratch_.units).first(count));
        epoch.encoder.record_segments(form, done, count, draft->space_number, draft->space->next,
                                      now);
        draft->space->next += count;
        epoch.sealed_datagrams += count;
        const uint64_t outer =
            outer_bytes_of_run(destination.path, destination.to.address, used, datagram_bytes);
        paths_.on_sent(destination, used, true, now);
        paths_.on_data_sent(destination.path, static_cast<uint32_t>(datagram_bytes) + overhead,
                            outer, now);
        const uint64_t inner = payload_sent + headers * count;
        batch.attribute({item.flow, count, inner, payload_sent, outer});
        TransmitItem out;
        out.session = this;
        out.path = destination.path;
        out.traffic_class = destination.tuple_class;
        out.marked_class = traffic_class;
        out.to = destination.to;
        out.from = destination.from;
        out.length = static_cast<uint32_t>(used);
        out.segment_bytes = static_cast<uint16_t>(count > 1 ? datagram_bytes : 0);
        out.datagrams = static_cast<uint16_t>(count);
        remember(batch, out, *draft, draft->space->next - count, now);
        batch.commit(out);
        state.counters.packets += count;
        state.counters.datagrams += count;
        state.counters.inner_bytes += inner;
        state.counters.wire_bytes += outer;
        done += count;
    }
    ++state.counters.super_packets;
    state.counters.super_segments += segments;
    state.counters.packets_alone += segments;
    return true;
}

bool Session::is_worth_compressing(const ClassState& state,
                                   const Flow& flow,
                                   base::ByteView payload,
                                   TimePoint now) {
    if (state.settings.compression_level == 0 || !flow.may_compress ||
        compress::is_incompressible(payload)) {
        return false;
    }
    return !state.settings.is_compression_automatic ||
           compression_budget_.take(payload.size(), now);
}

// Puts the packets that the kernel would have cut in the super-packet's place.
void Session::cut_into_segments(ClassState& state, ClassQueue::Item item) {
    packet::Packet& super = *item.packet;
    packet::PacketPool& pool = *super.pool;
    const uint32_t count = packet::segment_count(super.bytes(), super.offload);
    if (count == 0) {
        drops_.add(DropReason::MalformedPacket);
        return;
    }
    const size_t capacity =
        size_t{super.offload.segment_bytes} + 128;  // headers are at most 40 + 60
    for (uint32_t i = count; i-- > 0;) {
        auto segment = pool.take(capacity);
        if (segment == nullptr) {
            drops_.add(DropReason::PoolEmpty);
            continue;
        }
        const size_t length =
            packet::write_segment(super.bytes(), super.offload, i, segment->buffer());
        if (length == 0) {
            drops_.add(DropReason::MalformedPacket);
            continue;
        }
        segment->length = static_cast<uint32_t>(length);
        segment->offload = {};
        segment->queued_at = super.queued_at;
        state.queue.put_back({item.flow, std::move(segment)});
    }
    ++state.counters.software_segmented;
}

void Session::on_sent(const TransmitBatch& batch, const TransmitItem& item) {
    const bool is_up = item.session->settings_.role == Role::Node;
    for (const Attribution& part : batch.attributions(item)) {
        if (part.flow == nullptr || part.flow->counters == nullptr) {
            continue;
        }
        flow::LiveCounters& counters = part.flow->counters->counters;
        flow::add(is_up ? counters.packets_up : counters.packets_down, part.packets);
        flow::add(is_up ? counters.inner_up : counters.inner_down, part.inner_bytes);
        flow::add(is_up ? counters.payload_up : counters.payload_down, part.payload_bytes);
        flow::add(is_up ? counters.pre_up : counters.pre_down, part.inner_bytes);
        flow::add(is_up ? counters.post_up : counters.post_down, part.outer_bytes);
    }
}

}  // namespace continuo::session
