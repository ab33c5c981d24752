// How a session sends again what Retransmitter names: datagrams as they were sealed, and packets as
// copies (docs/PROTOCOL.md section 5.6). Packets are kept that were alone in their datagrams, as
// most of a transfer is, or too long for one. Compressed segments of a super-packet share datagrams
// and are not kept.
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

namespace {

// What SNAPT may still have of a space that is silent for so long is of no use any more.
constexpr Duration kReportHeard = base::seconds(120);

}  // namespace

SentEntry Session::entry_of(const Draft& draft, uint64_t first_sequence, TimePoint now) {
    SentEntry entry;
    entry.left_at = now;
    entry.sent_at = now;
    entry.first_sequence = first_sequence;
    entry.epoch = draft.epoch->number;
    entry.space = draft.space_number;
    entry.original = {entry.first_sequence, entry.epoch, entry.space};
    entry.traffic_class = draft.header.traffic_class;
    return entry;
}

void Session::remember(TransmitBatch& batch,
                       const TransmitItem& item,
                       const Draft& draft,
                       uint64_t first_sequence,
                       TimePoint now) {
    if (settings_.role != Role::Snapt) {
        return;  // the node moves when it likes, and has then sent what it had
    }
    SentEntry entry = entry_of(draft, first_sequence, now);
    entry.segment_bytes = item.segment_bytes;
    entry.datagrams = item.datagrams;
    retransmitter_.remember(entry, batch.free_space().first(item.length), heard_at_);
}

void Session::remember_packet(const Draft& draft,
                              uint64_t first_sequence,
                              const ClassQueue::Item& item,
                              uint32_t datagrams,
                              TimePoint now) {
    if (datagrams > SentEntry::kMostDatagrams) {
        return;  // left to its TCP
    }
    SentEntry entry = entry_of(draft, first_sequence, now);
    entry.is_packet = true;
    entry.flow_index = item.flow->index;
    entry.offload = item.packet->offload;
    entry.segment_bytes = item.packet->offload.segment_bytes;
    entry.datagrams = static_cast<uint16_t>(datagrams);
    retransmitter_.remember(entry, item.packet->bytes(), heard_at_);
}

bool Session::send_again(TransmitBatch& batch, TimePoint now) {
    const auto repeat = retransmitter_.next_repeat(now);
    if (!repeat) {
        return false;
    }
    if (repeat->entry->is_packet) {
        send_packet_again(*repeat, batch, now);
    } else {
        send_sealed_again(*repeat, batch, now);
    }
    return true;
}

void Session::send_sealed_again(const Retransmitter::Repeat& repeat,
                                TransmitBatch& batch,
                                TimePoint now) {
    std::memcpy(batch.free_space().data(), repeat.bytes.data(), repeat.bytes.size());
    const Destination& to = repeat.destination;
    TransmitItem item;
    item.session = this;
    item.path = to.path;
    item.traffic_class = to.tuple_class;
    item.marked_class = repeat.entry->traffic_class;
    item.to = to.to;
    item.from = to.from;
    item.length = static_cast<uint32_t>(repeat.bytes.size());
    item.segment_bytes = repeat.segment_bytes;
    item.datagrams = repeat.datagrams;
    batch.commit(item);
    paths_.on_sent(to, item.length, true, now);
    const uint64_t outer =
        outer_bytes_of_run(to.path, to.to.address, item.length, item.segment_bytes);
    paths_.path(to.path).on_data_sent(repeat.datagram_bytes + outer_overhead(to.to.address), outer,
                                      now);
    counters_.overhead_sent += outer;
    counters_.repeated_datagrams += repeat.datagrams;
    retransmitter_.on_repeated(repeat, now);
}

// A copy carries the class; a flow that has another one now would change back.
void Session::send_packet_again(const Retransmitter::Repeat& repeat,
                                TransmitBatch& batch,
                                TimePoint now) {
    SentEntry entry = *repeat.entry;
    const flow::Flow* const flow = flow_at(entry.flow_index);
    if (flow == nullptr || flow->traffic_class != entry.traffic_class) {
        retransmitter_.drop(repeat, now);
        return;
    }
    entry.original.sequence += entry.repeated;
    const auto packet = packet_again(entry, repeat.bytes, entry.repeated);
    retransmitter_.on_repeated(repeat, now);
    entry.is_repeat = true;
    EpochState* const epoch = epochs_.sending();
    if (packet.empty() || epoch == nullptr) {
        ++counters_.copies_unsent;
        return;
    }
    const uint8_t path = repeat.destination.path;
    const uint16_t space = wire::space_of(entry.traffic_class, path, 0);
    const uint64_t first = epoch->send_spaces[space_slot(space)].next;
    if (!send_copy(entry, packet, repeat.destination, batch, now)) {
        ++counters_.copies_unsent;
        return;
    }
    const uint64_t datagrams = epoch->send_spaces[space_slot(space)].next - first;
    retransmitter_.remember(entry.copy_in(epoch->number, space, first, datagrams, now), packet,
                            heard_at_);
}

