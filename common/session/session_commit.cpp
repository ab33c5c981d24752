// What leaves: each datagram, of whatever kind, passes commit().
#include "common/flow/attribution.hpp"
#include "common/session/session.hpp"

#include <algorithm>

namespace continuo::session {

using base::ByteWriter;
using base::TimePoint;

namespace {

// Each flow's share of the outer bytes follows its inner bytes.
void share_out(uint64_t outer_bytes, std::span<Attribution> parts) {
    if (parts.empty()) {
        return;
    }
    std::array<uint32_t, kMaxPacketsPerDatagram> weights{};
    std::array<uint32_t, kMaxPacketsPerDatagram> shares{};
    for (size_t i = 0; i < parts.size(); ++i) {
        weights[i] = static_cast<uint32_t>(parts[i].inner_bytes);
    }
    flow::divide_in_proportion(static_cast<uint32_t>(outer_bytes),
                               std::span(weights).first(parts.size()),
                               std::span(shares).first(parts.size()));
    for (size_t i = 0; i < parts.size(); ++i) {
        parts[i].outer_bytes = shares[i];
    }
}

}  // namespace

void Session::finish_draft(Draft& draft, size_t body_bytes, TransmitBatch& batch, TimePoint now) {
    ByteWriter header(draft.datagram);
    draft.header.serialize(header);
    crypto::SealedUnit unit;
    const size_t length = draft.header.size() + body_bytes + draft.epoch->sealer->tag_bytes();
    unit.datagram = draft.datagram.first(length);
    unit.header_bytes = static_cast<uint8_t>(draft.header.size());
    unit.space = draft.space_number;
    unit.sequence = draft.space->next;
    draft.epoch->sealer->seal(std::span(&unit, 1));
    DatagramInfo info;
    info.draft = &draft;
    info.destination = draft.destination;
    info.traffic_class = draft.header.traffic_class;
    info.bytes = info.segment_bytes = static_cast<uint32_t>(length);
    commit(info, batch, now);
}

// The only place where something leaves: it is numbered, logged, charged to the budgets of its path
// and counted. False: its node is away, and only SNAPT remembers it.
bool Session::commit(const DatagramInfo& info, TransmitBatch& batch, TimePoint now) {
    const Destination& to = info.destination;
    const std::span<Attribution> parts = batch.open_attributions();
    const bool is_new = info.repeated == nullptr;
    const bool is_overhead = parts.empty();
    const bool has_packets = !is_new || !is_overhead || info.draft->has_kept;
    const uint64_t outer =
        outer_bytes_of_run(to.path, to.to.address, info.bytes, info.segment_bytes);
    paths_.on_sent(to, info.bytes, has_packets, now);
    if (is_new) {
        number_new(info, has_packets, now);
        note_flows(*info.draft, info.count, parts);
    } else {
        log_repeats(info, now);
    }
    if (has_packets) {
        paths_.path(to.path).on_data_sent(outer_bytes(to.path, to.to.address, info.segment_bytes),
                                          outer, now);
    }
    if (info.traffic_class == base::TrafficClass::LtLd && paths_.active() == to.path) {
        kept_alive_at_ = now;
    }
    share_out(outer, parts);
    if (is_new && has_packets && settings_.role == Role::Snapt) {
        if (!is_overhead) {
            remember(info, batch, now);
        }
        if (!unheard_.may_send(now)) {
            batch.discard();
            drops_.add(base::DropReason::NodeGone, info.count);
            return false;
        }
    }
    TransmitItem item;
    item.session = this;
    item.path = to.path;
    item.traffic_class = to.tuple_class;
    item.marked_class = info.traffic_class;
    item.to = to.to;
    item.from = to.from;
    item.is_unmarked = to.is_unmarked;
    item.length = info.bytes;
    item.segment_bytes = static_cast<uint16_t>(info.count > 1 ? info.segment_bytes : 0);
    item.datagrams = info.count;
    batch.commit(item);
    if (is_overhead) {
        counters_.overhead[base::index_of(info.traffic_class)].sent += outer;
    }
    return true;
}

// Takes the next numbers of the space.
void Session::number_new(const DatagramInfo& info, bool has_packets, TimePoint now) {
    const Draft& draft = *info.draft;
    const Destination& to = info.destination;
    recovery::SentRun run;
    run.space = {draft.epoch->number, draft.space_number};
    run.first = static_cast<uint32_t>(draft.space->next);
    run.count = static_cast<uint8_t>(info.count);
    run.bytes = static_cast<uint16_t>(outer_bytes(to.path, to.to.address, info.segment_bytes));
    run.last_bytes = static_cast<uint16_t>(outer_bytes(to.path, to.to.address, info.last_bytes()));
    run.has_packets = has_packets;
    run.asks = draft.has_ping;
    run.is_size_probe = draft.is_size_probe;
    run.is_other_way = draft.is_other_way;
    draft.space->next += info.count;
    draft.epoch->sealed_datagrams += info.count;
    paths_.on_numbered(run, now);
}

// The router's answer holds from now on: the flows of mode flow stay on the path, and those of mode
// packet go on with the next numbers.
void Session::note_flows(const Draft& draft,
                         uint16_t datagrams,
                         std::span<const Attribution> parts) {
    for (const Attribution& part : parts) {
        if (draft.is_pinned && part.flow != nullptr) {
            Router::commit(*part.flow, draft.destination.path);
        }
    }
    for (size_t i = 0; draft.has_order && i < scratch_.order.count; ++i) {
        if (flow::Flow* const flow = flow_at(scratch_.order.places[i].index)) {
            flow->paths.next_number = static_cast<uint16_t>(flow->paths.next_number + datagrams);
        }
    }
}

// One that an ACK has named meanwhile is waited for nowhere. PathSet is told of one at a time,
// since they may be in different logs; the new log joins them.
void Session::log_repeats(const DatagramInfo& info, TimePoint now) {
    const SentEntry& entry = *info.repeated;
    const EpochState* const epoch = sent_in(entry);
    if (epoch == nullptr) {
        return;  // its keys are gone, so nobody names it
    }
    const Destination& to = info.destination;
    const NamedNumbers* const named = epoch->send_spaces[space_slot(entry.space)].named.get();
    recovery::SentRun run;
    run.space = {entry.epoch, entry.space};
    run.count = 1;
    run.has_packets = true;
    for (uint32_t i = 0; i < info.count; ++i) {
        run.first = static_cast<uint32_t>(entry.first_sequence) + entry.repeated + i;
        if (named != nullptr && named->contains(run.first)) {
            continue;
        }
        const uint32_t bytes = i + 1U < info.count ? info.segment_bytes : info.last_bytes();
        run.bytes = static_cast<uint16_t>(outer_bytes(to.path, to.to.address, bytes));
        run.last_bytes = run.bytes;
        paths_.logs().on_sent_again(run, to.path, now);
    }
}

// SNAPT keeps what carries something new, for when its node moves or comes back. A node chooses
// when it moves, so it has then sent what it had.
void Session::remember(const DatagramInfo& info, TransmitBatch& batch, TimePoint now) {
    const Draft& draft = *info.draft;
    SentEntry entry;
    entry.sent_at = now;
    entry.first_sequence = draft.space->next - info.count;
    entry.epoch = draft.epoch->number;
    entry.space = draft.space_number;
    entry.segment_bytes = static_cast<uint16_t>(info.count > 1 ? info.segment_bytes : 0);
    entry.datagrams = info.count;
    entry.traffic_class = info.traffic_class;
    entry.tuple_class = info.destination.tuple_class;
    sent_ring_.forget_oldest([this, now](const SentEntry& old) { return !is_under_way(old, now); });
    // While nothing is heard the node may be away: everything is kept that there is room for.
    const TimePoint from =
        heard_at_ - std::min<base::Duration>(kUsefulFor, heard_at_.time_since_epoch());
    sent_ring_.push(entry, batch.free_space().first(info.bytes), from);
}

EpochState* Session::sent_in(const SentEntry& entry) const {
    for (EpochState* epoch : {current_.get(), previous_.get()}) {
        if (epoch != nullptr && epoch->number == entry.epoch) {
            return epoch;
        }
    }
    return nullptr;
}

// No ACK has named its last number or a higher one of its space, and it is not given up. Other
// spaces prove nothing: the node may receive datagrams on other paths while this path is silent.
bool Session::is_under_way(const SentEntry& entry, TimePoint now) const {
    const EpochState* const epoch = sent_in(entry);
    if (epoch == nullptr) {
        return false;
    }
    const auto& highest = epoch->send_spaces[space_slot(entry.space)].highest_acknowledged;
    const bool is_newer = !highest || entry.first_sequence + entry.datagrams - 1 > *highest;
    return is_newer && !epoch->encoder.has_given_up(entry.sent_at, now);
}

}  // namespace continuo::session
