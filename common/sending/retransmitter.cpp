#include "common/sending/retransmitter.hpp"

#include "common/packet/rewrite.hpp"

#include <algorithm>
#include <cstring>

namespace continuo::sending {

using base::ByteView;
using base::ByteWriter;
using base::MutableByteView;
using base::TimePoint;
using path::Destination;
using session::DatagramInfo;
using session::EpochState;
using session::kDecompressArenaBytes;
using session::kMaxItemsPerTurn;
using session::kUsefulFor;
using session::NamedNumbers;
using session::outer_overhead;
using session::SentDatagrams;
using session::SentEntry;
using session::SessionCore;
using session::space_slot;
using session::TransmitBatch;

Retransmitter::Retransmitter(SessionCore& core,
                             Sealer& sealer,
                             SentDatagrams& sent,
                             KeptPackets& kept)
    : settings_(core.settings)
    , scratch_(core.scratch)
    , counters_(core.counters)
    , paths_(core.paths)
    , epochs_(core.epochs)
    , flows_(core.flows)
    , sealer_(sealer)
    , sent_(sent)
    , kept_(kept) {}

bool Retransmitter::send_datagram(TransmitBatch& batch, TimePoint now) {
    while (SentEntry* const due = sent_.next_due(now)) {
        SentEntry& entry = *due;
        const auto destination = paths_.selector().destination(entry.traffic_class, now);
        if (!destination) {
            return false;
        }
        const uint32_t overhead = outer_overhead(destination->to.address);
        const uint32_t step = entry.segment_bytes != 0 ? entry.segment_bytes : entry.length;
        if (step + overhead > destination->mtu) {
            kept_.on_too_long(entry);
            sent_.skip(entry, now);
            continue;
        }
        const uint64_t allowed = std::min<uint64_t>(destination->budget_bytes / (step + overhead),
                                                    sent_.allowed(entry, step, now));
        const auto count =
            static_cast<uint16_t>(std::min<uint64_t>(allowed, entry.datagrams - entry.repeated));
        if (count == 0) {
            return false;  // not until the path has answered
        }
        const ByteView whole = sent_.bytes(entry);
        const size_t from = size_t{entry.repeated} * step;
        const ByteView bytes =
            whole.subspan(from, std::min<size_t>(size_t{count} * step, whole.size() - from));
        std::memcpy(batch.free_space().data(), bytes.data(), bytes.size());
        DatagramInfo info;
        info.repeated = &entry;
        info.destination = *destination;
        info.traffic_class = entry.traffic_class;
        info.bytes = static_cast<uint32_t>(bytes.size());
        info.segment_bytes = step;
        info.count = count;
        sealer_.commit(info, batch, now);
        counters_.repeated_datagrams += count;
        sent_.on_repeated(entry, count, bytes.size(), destination->path, now);
        return true;
    }
    return false;
}

// A copy would carry the former class of a flow whose class has changed.
bool Retransmitter::is_useful(const SentEntry& entry, TimePoint now) const {
    const EpochState* const epoch = epochs_.sealing(entry.epoch);
    const flow::Flow* const flow = flows_.at(entry.flow_index);
    if (epoch == nullptr || flow == nullptr || flow->traffic_class != entry.traffic_class ||
        now - entry.sent_at >= kUsefulFor) {
        return false;
    }
    const NamedNumbers* const named = epoch->send_spaces[space_slot(entry.space)].named.get();
    return (named == nullptr || !named->contains(entry.first_sequence)) &&
           !paths_.logs().is_named(entry.epoch, entry.space, entry.first_sequence);
}

bool Retransmitter::send_packet(TransmitBatch& batch, TimePoint now) {
    if (paths_.take_narrowed()) {
        kept_.on_narrowed(now);
    }
    while (kept_.has_due()) {
        SentEntry& entry = kept_.next_due();
        bool is_sent = false;
        if (is_useful(entry, now)) {
            const auto destination = paths_.selector().destination(entry.traffic_class, now);
            if (!destination || destination->budget_bytes < destination->mtu) {
                return false;
            }
            is_sent = kept_.may_leave(entry, *destination) &&
                      (send_whole(entry, *destination, batch, now) ||
                       send_pieces(entry, *flows_.at(entry.flow_index), *destination, batch, now));
            counters_.copies_unsent += is_sent ? 0U : 1U;
        }
        kept_.done(entry);
        if (is_sent) {
            return true;
        }
    }
    return false;
}

// Sends a copy of the entry's datagram. False when it does not fit: the frame adds 4 to 6 bytes,
// and a flow that must be opened again 30.
bool Retransmitter::send_whole(const SentEntry& entry,
                               const Destination& destination,
                               TransmitBatch& batch,
                               TimePoint now) {
    const auto regular = packet::parse_regular(kept_.bytes(entry), {});
    auto draft =
        sealer_.start(destination, entry.traffic_class, batch, epochs_.sealing(entry.epoch));
    if (!regular || !draft) {
        return false;
    }
    elision::Encoder& encoder = draft->epoch->encoder;
    encoder.begin_datagram(draft->space_number, draft->space->next, now,
                           elision::Setting::Forbidden);
    ByteWriter body(draft->datagram.subspan(draft->header.size(), draft->body_limit));
    const wire::Copy original{wire::space_from_number(entry.space),
                              static_cast<uint32_t>(entry.first_sequence)};
    original.serialize(body);
    wire::SectionHead{}.serialize_last(body);
    encoder.begin_section();
    if (!encoder.append(entry.flow_index, regular->fields, regular->payload, elision::Extent::ToEnd,
                        body) ||
        !body.ok()) {
        encoder.abort_datagram();
        return false;
    }
    encoder.end_datagram();
    draft->has_kept = true;
    sealer_.finish(*draft, body.size(), batch, now);
    ++counters_.copies_sent;
    return true;
}

// Sends the packet in pieces. COPY is in the last piece, so that the number is checked when that
// arrives: the others have no effect without it.
bool Retransmitter::send_pieces(const SentEntry& entry,
                                const flow::Flow& flow,
                                const Destination& destination,
                                TransmitBatch& batch,
                                TimePoint now) {
    const ByteView kept = kept_.bytes(entry);
    const MutableByteView packet(scratch_.whole.get(), kept.size());
    std::memcpy(packet.data(), kept.data(), kept.size());
    const auto nobody = base::IpAddress::any(flow.tuple.remote.version);
    if (!packet::rewrite_node_address(packet, settings_.sends_side(), nobody, false)) {
        return false;
    }
    ByteWriter whole(MutableByteView(scratch_.decompressed.get(), kDecompressArenaBytes));
    elision::write_whole_entry(packet, whole);
    ByteView left = whole.written();
    wire::Fragment piece;
    piece.id = sealer_.next_fragment_id(entry.traffic_class);
    for (; piece.index < kMaxItemsPerTurn; ++piece.index) {
        const auto is_last = send_piece(entry, destination, piece, left, batch, now);
        if (!is_last) {
            return false;
        }
        if (*is_last) {
            ++counters_.copies_sent;
            return true;
        }
    }
    return false;
}

// Takes as much of `left` as fits behind `piece`; true if that was all. Nothing: nothing fits.
std::optional<bool> Retransmitter::send_piece(const SentEntry& entry,
                                              const Destination& destination,
                                              wire::Fragment piece,
                                              ByteView& left,
                                              TransmitBatch& batch,
                                              TimePoint now) {
    constexpr size_t kLeastPiece = 64;
    auto draft =
        sealer_.start(destination, entry.traffic_class, batch, epochs_.sealing(entry.epoch));
    const wire::Copy original{wire::space_from_number(entry.space),
                              static_cast<uint32_t>(entry.first_sequence)};
    const size_t heads = original.size() + wire::Fragment::kHeadBytes;
    if (!draft || draft->body_limit < heads + kLeastPiece) {
        return std::nullopt;
    }
    ByteWriter body(draft->datagram.subspan(draft->header.size(), draft->body_limit));
    const size_t room = draft->body_limit - heads;
    piece.last = left.size() <= room;
    piece.piece = left.first(std::min(left.size(), room));
    if (piece.last) {
        original.serialize(body);
    }
    piece.serialize(body);
    left = left.subspan(piece.piece.size());
    elision::Encoder& encoder = draft->epoch->encoder;
    encoder.begin_datagram(draft->space_number, draft->space->next, now,
                           elision::Setting::Forbidden);
    encoder.end_datagram();
    draft->has_kept = true;
    sealer_.finish(*draft, body.size(), batch, now);
    return piece.last;
}

}  // namespace continuo::sending