// The packet, or that segment of it, with complete checksums; valid until the next call. Empty: it
// contradicts itself.
base::MutableByteView
Session::packet_again(const SentEntry& entry, ByteView bytes, uint32_t segment) {
    const MutableByteView arena(scratch_.whole.get(), packet::kLargeBufferBytes);
    if (entry.offload.gso != packet::GsoType::None) {
        return arena.first(packet::write_segment(bytes, entry.offload, segment, arena));
    }
    const MutableByteView packet = arena.first(bytes.size());
    std::memcpy(packet.data(), bytes.data(), bytes.size());
    const bool is_complete =
        !entry.offload.partial_checksum || packet::complete_checksum(packet, entry.offload);
    return is_complete ? packet : MutableByteView{};
}

// Writes the numbers that came lately, newest ranges first: SNAPT repeats what lies above them.
void Session::write_received(const Draft& draft, base::ByteWriter& body, TimePoint now) {
    const TimePoint from = now - std::min<Duration>(kReportHeard, now.time_since_epoch());
    epochs_.each([&](const EpochState& epoch) {
        const bool is_sayable = &epoch == draft.epoch || draft.epoch == epochs_.current();
        if (!is_sayable) {
            return;
        }
        epoch.each_ledger([&](uint8_t path, const AckLedger& ledger) {
            const size_t count = ledger.build_newest(scratch_.acks, from, now);
            for (const AckBlock& block : std::span(scratch_.acks).first(count)) {
                write_ack_frame(block, path, epoch, draft, body, now);
            }
        });
    });
}

void Session::keep_if_wanted(const Draft& draft,
                             uint64_t sequence,
                             const PendingPacket& pending,
                             const Way& way,
                             TimePoint now) {
    const packet::Packet& packet = *pending.item.packet;
    const flow::Flow& flow = *pending.item.flow;
    if (!pending.regular || packet.length > packet::kLargeBufferBytes) {
        return;
    }
    if (!retransmitter_.is_worth_keeping(flow, way, now)) {
        if (retransmitter_.is_worth_remembering(way, draft.header.traffic_class)) {
            remember_packet(draft, sequence, pending.item, 1, now);
        }
        return;
    }
    SentEntry entry = entry_of(draft, sequence, now);
    entry.is_packet = true;
    entry.flow_index = flow.index;
    entry.offload = packet.offload;
    retransmitter_.keep(entry, packet.bytes());
}

// The active path is another one: what was sent into the silence of the former, and of an earlier
// one if that took over in vain.
void Session::on_active_changed(TimePoint now) {
    const auto former = std::exchange(sends_on_, paths_.active());
    sends_on_since_ = now;
    for (ClassState& state : classes_) {
        state.estimator.on_path_changed();
    }
    if (sends_on_ && settings_.role == Role::Node) {
        // TCP is taken back by another connection.
        const PathMask stays = sends_on_ == wire::kTcpPath ? PathMask{0} : mask_of(*sends_on_);
        retransmitter_.on_left(static_cast<PathMask>(~stays), TimePoint{}, now);
        retransmitter_.on_moved(former, static_cast<PathMask>(silent_paths() & ~stays), now);
    }
}

// Nothing that is under way by these paths comes, as far as is known.
PathMask Session::silent_paths() const {
    PathMask mask = 0;
    for (uint8_t index = 0; index < wire::kMaxPaths; ++index) {
        const Path& path = paths_.path(index);
        const bool is_silent = path.is_failing() || !path.is_live() || path.silence().is_silent() ||
                               paths_.has_timed_out(index);
        mask |= is_silent ? mask_of(index) : PathMask{0};
    }
    return mask;
}

// Datagrams under way by any path are lost. `former`: the return path until now.
void Session::repeat_all(std::optional<uint8_t> former, TimePoint now) {
    paths_.distrust_samples(now);
    retransmitter_.on_moved(former, kAllPaths, now);
}

// Data in the connection before is lost.
void Session::on_stream_opened(TimePoint now) {
    if (paths_.active() != wire::kTcpPath) {
        return;
    }
    if (settings_.role == Role::Snapt) {
        repeat_all(paths_.active(), now);
    } else {
        retransmitter_.on_left(mask_of(wire::kTcpPath), TimePoint{}, now);
        retransmitter_.on_moved(paths_.active(), mask_of(wire::kTcpPath), now);
    }
}

// Flows that had another path go by others as soon as that is doubtful.
void Session::on_doubt(uint8_t path, TimePoint now) {
    if (paths_.active() != path && paths_.path(path).state() == PathState::Doubtful) {
        retransmitter_.on_left(mask_of(path), sends_on_since_, now);
        retransmitter_.on_moved(path, mask_of(path), now);
    }
}

