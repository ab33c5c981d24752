#include "common/sending/super_cutter.hpp"

#include "common/compress/incompressible.hpp"
#include "common/packet/segmenter.hpp"

#include <utility>

namespace continuo::sending {

using base::DropReason;
using base::TimePoint;
using flow::Flow;
using routing::Way;
using session::SessionCore;

namespace {

bool is_compressible(const SendClass& state, const Flow& flow, const packet::Packet& super) {
    if (state.settings.compression_level == 0 || !flow.may_compress) {
        return false;
    }
    const base::ByteView payload = packet::super_payload(super.bytes(), super.offload);
    return !payload.empty() && !compress::is_incompressible(payload);
}

// Puts the packets that the kernel would have cut in the place of the super-packet, which was taken
// from the head of the queue. False, with everything unchanged, when the super-packet is
// inconsistent or the pool has too few packets.
bool cut_into_segments(SendClass& state, ClassQueue::Item& item) {
    packet::Packet& super = *item.packet;
    packet::PacketPool& pool = *super.pool;
    const uint32_t count = packet::segment_count(super.bytes(), super.offload);
    if (count == 0) {
        return false;
    }
    const size_t capacity =
        size_t{super.offload.segment_bytes} + 128;  // headers are at most 40 + 60
    packet::Packet* last = nullptr;                 // a list from the last one to the first
    const auto take_last = [&last] {
        packet::PacketPtr packet(last);
        last = std::exchange(packet->next, nullptr);
        return packet;
    };
    for (uint32_t i = 0; i < count; ++i) {
        packet::PacketPtr segment = pool.take(capacity);
        const size_t length =
            segment == nullptr
                ? 0
                : packet::write_segment(super.bytes(), super.offload, i, segment->buffer());
        if (length == 0) {
            while (last != nullptr) {
                take_last();
            }
            return false;
        }
        segment->length = static_cast<uint32_t>(length);
        segment->queued_at = super.queued_at;
        segment->next = last;
        last = segment.release();
    }
    while (last != nullptr) {
        state.queue.put_back({item.flow, take_last()});
    }
    item = {};
    ++state.counters.software_segmented;
    return true;
}

}  // namespace

SuperCutter::SuperCutter(SessionCore& core)
    : scratch_(core.scratch), drops_(core.drops), paths_(core.paths) {}

void SuperCutter::on_packet(const SendClass& state,
                            const Flow& flow,
                            const packet::Packet& packet,
                            TimePoint now) {
    if (packet.offload.gso != packet::GsoType::None && is_compressible(state, flow, packet)) {
        governor_.on_arrival(packet.length, now);
    }
}

// Judges the next super-packet in the queue.
bool SuperCutter::is_worth_compressing(SendClass& state, const Way& way, TimePoint now) {
    if (!is_compressible(state, *state.queue.peek_flow(), *state.queue.peek())) {
        return false;
    }
    const path::Measured& measured = paths_.path(way.destination.path).feedback().measured();
    const PathPace pace{measured.is_full || measured.was_full, measured.bytes_per_s};
    return !state.settings.is_compression_automatic ||
           governor_.may_compress(scratch_.load, pace, now);
}

bool SuperCutter::compress_next(SendClass& state, const Way& way, TimePoint now) {
    if (!is_worth_compressing(state, way, now)) {
        return false;
    }
    ClassQueue::Item super = state.queue.take();
    if (!cut_into_segments(state, super)) {
        state.queue.put_back(std::move(super));
        return false;
    }
    return true;
}

void SuperCutter::cut_or_drop(SendClass& state, ClassQueue::Item item) {
    const uint32_t count = packet::segment_count(item.packet->bytes(), item.packet->offload);
    if (count == 0) {
        drops_.add(DropReason::MalformedPacket);
    } else if (!cut_into_segments(state, item)) {
        drops_.add(DropReason::PoolEmpty, count);
    }
}

}  // namespace continuo::sending
