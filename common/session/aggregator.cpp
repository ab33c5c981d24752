#include "common/session/aggregator.hpp"

#include "common/compress/incompressible.hpp"
#include "common/packet/rewrite.hpp"
#include "common/packet/segmenter.hpp"

#include <algorithm>

namespace continuo::session {

using base::ByteView;
using base::ByteWriter;
using base::MutableByteView;
using base::TimePoint;

namespace {

// A zstd block cannot pay for itself below this size.
constexpr size_t kMinCompressBytes = 48;
constexpr size_t kWholeHeadBytes = 5;
constexpr size_t kMaxSectionHeadBytes = 6;
constexpr size_t kMaxEntryBeyondPacket = kWholeHeadBytes + kMaxSectionHeadBytes;
constexpr size_t kMinPieceBytes = 64;
// Room for the ORDER of a few flows.
constexpr size_t kOrderAllowance = 16;

// Prepares the packet for a WHOLE entry: complete checksum, node's address unspecified.
void make_whole(packet::Packet& packet, packet::NodeSide side) {
    if (packet.offload.partial_checksum) {
        packet::complete_checksum(packet.bytes(), packet.offload);
        packet.offload.partial_checksum = false;
    }
    const bool is_v6 = packet.length > 0 && packet.storage[0] >> 4 == 6;
    packet::rewrite_node_address(
        packet.bytes(), side,
        base::IpAddress::any(is_v6 ? base::IpVersion::V6 : base::IpVersion::V4), false);
}

void count_datagram(ClassCounters& counters, size_t packets, ReleaseReason reason) {
    ++counters.datagrams;
    counters.packets_alone += packets == 1 ? 1 : 0;
    counters.sent_by_timeout += reason == ReleaseReason::Timeout ? 1 : 0;
    counters.sent_by_size += reason == ReleaseReason::Size ? 1 : 0;
}

}  // namespace

Aggregator::Aggregator(SessionCore& core, const Parts& parts)
    : settings_(core.settings)
    , scratch_(core.scratch)
    , drops_(core.drops)
    , paths_(core.paths)
    , epochs_(core.epochs)
    , flows_(core.flows)
    , parts_(parts) {}

bool Aggregator::send(SendClass& state, const Way& way, TransmitBatch& batch, TimePoint now) {
    auto draft = parts_.sealer.start(way, state.traffic_class, batch);
    if (!draft) {
        return false;
    }
    const auto copy = parts_.copies.way(state.traffic_class, way, now);
    parts_.copies.leave_room(*draft, copy);
    const ReleaseReason reason = parts_.queues.release(state, way.destination).reason;
    const TimePoint waiting_since = state.queue.waiting_since();
    elision::Encoder& encoder = draft->epoch->encoder;
    ByteWriter body(draft->datagram.subspan(draft->header.size(), draft->body_limit));
    if (!state.split.is_empty()) {
        encoder.begin_datagram(draft->space_number, draft->space->next, now,
                               elision::Setting::Forbidden);
        send_split(*draft, state, copy, body, batch, now);
        return true;
    }
    encoder.begin_datagram(draft->space_number, draft->space->next, now);
    const size_t beside = write_beside(state, *draft, body, now);
    size_t count = gather(state, *draft, way, beside, now);
    if (!encode_what_fits(*draft, state, way, count, body)) {
        if (count == 0) {
            encoder.abort_datagram();
            return false;  // the path is too narrow even for the frames
        }
        parts_.kept.keep_if_wanted(*draft, draft->space->next, scratch_.packets[0], way, now);
        start_split(*draft, state, scratch_.packets[0], body, now);
        scratch_.packets[0] = {};
        send_split(*draft, state, copy, body, batch, now);
        return true;
    }
    encoder.end_datagram();
    const wire::Copy identity{draft->header.space(), static_cast<uint32_t>(draft->space->next)};
    const size_t length = draft->header.size() + body.size() + draft->epoch->sealer->tag_bytes();
    if (count > 0) {
        state.estimator.on_released(reason, count, waiting_since, now);
        count_datagram(state.counters, count, reason);
        account(state, count, way.destination.path, batch, now);
        state.counters.wire_bytes +=
            outer_bytes(way.destination.path, way.destination.to.address, length);
    }
    if (body.size() > 0) {
        parts_.sealer.finish(*draft, body.size(), batch, now);
    }
    if (count == 1) {
        parts_.kept.keep_if_wanted(*draft, identity.sequence, scratch_.packets[0], way, now);
    }
    if (copy && count > 0) {
        parts_.copies.send(identity, state, count, length, *copy, batch, now);
    }
    for (size_t i = 0; i < count; ++i) {
        scratch_.packets[i] = {};
    }
    return true;
}

// Writes the frames that go with packets: floors, acknowledgements and ended flows. Returns the
// length of the body.
size_t Aggregator::write_beside(SendClass& state, Draft& draft, ByteWriter& body, TimePoint now) {
    write_floors(draft.epoch->encoder, body);
    const packet::Packet* next = state.queue.peek();
    const size_t taken = next != nullptr ? next->length + kMaxEntryBeyondPacket : 0;
    const size_t spare = body.room() - std::min(body.room(), taken);
    const size_t framed = parts_.acks.write(draft, body, false, now, spare);
    if (flows_.has_closed()) {
        flows_.write_closed(*draft.epoch, body, spare - std::min(spare, framed),
                            now + elision::skew_for(paths_.largest_rtt()));
    }
    return body.size();
}

// Encodes as many of the pending packets as fit; the others go back. False: not even one fits, and
// the datagram has no section.
bool Aggregator::encode_what_fits(
    Draft& draft, SendClass& state, const Way& way, size_t& count, ByteWriter& body) {
    elision::Encoder& encoder = draft.epoch->encoder;
    const size_t frames = body.size();
    parts_.encoder.write_order(way, count, body);
    while (!parts_.encoder.write_packets(draft, state, count, body) ||
           parts_.sealer.expands_too_far(draft, scratch_.inner_bytes(count), body.size())) {
        encoder.retry_datagram();
        body.rewind(frames);
        if (count <= 1) {
            return false;
        }
        const size_t keep = count / 2;
        while (count > keep) {
            state.queue.put_back(std::move(scratch_.packets[--count].item));
        }
        parts_.encoder.write_order(way, count, body);
    }
    return true;
}

// Takes packets from the queue while they are predicted to fit; returns how many.
size_t Aggregator::gather(
    SendClass& state, const Draft& draft, const Way& way, size_t used, TimePoint now) {
    size_t count = 0;
    size_t groups = 0;
    const size_t limit = way.is_striped ? wire::kMaxOrderedFlows : kMaxPacketsPerDatagram;
    const size_t order_bytes = way.is_striped ? kOrderAllowance : 0;
    auto predicted = static_cast<double>(used + kMaxSectionHeadBytes + order_bytes);
    size_t inner = 0;
    while (count < limit) {
        if (count > 0 && flows_.has_spread() && !parts_.queues.goes_along(way, state, now)) {
            break;
        }
        const packet::Packet* next = state.queue.peek();
        if (next == nullptr) {
            break;
        }
        if (next->offload.gso != packet::GsoType::None) {
            if (count > 0 && !parts_.cutter.compress_next(state, way, now)) {
                break;
            }
            if (count == 0) {
                parts_.cutter.cut_or_drop(state, state.queue.take());
            }
            continue;
        }
        // Predicted without looking at the packet: its entry is about as long as the packet, or
        // shorter when the class compresses.
        const double likely = static_cast<double>(next->length) * state.compressed_ratio;
        if (count > 0 && (predicted + likely > static_cast<double>(draft.body_limit) ||
                          parts_.sealer.expands_too_far(draft, inner + next->length,
                                                        static_cast<size_t>(predicted + likely)))) {
            break;
        }
        inner += next->length;
        PendingPacket& pending = scratch_.packets[count];
        pending = {};
        pending.item = state.queue.take();
        const size_t groups_before = groups;
        prepare(pending, state, groups);
        keep_flow_together(count);
        const size_t entry =
            pending.regular ? pending.regular->payload.size() +
                                  draft.epoch->encoder.max_entry_bytes(pending.item.flow->index) / 2
                            : pending.item.packet->length + kWholeHeadBytes;
        const double ratio = pending.group == 0 ? 1.0 : state.compressed_ratio;
        predicted += static_cast<double>(entry) * ratio +
                     (groups > groups_before ? static_cast<double>(kMaxSectionHeadBytes) : 0);
        ++count;
        if (count > 1 && predicted > static_cast<double>(draft.body_limit) * 1.1) {
            state.queue.put_back(std::move(scratch_.packets[--count].item));
            break;
        }
    }
    return count;
}

// Sections are delivered one after the other, so packets of one flow stay in one section to keep
// their order.
void Aggregator::keep_flow_together(size_t newest) {
    PendingPacket& packet = scratch_.packets[newest];
    for (size_t i = 0; i < newest; ++i) {
        PendingPacket& before = scratch_.packets[i];
        if (before.item.flow == packet.item.flow && before.group != packet.group) {
            packet.group = std::max(packet.group, before.group);
            before.group = packet.group;
        }
    }
}

// Decides how the packet travels: elided or whole, raw or in the section of its trust group.
void Aggregator::prepare(PendingPacket& pending, const SendClass& state, size_t& groups) {
    packet::Packet& packet = *pending.item.packet;
    flow::Flow& flow = *pending.item.flow;
    const bool is_known = flows_.has(flow);
    pending.regular = packet::parse_regular(packet.bytes(), packet.offload);
    if (!is_known) {
        pending.regular.reset();
    }
    ByteView content;
    if (pending.regular) {
        content = pending.regular->payload;
        pending.payload_bytes = static_cast<uint32_t>(content.size());
    } else {
        const auto summary = packet::summarize(packet.bytes(), settings_.sends_side());
        const size_t offset = summary.summary ? summary.summary->payload_offset : packet.length;
        pending.payload_bytes =
            static_cast<uint32_t>(packet.length - std::min<size_t>(offset, packet.length));
        pending.is_announced = is_known && !epochs_.sending()->encoder.is_opening(flow.index);
        make_whole(packet, settings_.sends_side());
        content = ByteView(packet.bytes()).subspan(packet.length - pending.payload_bytes);
    }
    choose_group(pending, state, content, groups);
}

void Aggregator::choose_group(PendingPacket& pending,
                              const SendClass& state,
                              ByteView content,
                              size_t& groups) {
    const flow::Flow& flow = *pending.item.flow;
    pending.group = 0;
    if (state.settings.compression_level == 0 || !flow.may_compress ||
        content.size() < kMinCompressBytes || compress::is_incompressible(content)) {
        return;
    }
    // Readable traffic needs no separation by remote address.
    const base::IpAddress& remote =
        settings_.is_readable ? base::IpAddress::any(base::IpVersion::V4) : flow.tuple.remote;
    for (size_t i = 0; i < groups; ++i) {
        if (scratch_.group_remotes[i] == remote) {
            pending.group = static_cast<uint8_t>(i + 1);
            return;
        }
    }
    if (groups < kMaxGroups) {
        scratch_.group_remotes[groups++] = remote;
        pending.group = static_cast<uint8_t>(groups);
    }
}

// Adds one attribution for each flow in the datagram, which leaves on that path.
void Aggregator::account(
    SendClass& state, size_t count, uint8_t path, TransmitBatch& batch, TimePoint now) {
    for (size_t i = 0; i < count; ++i) {
        const PendingPacket& pending = scratch_.packets[i];
        const packet::Packet& packet = *pending.item.packet;
        ++state.counters.packets;
        state.counters.inner_bytes += packet.length;
        state.counters.queue_delay.add(now - packet.queued_at);
        const uint64_t waited_us = wait_of(packet, now);
        const auto open = batch.open_attributions();
        const auto same = std::find_if(open.begin(), open.end(), [&](const Attribution& a) {
            return a.flow == pending.item.flow;
        });
        if (same == open.end()) {
            parts_.queues.pin(*pending.item.flow, packet, path, now);
            batch.attribute(
                {pending.item.flow, 1, packet.length, pending.payload_bytes, 0, waited_us});
        } else {
            ++same->packets;
            same->waited_us += waited_us;
            same->inner_bytes += packet.length;
            same->payload_bytes += pending.payload_bytes;
        }
    }
}

// The packet does not fit a datagram: it becomes one raw entry that is sent in pieces. If the other
// end lacks the flow's context, that precedes the first piece in its own section.
void Aggregator::start_split(
    Draft& draft, SendClass& state, PendingPacket& pending, ByteWriter& body, TimePoint now) {
    packet::Packet& packet = *pending.item.packet;
    flow::Flow& flow = *pending.item.flow;
    draft.has_order = false;
    parts_.queues.pin(flow, packet, draft.destination.path, now);
    if (pending.regular && !draft.epoch->encoder.is_opening(flow.index)) {
        ByteWriter section(MutableByteView(scratch_.section.get(), elision::kMaxOpenBytes));
        draft.epoch->encoder.begin_section();
        if (draft.epoch->encoder.append_context(flow.index, pending.regular->fields, section)) {
            wire::SectionHead{}.serialize_sized(body, section.size());
            body.bytes(section.written());
        }
    }
    if (pending.regular) {
        make_whole(packet, settings_.sends_side());
    }
    const Attribution share{
        &flow, 1, packet.length, pending.payload_bytes, 0, wait_of(packet, now)};
    state.split.start(
        packet.length + kWholeHeadBytes, parts_.sealer.next_fragment_id(state.traffic_class), share,
        [&packet](ByteWriter& entry) { elision::write_whole_entry(packet.bytes(), entry); });
    ++state.counters.packets;
    state.counters.inner_bytes += packet.length;
}

// Sends the next piece of the packet being split, in a datagram that was begun already.
void Aggregator::send_split(Draft& draft,
                            SendClass& state,
                            const std::optional<CopyWay>& copy,
                            ByteWriter& body,
                            TransmitBatch& batch,
                            TimePoint now) {
    const wire::Copy identity{draft.header.space(), static_cast<uint32_t>(draft.space->next)};
    const flow::Flow* flow = state.split.flow();
    const bool is_redundant = flow != nullptr && flow->paths.mode == base::PathMode::Redundant;
    const auto piece = write_split_piece(state, draft, body, batch);
    draft.epoch->encoder.end_datagram();
    if (body.size() > 0) {
        parts_.sealer.finish(draft, body.size(), batch, now);
    }
    if (piece && copy) {
        parts_.copies.send_piece(identity, *piece, is_redundant, *copy, batch, now);
    }
    if (!piece || piece->last) {
        state.split.clear();
    }
}

// Nothing when the path is too narrow.
std::optional<wire::Fragment> Aggregator::write_split_piece(SendClass& state,
                                                            Draft& draft,
                                                            ByteWriter& body,
                                                            TransmitBatch& batch) {
    if (body.room() < wire::Fragment::kHeadBytes + kMinPieceBytes) {
        drops_.add(base::DropReason::TooLong);  // so narrow a path carries no packets
        return std::nullopt;
    }
    const wire::Fragment fragment = state.split.take(body.room() - wire::Fragment::kHeadBytes);
    fragment.serialize(body);
    ++state.counters.fragments;
    ++state.counters.datagrams;
    state.counters.wire_bytes +=
        outer_bytes(draft.destination.path, draft.destination.to.address,
                    draft.header.size() + body.size() + draft.epoch->sealer->tag_bytes());
    const Attribution part = state.split.share_of(fragment);
    if (part.flow != nullptr) {
        batch.attribute(part);
    }
    return fragment;
}

}  // namespace continuo::session