bool Session::send_kept(TransmitBatch& batch, TimePoint now) {
    if (paths_.take_narrowed()) {
        retransmitter_.on_left(kAllPaths, TimePoint{}, now);
    }
    const auto at = [this](uint32_t index) { return flow_at(index); };
    while (SentEntry* const entry = retransmitter_.next_kept(at, now)) {
        const auto destination = paths_.destination(entry->traffic_class, now);
        if (!destination || destination->budget_bytes < destination->mtu) {
            return false;
        }
        const auto packet = packet_again(*entry, retransmitter_.packet(*entry), 0);
        const bool is_sent = !packet.empty() && retransmitter_.may_copy_to(*entry, *destination) &&
                             send_copy(*entry, packet, *destination, batch, now);
        counters_.copies_unsent += is_sent ? 0U : 1U;
        retransmitter_.on_copied(*entry, is_sent);
        if (is_sent) {
            return true;
        }
    }
    return false;
}

// The last of what is sent again asks for an ACK: nothing may follow for long.
void Session::write_copy(const SentEntry& entry, Draft& draft, ByteWriter& body) const {
    if (!entry.is_unnamed) {
        const wire::Copy original{wire::space_from_number(entry.original.space),
                                  static_cast<uint32_t>(entry.original.sequence),
                                  entry.original.epoch != draft.epoch->number};
        original.serialize(body);
    }
    if (entry.is_repeat && !retransmitter_.has_repeats()) {
        wire::Ping{}.serialize(body);
        draft.has_ping = true;
    }
}

bool Session::send_copy(const SentEntry& original,
                        ByteView packet,
                        const Destination& destination,
                        TransmitBatch& batch,
                        TimePoint now) {
    return send_copy_whole(original, packet, destination, batch, now) ||
           send_copy_pieces(original, packet, destination, batch, now);
}

// A copy of the datagram that the entry was in. False when it does not fit: the frame takes 4 to 6
// bytes more than the original had, and a flow that has to be opened again 30.
bool Session::send_copy_whole(const SentEntry& entry,
                              ByteView packet,
                              const Destination& destination,
                              TransmitBatch& batch,
                              TimePoint now) {
    const auto regular = packet::parse_regular(packet, {});
    auto draft = start_draft(destination, entry.traffic_class, batch);
    if (!regular || !draft) {
        return false;
    }
    elision::Encoder& encoder = draft->epoch->encoder;
    encoder.begin_datagram(draft->space_number, draft->space->next, now,
                           elision::Setting::Forbidden);
    ByteWriter body(draft->datagram.subspan(draft->header.size(), draft->body_limit));
    write_copy(entry, *draft, body);
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

// The packet in pieces. COPY stands with the last one, so that the identity is judged when that
// comes: the others make nothing without it.
bool Session::send_copy_pieces(const SentEntry& entry,
                               ByteView packet,
                               const Destination& destination,
                               TransmitBatch& batch,
                               TimePoint now) {
    const auto version = packet[0] >> 4U == 4 ? base::IpVersion::V4 : base::IpVersion::V6;
    const auto nobody = base::IpAddress::any(version);
    ByteWriter whole(MutableByteView(scratch_.decompressed.get(), kDecompressArenaBytes));
    elision::write_whole_entry(packet, whole);
    if (!packet::rewrite_node_address(whole.written().last(packet.size()), sends_side(), nobody,
                                      false)) {
        return false;
    }
    ByteView left = whole.written();
    wire::Fragment piece;
    piece.id = next_fragment_id(classes_[base::index_of(entry.traffic_class)]);
    for (; piece.index < kMaxItemsPerTurn; ++piece.index) {
        const auto is_last = send_copy_piece(entry, destination, piece, left, batch, now);
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

// Takes as much of `left` as fits behind `piece`; true if that was all. None: nothing fits.
std::optional<bool> Session::send_copy_piece(const SentEntry& entry,
                                             const Destination& destination,
                                             wire::Fragment piece,
                                             ByteView& left,
                                             TransmitBatch& batch,
                                             TimePoint now) {
    constexpr size_t kLeastPiece = 64;
    auto draft = start_draft(destination, entry.traffic_class, batch);
    const size_t heads = wire::Copy::kMostBytes + 1 + wire::Fragment::kHeadBytes;  // and PING
    if (!draft || draft->body_limit < heads + kLeastPiece) {
        return std::nullopt;
    }
    ByteWriter body(draft->datagram.subspan(draft->header.size(), draft->body_limit));
    const size_t room = draft->body_limit - heads;
    piece.last = left.size() <= room;
    piece.piece = left.first(std::min(left.size(), room));
    if (piece.last) {
        write_copy(entry, *draft, body);
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
