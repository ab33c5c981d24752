// What a session sends: probes of paths, upkeep. Aggregates are in session_aggregate.cpp,
// super-packets in session_super.cpp.
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

// A datagram without packets is small; room for frames of one.
constexpr uint32_t kControlBodyBytes = 1300;
constexpr size_t kMaxAcksPerDatagram = 8;
constexpr size_t kMaxReportsPerDatagram = 8;

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
    if (paths_.active() != sends_on_) {
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
        const bool is_urgent = traffic_class && base::is_low_delay(*traffic_class);
        if ((!is_urgent && send_kept(batch, now)) ||
            (traffic_class && send_class(*traffic_class, batch, now))) {
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
    paths_.on_numbered(draft.header.space(), draft.epoch->number, unit.sequence, outer,
                       !batch.open_attributions().empty(), now);
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
    const uint64_t most = std::max<uint64_t>(padded, kShortProbeBytes);
    if (!tuple.is_proven && tuple.unproven_sent_bytes + most >
                                tuple.unproven_received_bytes * wire::kAmplificationFactor) {
        drops_.add(DropReason::AmplificationLimit);
        paths_.on_withheld(*probe);
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
    if (probe->copies) {
        probe->copies->serialize(body);
    }
    if (probe->challenge) {
        probe->challenge->serialize(body);
    }
    if (probe->response) {
        probe->response->serialize(body);
    }
    if (probe->announce && probe->announce->active) {
        write_received(*draft, body, now);
        asked_to_repeat_at_ = now;
    }
    // An unproven tuple's few bytes are for the answer.
    if (probe->outer_bytes == 0 && (tuple.is_proven || padded != 0)) {
        write_frames(*draft, body, false, now, tuple.is_proven ? SIZE_MAX : 0);
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
    const auto wants = [now](EpochState& from) {
        return from.ledger.want_ack(now, false) ||
               from.report.wants(now, false, from.ledger.credit_bytes());
    };
    const bool wants_ack =
        wants(*epoch) || (previous_ && epoch == current_.get() && wants(*previous_));
    const bool wants_floor = epoch->encoder.wants_floor();
    if (!wants_ack && !keepalive_due_ && !wants_floor) {
        return false;
    }
    const auto destination = keepalive_due_ ? paths_.destination(TrafficClass::LtLd, now)
                                            : paths_.upkeep_destination(now);
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

// Acknowledgements and reports that are due. FLOOR frames are written by who began the datagram.
// Reports and TIME take at most `spare_bytes`: they can wait for another datagram.
size_t Session::write_frames(
    Draft& draft, ByteWriter& body, bool alone, TimePoint now, size_t spare_bytes) {
    const size_t before = body.size();
    const auto spare = [&] { return std::min(body.room(), spare_bytes); };
    const bool is_current = draft.epoch == current_.get();
    bool has_report = false;
    for (EpochState* epoch : {draft.epoch, is_current ? previous_.get() : nullptr}) {
        if (epoch == nullptr) {
            continue;
        }
        const bool wants_ack = epoch->ledger.want_ack(now, !alone);
        const bool rides = !alone || wants_ack || keepalive_due_ || body.size() > 0;
        const size_t start = body.size();
        has_report = write_reports(draft, *epoch, body, rides, spare(), now) || has_report;
        spare_bytes -= std::min(spare_bytes, body.size() - start);
        if (wants_ack) {
            write_acks(draft, *epoch, body, now);
        }
        if (wants_ack || body.size() > start) {
            const bool pays_datagram = alone && start == before;
            epoch->ledger.on_ack_sent(
                body.size() - start +
                (pays_datagram ? outer_overhead(draft.destination.to.address) + 22 : 0));
        }
    }
    const uint8_t path = draft.destination.path;
    if (paths_.is_time_due(path, has_report, now) && spare() >= wire::Time::kBytes) {
        wire::Time{clock_at(now)}.serialize(body);
        paths_.on_time_sent(path, now);
    }
    return body.size() - before;
}

void Session::write_acks(const Draft& draft, EpochState& epoch, ByteWriter& body, TimePoint now) {
    std::array<AckContent, kMaxAcksPerDatagram> contents;
    const size_t count = epoch.ledger.build(contents, now, body.room());
    for (size_t i = 0; i < count; ++i) {
        const wire::Ack ack = to_frame(contents[i], &epoch != draft.epoch);
        if (ack.run_count > 0 && ack.size() <= body.room()) {
            ack.serialize(body);
            ++counters_.acks_sent;
        }
    }
}

// `rides`: on a datagram that leaves anyway. True when there was something to tell.
bool Session::write_reports(const Draft& draft,
                            EpochState& epoch,
                            ByteWriter& body,
                            bool rides,
                            size_t room_bytes,
                            TimePoint now) {
    if (!epoch.report.wants(now, rides, epoch.ledger.credit_bytes())) {
        return false;
    }
    std::array<wire::Report, kMaxReportsPerDatagram> reports;
    const uint64_t lost_before = epoch.report.lost();
    const size_t count = epoch.report.build(reports, room_bytes, now);
    counters_.lost_datagrams += epoch.report.lost();
    counters_.lost_datagrams -= std::min(counters_.lost_datagrams, lost_before);
    for (size_t i = 0; i < count; ++i) {
        reports[i].previous_epoch = &epoch != draft.epoch;
        reports[i].serialize(body);
    }
    return count > 0;
}

std::optional<TrafficClass> Session::pick(TimePoint now) {
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
            state.is_blocked = true;  // behind what is sent again, or it overtakes that
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
    if (next != nullptr && next->offload.gso != packet::GsoType::None &&
        !compress_next(state, *way, now)) {
        return send_super(traffic_class, *way, batch, now);
    }
    scratch_.load.begin();
    const uint64_t before = state.counters.inner_bytes;
    const bool is_sent = send_aggregate(traffic_class, *way, batch, now);
    if (const auto spent = scratch_.load.end(state.counters.inner_bytes - before, now)) {
        compression_.on_compressed(*spent, now);
    }
    return is_sent;
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
