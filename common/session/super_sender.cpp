#include "common/session/super_sender.hpp"

#include "common/base/assert.hpp"
#include "common/packet/segmenter.hpp"

#include <algorithm>
#include <utility>

namespace continuo::session {

using base::ByteWriter;
using base::MutableByteView;
using base::PathMode;
using base::TimePoint;
using base::TrafficClass;
using flow::Flow;

namespace {

// Segments of a striped flow that take the same path: few, so that other flows do not wait for
// them.
constexpr size_t kStripedRun = 8;

size_t order_bytes(bool is_striped, const Flow& flow) {
    if (!is_striped) {
        return 0;
    }
    wire::Order order;
    order.add(flow.index, 0);
    return order.size();
}

}  // namespace

SuperSender::SuperSender(SessionCore& core, const Parts& parts)
    : scratch_(core.scratch), paths_(core.paths), flows_(core.flows), parts_(parts) {}

void SuperSender::send(SendClass& state, const Way& way, TransmitBatch& batch, TimePoint now) {
    Run run;
    run.item = state.queue.take();
    const auto regular = packet::parse_regular(run.item.packet->bytes(), run.item.packet->offload);
    auto draft = parts_.sealer.start(way, state.traffic_class, batch);
    if (!regular || !draft || !may_leave(*draft, run, way, now)) {
        parts_.cutter.cut_or_drop(state, std::move(run.item));
        return;
    }
    run.regular = *regular;
    plan(*draft, run, now);
    if (!fits(*draft, run, way)) {
        parts_.cutter.cut_or_drop(state, std::move(run.item));
        return;
    }
    state.counters.queue_delay.add(now - run.item.packet->queued_at);
    parts_.queues.pin(*run.item.flow, *run.item.packet, way.destination.path, now);
    send_all(state, *draft, run, way, batch, now);
    ++state.counters.super_packets;
    state.counters.super_segments += run.segments;
    state.counters.packets_alone += run.segments;
}

bool SuperSender::may_leave(const Draft& draft,
                            const Run& run,
                            const Way& way,
                            TimePoint now) const {
    const Flow& flow = *run.item.flow;
    const auto copy = parts_.copies.way(draft.header.traffic_class, way, now);
    const bool is_copied = copy && (copy->is_doubt || flow.paths.mode == PathMode::Redundant);
    return flows_.has(flow) && run.item.packet->offload.segment_bytes != 0 &&
           !draft.epoch->encoder.wants_floor() && !is_copied;
}

void SuperSender::plan(Draft& draft, Run& run, TimePoint now) {
    const auto payload_bytes = static_cast<uint32_t>(run.regular.payload.size());
    run.segment_bytes = run.item.packet->offload.segment_bytes;
    run.segments =
        std::max<uint32_t>(1, (payload_bytes + run.segment_bytes - 1) / run.segment_bytes);
    run.last_bytes = payload_bytes - (run.segments - 1) * run.segment_bytes;
    run.form =
        draft.epoch->encoder.plan_segments(run.item.flow->index, run.regular.fields,
                                           run.segment_bytes, run.segments, run.last_bytes, now);
}

void SuperSender::send_all(
    SendClass& state, Draft draft, const Run& run, Way way, TransmitBatch& batch, TimePoint now) {
    const PathMask fitting = way.paths;
    for (uint32_t done = 0; done < run.segments;) {
        done += send_run(state, draft, run, way, done, batch, now);
        if (way.is_striped && done < run.segments) {
            // It is known to fit the paths of the first run only.
            const auto next = parts_.queues.way_of(*run.item.flow, *run.item.packet, now);
            if (next && next->is_striped && (fitting & mask_of(next->destination.path)) != 0) {
                way = *next;
            }
            const auto started = parts_.sealer.start(way, state.traffic_class, batch);
            CTN_ASSERT(started.has_value());
            draft = *started;
        }
    }
}

// For a striped flow, in the widest form, whatever path it takes.
bool SuperSender::fits(const Draft& draft, const Run& run, const Way& way) const {
    const bool is_long = way.is_striped || wire::needs_long_form(draft.space->next + run.segments,
                                                                 draft.space->highest_acknowledged);
    const size_t header = is_long ? wire::kLongHeaderBytes : wire::kShortHeaderBytes;
    const size_t datagram = header + order_bytes(way.is_striped, *run.item.flow) + 1 +
                            run.form.header_bytes + draft.epoch->sealer->tag_bytes() +
                            run.segment_bytes;
    size_t overhead = outer_overhead(way.destination.to.address);
    size_t mtu = way.destination.mtu;
    for (uint8_t index = 0; index < wire::kMaxPaths && way.is_striped; ++index) {
        if ((way.paths & mask_of(index)) != 0) {
            const Path& path = paths_.path(index);
            const Tuple& tuple = path.validation().tuple(TrafficClass::LtLd);
            overhead = std::max<size_t>(overhead, outer_overhead(tuple.remote().address));
            mtu = std::min<size_t>(mtu, path.mtu());
        }
    }
    const size_t outer = datagram + overhead;
    const bool has_key_left = draft.epoch->sealed_datagrams + run.segments < wire::kMaxKeyDatagrams;
    return run.form.header_bytes != 0 && outer <= mtu && has_key_left &&
           run.segments <= 2 * kMaxSegmentsPerSend &&
           datagram * run.segments <= 2 * kMaxUdpPayloadBytes &&
           way.destination.budget_bytes >= outer * run.segments;
}

// Seals the segments from number `done` on that leave in one call; returns how many.
uint32_t SuperSender::send_run(SendClass& state,
                               Draft& draft,
                               const Run& run,
                               const Way& way,
                               uint32_t done,
                               TransmitBatch& batch,
                               TimePoint now) {
    EpochState& epoch = *draft.epoch;
    Flow& flow = *run.item.flow;
    // One header form for the whole run keeps the datagrams equal in length.
    draft.header.long_sequence =
        wire::needs_long_form(draft.space->next + run.segments, draft.space->highest_acknowledged);
    const size_t header_bytes = draft.header.size();
    const size_t fixed = header_bytes + order_bytes(way.is_striped, flow) + 1 +
                         run.form.header_bytes + epoch.sealer->tag_bytes();
    const size_t datagram_bytes = fixed + run.segment_bytes;
    const size_t most = way.is_striped ? kStripedRun : kMaxSegmentsPerSend;
    const auto count = static_cast<uint32_t>(
        std::min({most, kMaxUdpPayloadBytes / datagram_bytes, size_t{run.segments - done}}));
    if (way.is_striped) {
        scratch_.order.count = 0;
        scratch_.order.add(flow.index, flow.paths.next_number);
    }
    const size_t used = write_segments(draft, run, way, done, count, batch.free_space(), now);
    const uint64_t payload_sent = used - fixed * count;
    epoch.sealer->seal(std::span(scratch_.units).first(count));
    epoch.encoder.record_segments(run.form, done, count, draft.space_number, draft.space->next,
                                  now);
    const Destination& to = way.destination;
    const uint64_t outer = outer_bytes_of_run(to.path, to.to.address, used, datagram_bytes);
    const uint64_t inner = payload_sent + run.regular.fields.header_bytes() * count;
    batch.attribute({&flow, count, inner, payload_sent, 0, count * wait_of(*run.item.packet, now)});
    DatagramInfo info;
    info.draft = &draft;
    info.destination = to;
    info.traffic_class = draft.header.traffic_class;
    info.bytes = static_cast<uint32_t>(used);
    info.segment_bytes = static_cast<uint32_t>(datagram_bytes);
    info.count = static_cast<uint16_t>(count);
    parts_.sealer.commit(info, batch, now);
    state.counters.packets += count;
    state.counters.datagrams += count;
    state.counters.inner_bytes += inner;
    state.counters.wire_bytes += outer;
    return count;
}

// Writes the datagrams of these segments one after the other, ready to be sealed; returns their
// bytes.
size_t SuperSender::write_segments(Draft& draft,
                                   const Run& run,
                                   const Way& way,
                                   uint32_t done,
                                   uint32_t count,
                                   MutableByteView arena,
                                   TimePoint now) {
    Flow& flow = *run.item.flow;
    const size_t header_bytes = draft.header.size();
    const size_t fixed = header_bytes + order_bytes(way.is_striped, flow) + 1 +
                         run.form.header_bytes + draft.epoch->sealer->tag_bytes();
    const bool is_kept = parts_.kept.is_silent(way, draft.header.traffic_class, now);
    size_t used = 0;
    for (uint32_t i = 0; i < count; ++i) {
        const uint32_t segment = done + i;
        const uint32_t bytes = segment + 1 == run.segments ? run.last_bytes : run.segment_bytes;
        const MutableByteView datagram = arena.subspan(used, fixed + bytes);
        draft.header.sequence = static_cast<uint32_t>(draft.space->next + i);
        ByteWriter writer(datagram);
        draft.header.serialize(writer);
        if (way.is_striped) {
            wire::Order order;
            order.paths = way.paths;
            order.add(flow.index, static_cast<uint16_t>(flow.paths.next_number + i));
            order.serialize(writer);
        }
        if (is_kept && segment + kMostKeptPackets >= run.segments) {
            const size_t length = packet::write_segment(
                run.item.packet->bytes(), run.item.packet->offload, segment,
                MutableByteView(scratch_.whole.get(), packet::kLargeBufferBytes));
            parts_.kept.keep(draft, draft.space->next + i, flow,
                             MutableByteView(scratch_.whole.get(), length), now);
        }
        constexpr uint8_t kLastRawSlot0 = 0x40;  // wire::SectionHead{}.serialize_last
        writer.u8(kLastRawSlot0);
        elision::write_segment_header(run.form, segment,
                                      writer.reserve(run.form.header_bytes).data());
        writer.bytes(run.regular.payload.subspan(size_t{segment} * run.segment_bytes, bytes));
        crypto::SealedUnit& unit = scratch_.units[i];
        unit.datagram = datagram;
        unit.header_bytes = static_cast<uint8_t>(header_bytes);
        unit.space = draft.space_number;
        unit.sequence = draft.space->next + i;
        used += datagram.size();
    }
    return used;
}

}  // namespace continuo::session
