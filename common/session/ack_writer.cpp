#include "common/session/ack_writer.hpp"

#include <algorithm>

namespace continuo::session {

using base::ByteWriter;
using base::Duration;
using base::TimePoint;
using base::TrafficClass;

namespace {

// Datagram header and tag of a lone ACK, beside the frame.
constexpr size_t kBesideLoneAck = 22;
// Age at which datagrams in a silent space are no longer worth repeating.
constexpr Duration kReportHeard = base::seconds(120);

// Names a datagram with acknowledgements for the ledgers.
uint64_t ack_id(const EpochState& epoch, uint16_t space, uint64_t sequence) {
    return uint64_t{epoch.number} << 48U | uint64_t{space} << 32U | sequence;
}

}  // namespace

AckWriter::AckWriter(SessionCore& core)
    : epochs_(core.epochs), paths_(core.paths), scratch_(core.scratch), counters_(core.counters) {}

// Calls visit(epoch, path, ledger) for what a datagram that is sealed now can acknowledge:
// its own epoch and the one before.
template <typename Visit>
void AckWriter::each_reportable(const Visit& visit) const {
    EpochState* const own = epochs_.sending();
    for (EpochState* epoch : {own, own != nullptr ? epochs_.before(*own) : nullptr}) {
        if (epoch != nullptr) {
            epoch->each_ledger(
                [&](uint8_t path, const AckLedger& ledger) { visit(*epoch, path, ledger); });
        }
    }
}

std::optional<AckWriter::Lone> AckWriter::next_lone(TimePoint now) const {
    std::optional<Lone> first;
    each_reportable([&](EpochState& /*epoch*/, uint8_t path, const AckLedger& ledger) {
        const TimePoint due_at = ledger.deadline();
        if (due_at == base::kNever || (first && first->due_at <= due_at)) {
            return;
        }
        const auto by = paths_.selector().acknowledges_by(path, now);
        const auto destination =
            by ? paths_.selector().destination_on(*by, TrafficClass::LtLd, now) : std::nullopt;
        if (has_control_room(destination)) {
            first = Lone{due_at, *destination, path, ledger.is_asked()};
        }
    });
    return first;
}

size_t
AckWriter::write(Draft& draft, ByteWriter& body, bool alone, TimePoint now, size_t spare_bytes) {
    const size_t before = body.size();
    each_reportable([&](EpochState& epoch, uint8_t path, const AckLedger& ledger) {
        const bool is_alone = alone && body.size() == 0;
        if (ledger.wants(!is_alone, now) &&
            paths_.selector().acknowledges_by(path, now) == draft.destination.path) {
            const size_t start = body.size();
            write_path(draft, epoch, path, is_alone, body, std::min(body.room(), spare_bytes), now);
            spare_bytes -= std::min(spare_bytes, body.size() - start);
        }
    });
    return body.size() - before;
}

bool AckWriter::write_frame(const AckBlock& block,
                            uint8_t path,
                            const EpochState& epoch,
                            Draft& draft,
                            ByteWriter& body,
                            TimePoint now) {
    wire::Ack head;
    head.space = {block.traffic_class, path, 0};
    head.previous_epoch = &epoch != draft.epoch;
    head.delay =
        static_cast<uint32_t>(std::min<int64_t>(block.delay / wire::kAckTimeUnit, UINT32_MAX));
    head.interval_ms = static_cast<uint32_t>(base::to_ms(epoch.ledgers[path]->interval(now)));
    head.clock = recovery::RelativeDelay::clock_at(now - block.delay);
    const auto ranges = std::span(block.ranges).first(block.range_count);
    head.missing = block.ranges[0].last + 1 - block.received;
    const size_t before = body.size();
    // All or none: ranges left out would count as reported.
    if (!draft.acks.has_room_for(ranges.size()) ||
        wire::write_ack(body, head, ranges) < ranges.size()) {
        body.rewind(before);
        return false;
    }
    ++draft.acks.frames;
    draft.acks.ranges += ranges.size();
    return true;
}

// True when something was written.
bool AckWriter::write_path(Draft& draft,
                           EpochState& epoch,
                           uint8_t path,
                           bool is_alone,
                           ByteWriter& body,
                           size_t room_bytes,
                           TimePoint now) {
    AckLedger& ledger = epoch.ledger(path);
    const size_t count = ledger.build(scratch_.acks, now);
    const size_t before = body.size();
    const AckCount acks_before = draft.acks;
    const base::MutableByteView room =
        draft.datagram.subspan(draft.header.size() + before, std::min(room_bytes, body.room()));
    ByteWriter frames(room);
    size_t written = 0;
    while (written < count &&
           write_frame(scratch_.acks[written], path, epoch, draft, frames, now)) {
        ++written;
    }
    // ACKs that may leave alone are not cut to be piggybacked.
    if (written == 0 || (written < count && !is_alone)) {
        draft.acks = acks_before;
        return false;
    }
    body.reserve(frames.size());
    counters_.acks_sent += written;
    const size_t bytes =
        frames.size() +
        (is_alone ? outer_overhead(draft.destination.to.address) + kBesideLoneAck : 0);
    draft.space->note_acks();
    ledger.on_sent(std::span(scratch_.acks).first(written),
                   ack_id(*draft.epoch, draft.space_number, draft.space->next), bytes,
                   written == count, now);
    return true;
}

void AckWriter::write_received(Draft& draft, ByteWriter& body, TimePoint now) {
    const TimePoint from = now - std::min<Duration>(kReportHeard, now.time_since_epoch());
    epochs_.each([&](EpochState& epoch) {
        if (&epoch != draft.epoch && draft.epoch != epochs_.current()) {
            return;
        }
        epoch.each_ledger([&](uint8_t path, const AckLedger& ledger) {
            const size_t count = ledger.build_newest(scratch_.acks, from, now);
            for (const AckBlock& block : std::span(scratch_.acks).first(count)) {
                write_frame(block, path, epoch, draft, body, now);
            }
        });
    });
}

void AckWriter::on_acknowledged(const EpochState& epoch,
                                uint16_t space,
                                uint64_t first,
                                uint64_t last) {
    const SendSpace& sent = epoch.send_spaces[space_slot(space)];
    sent.each_with_acks(first, last, [&](uint64_t number) {
        const uint64_t id = ack_id(epoch, space, number);
        epochs_.each([id](EpochState& any) {
            any.each_ledger(
                [id](uint8_t /*path*/, AckLedger& ledger) { ledger.on_acknowledged(id, id); });
        });
    });
}

}  // namespace continuo::session
