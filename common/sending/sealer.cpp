#include "common/sending/sealer.hpp"

#include "common/flow/attribution.hpp"

#include <algorithm>

namespace continuo::sending {

using base::ByteWriter;
using base::TimePoint;
using base::TrafficClass;
using path::Destination;
using path::Role;
using routing::Way;
using session::Attribution;
using session::ClassSettings;
using session::DatagramInfo;
using session::Draft;
using session::EpochState;
using session::kMaxPacketsPerDatagram;
using session::NamedNumbers;
using session::outer_bytes;
using session::outer_bytes_of_run;
using session::outer_overhead;
using session::SentDatagrams;
using session::SentEntry;
using session::SessionCore;
using session::space_slot;
using session::TransmitBatch;
using session::TransmitItem;

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

Sealer::Sealer(SessionCore& core, SentDatagrams& sent)
    : core_(core), settings_(core.settings), paths_(core.paths), sent_(sent) {}

std::optional<Draft> Sealer::start(const Destination& destination,
                                   TrafficClass traffic_class,
                                   TransmitBatch& batch,
                                   EpochState* under) const {
    EpochState* epoch = under != nullptr ? under : core_.epochs.sending();
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
    const ClassSettings& settings = settings_.classes[base::index_of(traffic_class)];
    const uint32_t outer = settings.max_bytes != 0
                               ? std::min<uint32_t>(settings.max_bytes, destination.mtu)
                               : destination.mtu;
    draft.body_limit = outer > overhead ? outer - overhead : 0;
    draft.datagram = batch.free_space();
    return draft;
}

std::optional<Draft>
Sealer::start(const Way& way, TrafficClass traffic_class, TransmitBatch& batch) const {
    auto draft = start(way.destination, traffic_class, batch);
    if (draft) {
        draft->has_order = way.is_striped;
    }
    return draft;
}

void Sealer::finish(Draft& draft, size_t body_bytes, TransmitBatch& batch, TimePoint now) {
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

void Sealer::commit(const DatagramInfo& info, TransmitBatch& batch, TimePoint now) {
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
        note_flows(*info.draft, info.count);
    } else {
        log_repeats(info, now);
    }
    if (has_packets) {
        paths_.path(to.path).on_data_sent(outer_bytes(to.path, to.to.address, info.segment_bytes),
                                          outer, now);
    }
    if (info.traffic_class == base::TrafficClass::LtLd && paths_.active() == to.path) {
        core_.upkeep.on_lt_ld_sent(now);
    }
    share_out(outer, parts);
    if (is_new && has_packets && settings_.role == Role::Snapt) {
        if (!is_overhead) {
            sent_.remember(info, batch.free_space().first(info.bytes), now);
        }
        if (!core_.unheard.may_send(now)) {
            batch.discard();
            core_.drops.add(base::DropReason::NodeGone, info.count);
            return;  // the node is away, and the datagrams are remembered
        }
    }
    TransmitItem item;
    item.session = &core_.session;
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
        core_.counters.overhead[base::index_of(info.traffic_class)].sent += outer;
    }
}

// Takes the next numbers of the space.
void Sealer::number_new(const DatagramInfo& info, bool has_packets, TimePoint now) {
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

// Flows of mode packet go on with the next numbers.
void Sealer::note_flows(const Draft& draft, uint16_t datagrams) {
    for (size_t i = 0; draft.has_order && i < core_.scratch.order.count; ++i) {
        if (flow::Flow* const flow = core_.flows.at(core_.scratch.order.places[i].index)) {
            flow->paths.next_number = static_cast<uint16_t>(flow->paths.next_number + datagrams);
        }
    }
}

// One that an ACK has named meanwhile is waited for nowhere. PathSet is told of one at a time,
// since they may be in different logs; the new log joins them.
void Sealer::log_repeats(const DatagramInfo& info, TimePoint now) {
    const SentEntry& entry = *info.repeated;
    const EpochState* const epoch = core_.epochs.find(entry.epoch);
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

bool Sealer::expands_too_far(const Draft& draft, size_t inner_bytes, size_t body_bytes) const {
    const size_t datagram = draft.header.size() + body_bytes + draft.epoch->sealer->tag_bytes();
    const size_t outer =
        outer_bytes(draft.destination.path, draft.destination.to.address, datagram);
    return settings_.role == Role::Node && inner_bytes > wire::kMaxExpansion * outer;
}

uint16_t Sealer::next_fragment_id(TrafficClass traffic_class) {
    uint16_t& last = last_fragment_ids_[base::index_of(traffic_class)];
    last = static_cast<uint16_t>((last + 1U) % wire::kMaxFragmentIds);
    return last;
}

}  // namespace continuo::sending
