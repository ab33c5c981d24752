// Aggregation: packets of one class become entries of sections of one datagram (docs/PROTOCOL.md
// sections 6 and 7). A packet that is too long for a datagram is split over several.
#include "common/compress/incompressible.hpp"
#include "common/packet/context_fields.hpp"
#include "common/packet/segmenter.hpp"
#include "common/session/session.hpp"

#include <algorithm>
#include <cmath>

namespace continuo::session {

using base::ByteView;
using base::ByteWriter;
using base::index_of;
using base::MutableByteView;
using base::TimePoint;
using base::TrafficClass;

namespace {

// A zstd block cannot pay for itself below this size.
constexpr size_t kMinCompressBytes = 48;
constexpr size_t kWholeHeadBytes = 5;
constexpr size_t kMaxSectionHeadBytes = 6;
constexpr size_t kMaxEntryBeyondPacket = kWholeHeadBytes + kMaxSectionHeadBytes;
constexpr double kRatioGain = 1.0 / 16;
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

bool Session::send_aggregate(TrafficClass traffic_class,
                             const Way& way,
                             TransmitBatch& batch,
                             TimePoint now) {
    ClassState& state = classes_[index_of(traffic_class)];
    auto draft = start_draft(way, traffic_class, batch);
    if (!draft) {
        return false;
    }
    const auto copy = copy_way(traffic_class, way, now);
    leave_room(*draft, copy);
    ReleaseReason reason = ReleaseReason::Size;
    ready_at(state, knobs(state, way.destination), &reason);
    const TimePoint waiting_since = state.queue.waiting_since();
    elision::Encoder& encoder = draft->epoch->encoder;
    ByteWriter body(draft->datagram.subspan(draft->header.size(), draft->body_limit));
    if (!state.split_entry.empty()) {
        encoder.begin_datagram(draft->space_number, draft->space->next, now,
                               elision::Setting::Forbidden);
        send_split(*draft, state, copy, body, batch, now);
        return true;
    }
    encoder.begin_datagram(draft->space_number, draft->space->next, now);
    write_floors(encoder, body);
    const packet::Packet* next = state.queue.peek();
    const size_t taken = next != nullptr ? next->length + kMaxEntryBeyondPacket : 0;
    const size_t spare = body.room() - std::min(body.room(), taken);
    const size_t framed = write_frames(*draft, body, false, now, spare);
    write_closed(*draft->epoch, body, spare - std::min(spare, framed), now);
    size_t count = gather(state, *draft, way, body.size(), now);
    if (!encode_what_fits(*draft, state, way, count, body)) {
        if (count == 0) {
            encoder.abort_datagram();
            return false;  // the path is too narrow even for the frames
        }
        keep_if_wanted(*draft, draft->space->next, scratch_.packets[0], way, now);
        start_split(*draft, state, scratch_.packets[0], body);
        state.split_attribution.waited_us = wait_of(*scratch_.packets[0].item.packet, now);
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
        account(state, count, batch, now);
        state.counters.wire_bytes +=
            outer_bytes(way.destination.path, way.destination.to.address, length);
    }
    if (body.size() > 0) {
        finish_draft(*draft, body.size(), batch, now);
    }
    if (count == 1) {
        keep_if_wanted(*draft, identity.sequence, scratch_.packets[0], way, now);
    }
    if (copy && count > 0 && may_copy(*copy, count, length, now)) {
        send_copy(identity, state, count, *copy, batch, now);
    }
    for (size_t i = 0; i < count; ++i) {
        scratch_.packets[i] = {};
    }
    return true;
}

// Encodes as many of the pending packets as fit; the others go back. False: not even one fits, and
// the datagram has no section.
bool Session::encode_what_fits(
    Draft& draft, ClassState& state, const Way& way, size_t& count, ByteWriter& body) {
    elision::Encoder& encoder = draft.epoch->encoder;
    const size_t frames = body.size();
    write_order(way, count, body);
    while (!encode(draft, state, count, body) ||
           expands_too_far(draft, scratch_.inner_bytes(count), body.size())) {
        encoder.retry_datagram();
        body.rewind(frames);
        if (count <= 1) {
            return false;
        }
        const size_t keep = count / 2;
        while (count > keep) {
            state.queue.put_back(std::move(scratch_.packets[--count].item));
        }
        write_order(way, count, body);
    }
    return true;
}

// Sends the next piece of the packet being split, in a datagram that was begun already.
void Session::send_split(Draft& draft,
                         ClassState& state,
                         const std::optional<CopyWay>& copy,
                         ByteWriter& body,
                         TransmitBatch& batch,
                         TimePoint now) {
    const wire::Copy identity{draft.header.space(), static_cast<uint32_t>(draft.space->next)};
    const flow::Flow* flow = state.split_attribution.flow;
    const bool is_redundant = flow != nullptr && flow->paths.mode == base::PathMode::Redundant;
    const auto piece = write_split_piece(state, draft, body, batch);
    draft.epoch->encoder.end_datagram();
    if (body.size() > 0) {
        finish_draft(draft, body.size(), batch, now);
    }
    if (piece && copy && (is_redundant || may_copy(*copy, 0, piece->piece.size(), now))) {
        send_piece_copy(identity, *piece, *copy, batch, now);
    }
    if (!piece || piece->last) {
        state.split_entry.clear();
    }
}

// Writes ORDER for the first `count` pending packets, with the next numbers of their flows.
void Session::write_order(const Way& way, size_t count, ByteWriter& body) {
    wire::Order& order = scratch_.order;
    order.count = 0;
    if (!way.is_striped) {
        return;
    }
    order.paths = way.paths;
    for (size_t i = 0; i < count; ++i) {
        const flow::Flow& flow = *scratch_.packets[i].item.flow;
        if (scratch_.packets[i].regular && order.find(flow.index) == nullptr) {
            order.add(flow.index, flow.paths.next_number);
        }
    }
    if (order.count > 0) {
        order.serialize(body);
    }
}

// Takes packets from the queue while they are predicted to fit; returns how many.
size_t
Session::gather(ClassState& state, const Draft& draft, const Way& way, size_t used, TimePoint now) {
    size_t count = 0;
    size_t groups = 0;
    const size_t limit = way.is_striped ? wire::kMaxOrderedFlows : kMaxPacketsPerDatagram;
    const size_t order_bytes = way.is_striped ? kOrderAllowance : 0;
    auto predicted = static_cast<double>(used + kMaxSectionHeadBytes + order_bytes);
    size_t inner = 0;
    while (count < limit) {
        if (count > 0 && has_spread_flows() && !goes_along(way, state, now)) {
            break;
        }
        const packet::Packet* next = state.queue.peek();
        if (next == nullptr) {
            break;
        }
        if (next->offload.gso != packet::GsoType::None) {
            if (count > 0 && !compress_next(state, way, now)) {
                break;
            }
            if (count == 0) {
                cut_or_drop(state, state.queue.take());
            }
            continue;
        }
        // Predicted without looking at the packet: its entry is about as long as the packet, or
        // shorter when the class compresses.
        const double likely = static_cast<double>(next->length) * state.compressed_ratio;
        if (count > 0 && (predicted + likely > static_cast<double>(draft.body_limit) ||
                          expands_too_far(draft, inner + next->length,
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
void Session::keep_flow_together(size_t newest) {
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
bool Session::prepare(PendingPacket& pending, const ClassState& state, size_t& groups) {
    packet::Packet& packet = *pending.item.packet;
    flow::Flow& flow = *pending.item.flow;
    const bool is_known = flow_at(flow.index) == &flow;
    pending.regular = packet::parse_regular(packet.bytes(), packet.offload);
    if (!is_known) {
        pending.regular.reset();
    }
    ByteView content;
    if (pending.regular) {
        content = pending.regular->payload;
        pending.payload_bytes = static_cast<uint32_t>(content.size());
    } else {
        const auto summary = packet::summarize(packet.bytes(), sends_side());
        const size_t offset = summary.summary ? summary.summary->payload_offset : packet.length;
        pending.payload_bytes =
            static_cast<uint32_t>(packet.length - std::min<size_t>(offset, packet.length));
        pending.is_announced = is_known && !sending()->encoder.is_opening(flow.index);
        make_whole(packet, sends_side());
        content = ByteView(packet.bytes()).subspan(packet.length - pending.payload_bytes);
    }
    pending.group = 0;
    if (state.settings.compression_level == 0 || !flow.may_compress ||
        content.size() < kMinCompressBytes || compress::is_incompressible(content)) {
        return true;
    }
    // Readable traffic needs no separation by remote address.
    const base::IpAddress& remote =
        settings_.is_readable ? base::IpAddress::any(base::IpVersion::V4) : flow.tuple.remote;
    for (size_t i = 0; i < groups; ++i) {
        if (scratch_.group_remotes[i] == remote) {
            pending.group = static_cast<uint8_t>(i + 1);
            return true;
        }
    }
    if (groups < kMaxGroups) {
        scratch_.group_remotes[groups++] = remote;
        pending.group = static_cast<uint8_t>(groups);
    }
    return true;
}

bool Session::encode(Draft& draft, ClassState& state, size_t count, ByteWriter& body) {
    std::array<size_t, kMaxGroups + 1> members{};
    for (size_t i = 0; i < count; ++i) {
        ++members[scratch_.packets[i].group];
    }
    size_t last_group = 0;
    for (size_t group = 1; group <= kMaxGroups && members[0] == 0; ++group) {
        last_group = members[group] > 0 ? group : last_group;
    }
    for (size_t group = 1; group <= kMaxGroups; ++group) {
        if (members[group] > 0 && !encode_group(draft, state, count, static_cast<uint8_t>(group),
                                                members[0] == 0 && group == last_group, body)) {
            return false;
        }
    }
    if (members[0] > 0) {
        wire::SectionHead{}.serialize_last(body);
        draft.epoch->encoder.begin_section();
        return encode_entries(draft, count, 0, body);
    }
    return body.ok();
}

bool Session::encode_group(
    Draft& draft, ClassState& state, size_t count, uint8_t group, bool last, ByteWriter& body) {
    scratch_.load.note_compressing();
    ByteWriter section(MutableByteView(scratch_.section.get(), wire::kDefaultSectionOutputBytes));
    draft.epoch->encoder.begin_section();
    if (!encode_entries(draft, count, group, section)) {
        return false;
    }
    const ByteView plain = section.written();
    ByteView content = plain;
    wire::SectionHead head;
    const MutableByteView room(scratch_.compressed.get(), wire::kDefaultSectionOutputBytes);
    scratch_.codec.set_level(state.settings.compression_level);
    if (const auto compressed = scratch_.codec.compress(plain, room);
        compressed && *compressed < plain.size()) {
        head.mode = wire::SectionMode::Zstd;
        content = room.first(*compressed);
        ++state.counters.compressed_sections;
    }
    const double ratio = static_cast<double>(content.size()) / static_cast<double>(plain.size());
    state.compressed_ratio += (ratio - state.compressed_ratio) * kRatioGain;
    if (last) {
        head.serialize_last(body);
    } else {
        head.serialize_sized(body, content.size());
    }
    body.bytes(content);
    return body.ok();
}

// Encodes the entries of one group, in order, to the end of its section.
bool Session::encode_entries(Draft& draft, size_t count, uint8_t group, ByteWriter& writer) {
    elision::Encoder& encoder = draft.epoch->encoder;
    size_t last = count;
    for (size_t i = 0; i < count; ++i) {
        last = scratch_.packets[i].group == group ? i : last;
    }
    for (size_t i = 0; i <= last && i < count; ++i) {
        PendingPacket& pending = scratch_.packets[i];
        if (pending.group != group) {
            continue;
        }
        const packet::Packet& packet = *pending.item.packet;
        if (pending.regular) {
            const auto extent = i == last ? elision::Extent::ToEnd : elision::Extent::Counted;
            if (!encoder.append(pending.item.flow->index, pending.regular->fields,
                                pending.regular->payload, extent, writer)) {
                return false;
            }
            continue;
        }
        if (pending.is_announced) {
            if (const auto fields = packet::context_fields(packet.bytes())) {
                encoder.append_context(pending.item.flow->index, *fields, writer);
            }
        }
        if (!encoder.append_whole(packet.bytes(), writer)) {
            return false;
        }
    }
    return writer.ok();
}

// The packet does not fit a datagram: it becomes one raw entry that is sent in pieces. If the other
// end lacks the flow's context, that precedes the first piece in its own section.
void Session::start_split(Draft& draft,
                          ClassState& state,
                          PendingPacket& pending,
                          ByteWriter& body) {
    packet::Packet& packet = *pending.item.packet;
    flow::Flow& flow = *pending.item.flow;
    draft.has_order = false;
    if (pending.regular && !draft.epoch->encoder.is_opening(flow.index)) {
        ByteWriter section(MutableByteView(scratch_.section.get(), elision::kMaxOpenBytes));
        draft.epoch->encoder.begin_section();
        if (draft.epoch->encoder.append_context(flow.index, pending.regular->fields, section)) {
            wire::SectionHead{}.serialize_sized(body, section.size());
            body.bytes(section.written());
        }
    }
    if (pending.regular) {
        make_whole(packet, sends_side());
    }
    state.split_entry.resize(packet.length + kWholeHeadBytes);
    ByteWriter entry(state.split_entry);
    elision::write_whole_entry(packet.bytes(), entry);
    state.split_entry.resize(entry.size());
    state.split_sent = 0;
    state.split_index = 0;
    state.split_id = next_fragment_id(state);
    state.split_attribution = {&flow, 1, packet.length, pending.payload_bytes, 0};
    ++state.counters.packets;
    state.counters.inner_bytes += packet.length;
}

uint16_t Session::next_fragment_id(ClassState& state) {
    state.last_fragment_id =
        static_cast<uint16_t>((state.last_fragment_id + 1U) % wire::kMaxFragmentIds);
    return state.last_fragment_id;
}

// Nothing when the path is too narrow.
std::optional<wire::Fragment> Session::write_split_piece(ClassState& state,
                                                         Draft& draft,
                                                         ByteWriter& body,
                                                         TransmitBatch& batch) {
    const size_t left = state.split_entry.size() - state.split_sent;
    if (body.room() < wire::Fragment::kHeadBytes + kMinPieceBytes) {
        drops_.add(base::DropReason::TooLong);  // so narrow a path carries no packets
        return std::nullopt;
    }
    wire::Fragment fragment;
    const size_t take = std::min(left, body.room() - wire::Fragment::kHeadBytes);
    fragment.id = state.split_id;
    fragment.index = state.split_index++;
    fragment.last = take == left;
    fragment.piece = ByteView(state.split_entry).subspan(state.split_sent, take);
    fragment.serialize(body);
    state.split_sent += take;
    ++state.counters.fragments;
    ++state.counters.datagrams;
    state.counters.wire_bytes +=
        outer_bytes(draft.destination.path, draft.destination.to.address,
                    draft.header.size() + body.size() + draft.epoch->sealer->tag_bytes());
    // The flow pays for every piece; the packet counts with its last one.
    Attribution part = state.split_attribution;
    if (fragment.last) {
        state.split_attribution = {};
    } else {
        part = Attribution{part.flow};
    }
    if (part.flow != nullptr) {
        batch.attribute(part);
    }
    return fragment;
}

// Adds one attribution for each flow in the datagram.
void Session::account(ClassState& state, size_t count, TransmitBatch& batch, TimePoint now) {
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

}  // namespace continuo::session
