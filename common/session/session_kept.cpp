// Packets that are kept, to be sent again as copies (docs/PROTOCOL.md section 5.6). Otherwise a
// transfer goes on only at its TCP's next retransmission, whose time-out doubles with each try.
// Kept are packets that were alone in their datagram, as in most transfers, or too long for one:
//
//   what a node sent into the silence of a path   sent again by the path that takes over
//   what has nothing of its flow around it        the same (node; SNAPT repeats as it sealed),
//                                                 and in pieces when a black hole swallowed it
//
// Compressed segments of a super-packet share datagrams and are not kept.
#include "common/packet/rewrite.hpp"
#include "common/packet/segmenter.hpp"
#include "common/session/session.hpp"

#include <algorithm>
#include <cstring>

namespace continuo::session {

using base::ByteView;
using base::ByteWriter;
using base::Duration;
using base::MutableByteView;
using base::TimePoint;
using base::TrafficClass;

namespace {

// A path is silent when it has owed an answer for two round trips and kSilence, so that an
// acknowledgement should have come.
constexpr Duration kSilence = base::milliseconds(50);
constexpr Duration kLeastPatience = base::milliseconds(100);
// Limit of repeats of a packet, however often its path changes.
constexpr uint8_t kMostRepeats = 16;

}  // namespace

// Whether datagrams sent there now meet a silent path, so that their packets are kept.
bool Session::is_silent(const Way& way, TrafficClass traffic_class, TimePoint now) const {
    const Path& path = paths_.path(way.destination.path);
    const Duration patience = path.feedback().smoothed_rtt() +
                              std::max<Duration>(path.feedback().smoothed_rtt(), kLeastPatience) +
                              kSilence;
    if (settings_.role != Role::Node || way.is_striped || base::is_low_delay(traffic_class) ||
        path.liveness().silent_since() == base::kNever ||
        now - path.liveness().silent_since() < patience) {
        return false;
    }
    // Acknowledgements of another path may come by the active one.
    return paths_.active() == way.destination.path || path.liveness().timeouts() > 0;
}

// No later packet of the flow would reveal its loss, only its sender's timer.
bool Session::is_alone(const flow::Flow& flow, const Way& way) const {
    return !way.is_striped && !base::is_low_delay(flow.traffic_class) && flow.queue.packets == 0 &&
           flow.paths.gap >= paths_.path(way.destination.path).feedback().smoothed_rtt();
}

// `packet`: as it would be without a tunnel, with complete checksums.
void Session::keep(
    const Draft& draft, uint64_t sequence, const flow::Flow& flow, ByteView packet, TimePoint now) {
    SentEntry entry;
    entry.sent_at = now;
    entry.first_sequence = sequence;
    entry.epoch = draft.epoch->number;
    entry.space = draft.space_number;
    entry.traffic_class = draft.header.traffic_class;
    entry.flow_index = flow.index;
    kept_ring_.push(entry, packet, now - std::min<Duration>(kUsefulFor, now.time_since_epoch()));
    kept_ring_.keep_newest(kMostKeptPackets);
}

void Session::keep_if_wanted(const Draft& draft,
                             uint64_t sequence,
                             const PendingPacket& pending,
                             const Way& way,
                             TimePoint now) {
    const packet::Packet& packet = *pending.item.packet;
    const flow::Flow& flow = *pending.item.flow;
    const bool is_wanted = is_silent(way, draft.header.traffic_class, now) || is_alone(flow, way);
    if (!is_wanted || !pending.regular || packet.length > packet::kLargeBufferBytes) {
        return;
    }
    const MutableByteView copy(scratch_.whole.get(), packet.length);
    std::memcpy(copy.data(), packet.bytes().data(), copy.size());
    if (packet.offload.partial_checksum && !packet::complete_checksum(copy, packet.offload)) {
        return;
    }
    keep(draft, sequence, flow, copy, now);
}

// Marks packets kept from those paths since `since` as due, beside those that are due already.
void Session::mark_left(PathMask paths, TimePoint since, TimePoint now) {
    kept_ring_.mark_due([&](const SentEntry& entry) {
        const bool is_left = (paths & mask_of(wire::space_from_number(entry.space).path)) != 0;
        return entry.is_due ||
               (is_left && entry.repeats < kMostRepeats && entry.flow_index != SentEntry::kNoFlow &&
                entry.sent_at >= since && now - entry.sent_at < kUsefulFor);
    });
}

// The active path has changed: marks the packets sent into the silence of the former one, and of an
// earlier one if the former took over in vain. What was in a former connection is lost as well.
void Session::on_active_changed(TimePoint now) {
    const bool is_new_connection = sends_on_connection_ != paths_.connections();
    sends_on_connection_ = paths_.connections();
    sends_on_ = paths_.active();
    sends_on_since_ = now;
    for (ClassState& state : classes_) {
        state.estimator.on_path_changed();
    }
    if (sends_on_ && settings_.role == Role::Node) {
        const PathMask same = is_new_connection ? PathMask{0} : mask_of(*sends_on_);
        mark_left(static_cast<PathMask>(~same), TimePoint{}, now);
    }
}

// Flows on another path change over as soon as that path is doubtful.
void Session::on_doubt(uint8_t path, TimePoint now) {
    if (paths_.active() != path && paths_.path(path).state() == PathState::Doubtful) {
        mark_left(mask_of(path), sends_on_since_, now);
    }
}

// The datagram is too long for the path on which it would be repeated.
void Session::mark_too_long(const SentEntry& sealed) {
    kept_ring_.mark_due([&](const SentEntry& entry) {
        return entry.is_due ||
               (entry.flow_index != SentEntry::kNoFlow && entry.epoch == sealed.epoch &&
                entry.space == sealed.space && entry.first_sequence == sealed.first_sequence);
    });
}

// On the path that it took, only packets that cannot arrive any more are repeated.
bool Session::may_send_kept(const SentEntry& entry, const Destination& destination) const {
    const uint8_t path = wire::space_from_number(entry.space).path;
    const bool is_of_former_connection = path == wire::kTcpPath && entry.sent_at < sends_on_since_;
    return destination.path != path || is_of_former_connection || entry.length > destination.mtu ||
           paths_.logs().is_lost(entry.epoch, entry.space, entry.first_sequence);
}

bool Session::send_kept(TransmitBatch& batch, TimePoint now) {
    if (paths_.take_narrowed()) {
        mark_left(UINT16_MAX, TimePoint{}, now);
    }
    const auto is_acknowledged = [this](const SentEntry& entry, const EpochState& epoch) {
        const NamedNumbers* const named = epoch.send_spaces[space_slot(entry.space)].named.get();
        return (named != nullptr && named->contains(entry.first_sequence)) ||
               paths_.logs().is_named(entry.epoch, entry.space, entry.first_sequence);
    };
    while (kept_ring_.has_due()) {
        SentEntry& entry = kept_ring_.next_due();
        EpochState* const epoch = sealing(entry.epoch);
        const flow::Flow* const flow = flow_at(entry.flow_index);
        // A copy would carry the former class of a flow whose class has changed.
        const bool is_useful = epoch != nullptr && flow != nullptr &&
                               flow->traffic_class == entry.traffic_class &&
                               now - entry.sent_at < kUsefulFor && !is_acknowledged(entry, *epoch);
        bool is_sent = false;
        if (is_useful) {
            const auto destination = paths_.selector().destination(entry.traffic_class, now);
            if (!destination || destination->budget_bytes < destination->mtu) {
                return false;
            }
            is_sent = may_send_kept(entry, *destination) &&
                      (send_kept_whole(entry, *destination, batch, now) ||
                       send_kept_pieces(entry, *flow, *destination, batch, now));
            counters_.copies_unsent += is_sent ? 0U : 1U;
        }
        kept_ring_.done(entry, entry.sent_at);
        if (is_sent) {
            return true;
        }
    }
    return false;
}

// Sends a copy of the entry's datagram. False when it does not fit: the frame adds 4 to 6 bytes,
// and a flow that must be opened again 30.
bool Session::send_kept_whole(const SentEntry& entry,
                              const Destination& destination,
                              TransmitBatch& batch,
                              TimePoint now) {
    const auto regular = packet::parse_regular(kept_ring_.bytes(entry), {});
    auto draft = start_draft(destination, entry.traffic_class, batch, sealing(entry.epoch));
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
    finish_draft(*draft, body.size(), batch, now);
    ++counters_.copies_sent;
    return true;
}

// Sends the packet in pieces. COPY is in the last piece, so that the number is checked when that
// arrives: the others have no effect without it.
bool Session::send_kept_pieces(const SentEntry& entry,
                               const flow::Flow& flow,
                               const Destination& destination,
                               TransmitBatch& batch,
                               TimePoint now) {
    const ByteView kept = kept_ring_.bytes(entry);
    const MutableByteView packet(scratch_.whole.get(), kept.size());
    std::memcpy(packet.data(), kept.data(), kept.size());
    const auto nobody = base::IpAddress::any(flow.tuple.remote.version);
    if (!packet::rewrite_node_address(packet, sends_side(), nobody, false)) {
        return false;
    }
    ByteWriter whole(MutableByteView(scratch_.decompressed.get(), kDecompressArenaBytes));
    elision::write_whole_entry(packet, whole);
    ByteView left = whole.written();
    wire::Fragment piece;
    piece.id = next_fragment_id(classes_[base::index_of(entry.traffic_class)]);
    for (; piece.index < kMaxItemsPerTurn; ++piece.index) {
        const auto is_last = send_kept_piece(entry, destination, piece, left, batch, now);
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
std::optional<bool> Session::send_kept_piece(const SentEntry& entry,
                                             const Destination& destination,
                                             wire::Fragment piece,
                                             ByteView& left,
                                             TransmitBatch& batch,
                                             TimePoint now) {
    constexpr size_t kLeastPiece = 64;
    auto draft = start_draft(destination, entry.traffic_class, batch, sealing(entry.epoch));
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
    finish_draft(*draft, body.size(), batch, now);
    return piece.last;
}

}  // namespace continuo::session
