// Received datagrams, in the order of trust: open, check, decode, then apply (session_frames.cpp)
// and deliver (session_deliver.cpp).
#include "common/session/session.hpp"

#include <algorithm>
#include <cstring>

namespace continuo::session {

using base::ByteReader;
using base::ByteView;
using base::DropReason;
using base::MutableByteView;
using base::TimePoint;
using crypto::ReplayVerdict;

namespace {

// No session has a path of that MTU, so no conforming peer has sent it. Over TCP a datagram has the
// same size (docs/PROTOCOL.md section 5.7), by the shorter header: NAT64 may hide the peer's.
bool is_too_long(const ReceivedDatagram& datagram) {
    const bool is_stream = datagram.arrived_on == wire::kTcpPath;
    const base::IpAddress& peer =
        is_stream ? base::IpAddress::any(base::IpVersion::V4) : datagram.from.address;
    return datagram.bytes.size() + outer_overhead(peer) > recovery::MtuSearch::kLargest;
}

}  // namespace

EpochState* Session::epoch_of(uint8_t modulo) {
    for (EpochState* epoch : {current_.get(), previous_.get()}) {
        if (epoch != nullptr && epoch->number % wire::kEpochModulus == modulo) {
            return epoch;
        }
    }
    return nullptr;
}

void Session::on_datagrams(std::span<ReceivedDatagram> datagrams, TimePoint now) {
    is_receiving_ = true;
    std::array<Opened, kOpenBatch> batch;
    while (!datagrams.empty()) {
        size_t taken = 0;
        const size_t count = gather_batch(datagrams, batch, taken);
        datagrams = datagrams.subspan(taken);
        if (count == 0) {
            continue;
        }
        batch[0].epoch->opener->open(std::span(scratch_.units).first(count));
        // All verdicts come first: the host may make a session send while it handles a datagram,
        // and sealing uses the same units.
        for (size_t i = 0; i < count; ++i) {
            batch[i].is_authentic = scratch_.units[i].authentic;
        }
        for (const Opened& opened : std::span(batch).first(count)) {
            if (!opened.is_authentic) {
                drops_.add(DropReason::Unauthentic);
                continue;
            }
            on_authentic(opened, now);
        }
    }
    is_receiving_ = false;
}

// Takes datagrams of one epoch from the front, at most a batch, ready to be opened; returns their
// number.
size_t Session::gather_batch(std::span<ReceivedDatagram> datagrams,
                             std::span<Opened> batch,
                             size_t& taken) {
    size_t count = 0;
    EpochState* epoch = nullptr;
    for (; taken < datagrams.size() && count < batch.size(); ++taken) {
        ReceivedDatagram& datagram = datagrams[taken];
        if (is_too_long(datagram)) {
            drops_.add(DropReason::DatagramTooLong);
            continue;
        }
        ByteReader reader(datagram.bytes);
        const auto header = wire::TunnelHeader::parse(reader);
        if (!header) {
            drops_.add(DropReason::TooShort);
            continue;
        }
        EpochState* own = epoch_of(header->epoch);
        if (own == nullptr || header->lane != 0) {
            drops_.add(DropReason::UnknownEpoch);
            continue;
        }
        if (epoch != nullptr && own != epoch) {
            break;  // another epoch makes its own batch
        }
        epoch = own;
        if (reader.remaining() < epoch->opener->tag_bytes()) {
            drops_.add(DropReason::TooShort);
            continue;
        }
        const crypto::ReplayWindow& window = epoch->windows[space_slot(header->space_number())];
        const uint64_t sequence = header->whole_sequence(window.next());
        crypto::SealedUnit& unit = scratch_.units[count];
        unit.datagram = datagram.bytes;
        unit.header_bytes = static_cast<uint8_t>(header->size());
        unit.space = header->space_number();
        unit.sequence = sequence;
        unit.authentic = false;
        const size_t body_bytes = reader.remaining() - epoch->opener->tag_bytes();
        batch[count++] = {epoch, *header, sequence,
                          datagram.bytes.subspan(header->size(), body_bytes), &datagram};
    }
    return count;
}

// Differs from the path in the header for datagrams that SNAPT sent again.
uint8_t Session::arrival_path(const Opened& opened) {
    return opened.datagram->arrived_on.value_or(opened.header.path);
}

uint32_t Session::outer_bytes_of(const Opened& opened) {
    const ReceivedDatagram& datagram = *opened.datagram;
    return outer_bytes(datagram.arrived_on.value_or(opened.header.path), datagram.from.address,
                       datagram.bytes.size());
}

void Session::on_authentic(const Opened& opened, TimePoint now) {
    EpochState& epoch = *opened.epoch;
    const uint16_t space = opened.header.space_number();
    crypto::ReplayWindow& window = epoch.windows[space_slot(space)];
    // Datagrams of the previous epoch come late and move nothing.
    const bool is_highest = opened.sequence >= window.next() &&
                            (&epoch == current_.get() || !current_ || !current_->is_heard);
    note_gap(opened, window.next(), now);
    if (!window.check_and_mark(opened.sequence)) {
        drops_.add(may_be_repeat(opened, now) ? DropReason::Repeated : DropReason::Replayed);
        ++counters_.duplicates;
        paths_.path(opened.header.path).on_duplicate();
        return;
    }
    const uint64_t outer = outer_bytes_of(opened);
    ++counters_.datagrams_received;
    counters_.bytes_received += outer;
    expansion_.earn(outer, now);
    BodyFacts facts;
    split_outer_bytes_ = 0;
    pieces_outer_bytes_ = 0;
    paid_bytes_ = outer;  // bytes carried as they are need no budget
    epoch.decoder.begin(space, opened.sequence);
    if (!decode_body(opened, facts, now)) {
        epoch.decoder.rollback();
        epoch.voided[space_slot(space)].check_and_mark(opened.sequence);
        acknowledge(opened, facts, AckKind::Received, now);
        return;
    }
    facts.is_urgent = facts.is_urgent || epoch.decoder.has_set();
    heard_at_ = now;
    unheard_.on_heard();
    if (!epoch.is_heard) {
        on_epoch_heard(epoch, now);
    }
    // Repeated datagrams of SNAPT count for the path they took.
    wire::Space arrival = opened.header.space();
    arrival.path = arrival_path(opened);
    const bool may_repeat =
        settings_.role == Role::Snapt && paths_.snapt().is_overdue(arrival.path, now);
    note_arrival(opened, arrival, is_highest, now);
    if (facts.copy) {
        epoch.copied[space_slot(wire::space_number(facts.copy->space))].check_and_mark(
            facts.copy->sequence);
    }
    end_closed_flows(now);
    if (facts.is_delivered) {
        ++counters_.copies_dropped;
        counters_.overhead[base::index_of(opened.header.traffic_class)].received += outer;
        if (!facts.copy) {
            open_flows(opened, now);
        }
    } else {
        deliver_entries(opened, facts.order ? &*facts.order : nullptr, now);
    }
    static_cast<void>(epoch.decoder.commit());
    const bool is_refused = epoch.decoder.is_short_of_memory();
    if (is_refused) {
        drops_.add(DropReason::FlowLimit);
    }
    acknowledge(opened, facts, is_refused ? AckKind::Received : AckKind::Applied, now);
    apply_frames(opened, may_repeat, now);
}

// When a silent path is heard again, everything sent into its silence appears missing. That is not
// a loss of a path that delivers.
void Session::note_gap(const Opened& opened, uint64_t next, TimePoint now) {
    constexpr base::Duration kLongSilence = base::seconds(1);
    const auto& ledger = opened.epoch->ledgers[opened.header.path];
    if (next == 0 || opened.sequence <= next || ledger == nullptr) {
        return;
    }
    const TimePoint heard_at = ledger->heard_at(opened.header.traffic_class);
    if (heard_at != TimePoint{} && now - heard_at >= kLongSilence) {
        lost_in_silence_ += opened.sequence - next;
    }
}

// The datagram is authenticated and will be acknowledged. One with a void body counts as carrying
// packets: its sender waits for an answer as well.
void Session::acknowledge(const Opened& opened,
                          const BodyFacts& facts,
                          AckKind kind,
                          TimePoint now) {
    EpochState& epoch = *opened.epoch;
    AckLedger::Arrival arrival;
    arrival.traffic_class = opened.header.traffic_class;
    arrival.number = static_cast<uint32_t>(opened.sequence);
    arrival.outer_bytes = outer_bytes_of(opened);
    arrival.kind = kind;
    arrival.has_packets = kind == AckKind::Received || !epoch.decoder.entries().empty() ||
                          scratch_.has_frame<wire::Fragment>();
    arrival.is_asked = facts.has_ping;
    arrival.is_urgent = kind == AckKind::Applied && facts.is_urgent;
    AckLedger& ledger = epoch.ledger(opened.header.path);
    if (arrival.number == 0) {
        ledger.set_rtt(paths_.path(opened.header.path).feedback().smoothed_rtt());
    }
    ledger.on_datagram(arrival, now);
}

// A valid datagram came on that path.
void Session::note_arrival(const Opened& opened,
                           const wire::Space& arrival,
                           bool is_highest,
                           TimePoint now) {
    EpochState& epoch = *opened.epoch;
    const ReceivedDatagram& datagram = *opened.datagram;
    if (settings_.role == Role::Snapt) {
        const auto quote = wire::Quote::of(datagram.bytes);
        if (quote && datagram.arrived_on != wire::kTcpPath) {
            latest_ = Latest{*quote, datagram.from, datagram.to};
        }
        // Repeated datagrams were first sent long before those that arrive meanwhile.
        // Acknowledgements that come now must therefore not declare them lost, nor for T_skew
        // after: the last repeat may be that late.
        if (sent_ring_.has_due() || paths_.selector().is_in_doubt(now) ||
            scratch_.announces_active_path()) {
            for (EpochState* any : {current_.get(), previous_.get()}) {
                if (any != nullptr) {
                    any->encoder.spare(now + elision::skew_for(paths_.largest_rtt()));
                }
            }
        }
    }
    paths_.on_authenticated(arrival, datagram.from, datagram.to, datagram.bytes.size(), is_highest,
                            now);
    Path& path = paths_.path(arrival.path);
    path.on_received(outer_bytes_of(opened));
    const bool has_entries = !epoch.decoder.entries().empty();
    if (has_entries) {
        note_use(now);
    }
    if (has_entries && settings_.role == Role::Node) {
        path.node().keepalive().on_packets(now - kept_alive_at_, settings_.keepalive, now);
    }
    if (settings_.role == Role::Snapt && arrival.path == wire::kTcpPath && datagram.arrived_on) {
        path.snapt().trust(arrival.traffic_class);
    }
}

void Session::on_epoch_heard(EpochState& epoch, TimePoint now) {
    epoch.is_heard = true;
    if (&epoch == current_.get() && previous_) {
        previous_->retire_at = now + elision::skew_for(paths_.largest_rtt());
        if (settings_.role == Role::Snapt) {
            paths_.logs().forget_sent();  // it has sent under the former keys until now
        }
    }
}

// Parses the whole body and decodes its sections against the state before it. Changes only the
// decoder's draft.
bool Session::decode_body(const Opened& opened, BodyFacts& facts, TimePoint now) {
    EpochState& epoch = *opened.epoch;
    scratch_.frames.clear();
    // Nothing may be applied from a body that turns out to be malformed further on.
    if (!wire::is_single_section(opened.body) && !wire::check_body(opened.body)) {
        drops_.add(DropReason::BadBody);
        return false;
    }
    wire::BodyReader reader(opened.body);
    wire::BodyItem item;
    size_t arena_used = 0;
    size_t section_bytes = 0;
    for (;;) {
        const auto more = reader.next(item);
        if (!more) {
            drops_.add(DropReason::BadBody);
            return false;
        }
        if (!*more) {
            break;
        }
        if (const auto* section = std::get_if<wire::Section>(&item)) {
            section_bytes += section->content.size();
            if (epoch.decoder.is_below_floor()) {
                drops_.add(DropReason::BelowFloor);
                return false;
            }
            if (!decode_section(epoch, *section, arena_used, now)) {
                return false;
            }
        } else if (!take_frame(opened, item, facts)) {
            drops_.add(DropReason::BadBody);
            return false;
        }
    }
    facts.is_delivered = is_delivered(opened, facts.copy);
    if (!facts.is_delivered && !decode_fragments(opened, section_bytes, arena_used, now)) {
        return false;
    }
    if (facts.copy && epoch.decoder.has_set()) {
        drops_.add(DropReason::BadBody);  // a copy must not set contexts
        return false;
    }
    return facts.is_delivered || pays_for_packets(opened, now);
}

// Returns false if the body is void.
bool Session::take_frame(const Opened& opened, const wire::BodyItem& item, BodyFacts& facts) {
    if (const auto* copy = std::get_if<wire::Copy>(&item)) {
        facts.copy = *copy;
        return is_copy_allowed(opened, *copy);
    }
    if (const auto* floor = std::get_if<wire::Floor>(&item)) {
        facts.is_urgent = true;
        return opened.epoch->decoder.apply_floor(wire::space_number(floor->space), floor->sequence);
    }
    if (const auto* order = std::get_if<wire::Order>(&item)) {
        facts.order = *order;
        return true;
    }
    if (std::holds_alternative<wire::Ping>(item)) {
        facts.has_ping = true;
        return true;
    }
    scratch_.frames.push_back(item);
    return true;
}

// A copy has the class and lane of its original. It takes another path, or comes later.
bool Session::is_copy_allowed(const Opened& opened, const wire::Copy& copy) {
    return copy.space.lane == opened.header.lane &&
           copy.space.traffic_class == opened.header.traffic_class &&
           (copy.space.path != opened.header.path || copy.sequence < opened.sequence);
}

// Whether the packets of this aggregate came before, as the original or as a copy. A void original
// brought none; below its window nothing is known, so it counts as delivered.
bool Session::is_delivered(const Opened& opened, const std::optional<wire::Copy>& copy) {
    const EpochState& epoch = *opened.epoch;
    if (!copy) {
        // The replay window already holds the number: only a copy can have come earlier.
        const crypto::ReplayWindow& copied = epoch.copied[space_slot(opened.header.space_number())];
        return copied.next() > 0 && opened.sequence < copied.next() && copied.has(opened.sequence);
    }
    const size_t slot = space_slot(wire::space_number(copy->space));
    const auto original = epoch.windows[slot].check(copy->sequence);
    const bool was_void = original == ReplayVerdict::Duplicate &&
                          epoch.voided[slot].check(copy->sequence) == ReplayVerdict::Duplicate;
    return (original != ReplayVerdict::Fresh && !was_void) ||
           epoch.copied[slot].has(copy->sequence);
}

// Pieces are applied only when the whole body is valid. A completed entry is copied: one body may
// complete several. Pieces and sections share the datagram's outer bytes by length.
bool Session::decode_fragments(const Opened& opened,
                               size_t section_bytes,
                               size_t& arena_used,
                               TimePoint now) {
    const uint64_t outer = outer_bytes_of(opened);
    size_t all_bytes = section_bytes;
    for (const wire::BodyItem& item : scratch_.frames) {
        const auto* fragment = std::get_if<wire::Fragment>(&item);
        all_bytes += fragment != nullptr ? fragment->piece.size() : 0;
    }
    size_t taken_bytes = 0;
    for (const wire::BodyItem& item : scratch_.frames) {
        const auto* fragment = std::get_if<wire::Fragment>(&item);
        if (fragment == nullptr) {
            continue;
        }
        taken_bytes += fragment->piece.size();
        const auto until = static_cast<uint32_t>(outer * taken_bytes / all_bytes);
        const uint32_t share = until - pieces_outer_bytes_;
        pieces_outer_bytes_ = until;
        const auto whole = reassembly_.add(opened.header.traffic_class, *fragment, share, now);
        paid_bytes_ -= fragment->piece.size();  // they pay for the packet when it is complete
        if (!whole) {
            continue;
        }
        paid_bytes_ += whole->entry.size();
        if (whole->entry.size() > kDecompressArenaBytes - arena_used) {
            drops_.add(DropReason::ReassemblyLimit);
            return false;
        }
        const MutableByteView copy(scratch_.decompressed.get() + arena_used, whole->entry.size());
        std::memcpy(copy.data(), whole->entry.data(), copy.size());
        arena_used += copy.size();
        split_outer_bytes_ += whole->outer_bytes;
        if (const auto decoded = opened.epoch->decoder.decode_section(copy); !decoded) {
            drops_.add(elision::drop_reason(decoded.error()));
            return false;
        }
    }
    return true;
}

// Inflates a compressed section behind the bytes already in the arena. Its size is known only
// afterwards: so a body is inflated as a whole and then paid for, or not at all while the budget is
// used up. A section that fails costs the room that there was. Empty: the body is void.
ByteView Session::inflate(ByteView content, size_t arena_used, TimePoint now) {
    const bool is_first = arena_used == 0;
    if (settings_.role == Role::Snapt && is_first && expansion_.left_bytes(now) == 0) {
        drops_.add(DropReason::InflationLimit);
        return {};
    }
    const size_t room =
        std::min(kDecompressArenaBytes - arena_used, wire::kDefaultSectionOutputBytes);
    const MutableByteView output(scratch_.decompressed.get() + arena_used, room);
    const auto plain = scratch_.codec.decompress(content, output);
    const size_t cost = plain ? *plain : room;
    expansion_.charge(cost, now);
    paid_bytes_ += cost;
    if (!plain || cost == 0) {
        drops_.add(DropReason::DecompressFailed);
        return {};
    }
    return output.first(cost);
}

bool Session::decode_section(EpochState& epoch,
                             const wire::Section& section,
                             size_t& arena_used,
                             TimePoint now) {
    ByteView content = section.content;
    if (section.head.mode == wire::SectionMode::Zstd) {
        if (section.head.generation != 0) {
            drops_.add(DropReason::UnknownReference);  // never confirmed, so the sender must not
                                                       // have used it
            return false;
        }
        content = inflate(content, arena_used, now);
        if (content.empty()) {
            return false;
        }
        arena_used += content.size();
    }
    if (const auto decoded = epoch.decoder.decode_section(content); !decoded) {
        drops_.add(elision::drop_reason(decoded.error()));
        return false;
    }
    return true;
}

}  // namespace continuo::session
