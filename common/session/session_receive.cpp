// What a session does with received datagrams: open, check, decode, apply, deliver, in the order of
// trust.
#include "common/packet/rewrite.hpp"
#include "common/session/session.hpp"

#include <algorithm>
#include <cstring>

namespace continuo::session {

using base::ByteReader;
using base::ByteView;
using base::DropReason;
using base::MutableByteView;
using base::TimePoint;
using flow::Flow;

namespace {

template <typename Frame>
bool has_frame(std::span<const wire::BodyItem> frames) {
    return std::any_of(frames.begin(), frames.end(), [](const wire::BodyItem& item) {
        return std::holds_alternative<Frame>(item);
    });
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
    std::array<Opened, kOpenBatch> batch;
    while (!datagrams.empty()) {
        size_t count = 0;
        size_t taken = 0;
        EpochState* epoch = nullptr;
        for (; taken < datagrams.size() && count < kOpenBatch; ++taken) {
            ReceivedDatagram& datagram = datagrams[taken];
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
                break;  // the other epoch makes a batch of its own
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
        datagrams = datagrams.subspan(taken);
        if (count == 0) {
            continue;
        }
        epoch->opener->open(std::span(scratch_.units).first(count));
        for (size_t i = 0; i < count; ++i) {
            if (!scratch_.units[i].authentic) {
                drops_.add(DropReason::Unauthentic);
                continue;
            }
            on_authentic(batch[i], now);
        }
    }
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
    const bool is_highest = opened.sequence >= window.next();
    if (!window.check_and_mark(opened.sequence)) {
        drops_.add(DropReason::Replayed);
        ++counters_.duplicates;
        return;
    }
    const uint64_t outer = outer_bytes_of(opened);
    ++counters_.datagrams_received;
    counters_.bytes_received += outer;
    BodyFacts facts;
    split_outer_bytes_ = 0;
    epoch.decoder.begin(space, opened.sequence);
    if (!decode_body(opened, facts, now)) {
        epoch.decoder.rollback();
        return;
    }
    heard_at_ = now;
    if (!epoch.is_heard) {
        on_epoch_heard(epoch, now);
    }
    // What SNAPT sent again tells of the path it took.
    wire::Space arrival = opened.header.space();
    arrival.path = opened.datagram->arrived_on.value_or(arrival.path);
    const bool may_repeat = settings_.role == Role::Snapt && paths_.is_overdue(arrival.path, now);
    const bool ends_doubt =
        paths_.on_authenticated(arrival, opened.datagram->from, opened.datagram->to,
                                opened.datagram->bytes.size(), is_highest, now);
    if (!epoch.decoder.entries().empty()) {
        paths_.on_packets(arrival.path, kept_alive_at_, settings_.keepalive, now);
    }
    if (settings_.role == Role::Snapt && arrival.path == wire::kTcpPath &&
        opened.datagram->arrived_on) {
        paths_.trust(arrival);
    }
    last_spaces_[base::index_of(opened.header.traffic_class)] = {epoch.number, space, true};
    epoch.ledger.on_outer_bytes(outer);
    facts.is_urgent = facts.is_urgent || epoch.decoder.has_set();
    if (facts.copy) {
        epoch.copied[space_slot(wire::space_number(facts.copy->space))].check_and_mark(
            facts.copy->sequence);
    }
    if (facts.is_delivered) {
        ++counters_.copies_dropped;
        counters_.overhead_received += outer;
    } else {
        deliver_entries(opened, now);
    }
    facts.is_stateful = epoch.decoder.commit() || facts.is_stateful;
    if (facts.is_stateful) {
        epoch.ledger.on_accepted(space, opened.sequence, facts.is_urgent, now);
    } else {
        epoch.ledger.on_stateless(space, opened.sequence);
    }
    apply_frames(opened, may_repeat, now);
    if (ends_doubt) {
        host_.on_path_changed(*this, arrival.path, now);
    }
}

void Session::on_epoch_heard(EpochState& epoch, TimePoint now) {
    epoch.is_heard = true;
    if (&epoch == current_.get() && previous_) {
        previous_->retire_at = now + elision::skew_for(paths_.largest_rtt());
    }
}

// Parses the whole body and decodes its sections against the state before it. Changes nothing but
// the decoder's draft.
bool Session::decode_body(const Opened& opened, BodyFacts& facts, TimePoint now) {
    EpochState& epoch = *opened.epoch;
    scratch_.frames.clear();
    // Nothing may be taken over from a body that turns out to be malformed further on.
    if (!wire::is_single_section(opened.body) && !wire::check_body(opened.body)) {
        drops_.add(DropReason::BadBody);
        return false;
    }
    wire::BodyReader reader(opened.body);
    wire::BodyItem item;
    size_t arena_used = 0;
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
            if (epoch.decoder.is_below_floor()) {
                drops_.add(DropReason::BelowFloor);
                return false;
            }
            if (!decode_section(epoch, *section, arena_used)) {
                return false;
            }
        } else if (!take_frame(opened, item, facts)) {
            drops_.add(DropReason::BadBody);
            return false;
        }
    }
    facts.is_delivered = is_delivered(opened, facts.copy);
    if (!facts.is_delivered && !decode_fragments(opened, arena_used, now)) {
        return false;
    }
    if (facts.copy && epoch.decoder.has_set()) {
        drops_.add(DropReason::BadBody);  // a copy sets nothing
        return false;
    }
    return true;
}

// False: the body is void.
bool Session::take_frame(const Opened& opened, const wire::BodyItem& item, BodyFacts& facts) {
    if (const auto* copy = std::get_if<wire::Copy>(&item)) {
        facts.copy = *copy;
        return is_copy_allowed(opened, *copy);
    }
    if (const auto* floor = std::get_if<wire::Floor>(&item)) {
        facts.is_stateful = true;
        return opened.epoch->decoder.apply_floor(wire::space_number(floor->space), floor->sequence);
    }
    if (std::holds_alternative<wire::Ping>(item)) {
        facts.is_stateful = true;
        facts.is_urgent = true;
        return true;
    }
    facts.is_stateful = facts.is_stateful || std::holds_alternative<wire::Fragment>(item) ||
                        std::holds_alternative<wire::Closed>(item) ||
                        std::holds_alternative<wire::Caps>(item);
    if (scratch_.frames.size() >= kMaxFramesPerDatagram) {
        return false;
    }
    scratch_.frames.push_back(item);
    return true;
}

// A copy is of the same class and lane, and travels in another space than what it copies.
bool Session::is_copy_allowed(const Opened& opened, const wire::Copy& copy) {
    return copy.space.lane == opened.header.lane &&
           copy.space.traffic_class == opened.header.traffic_class &&
           copy.space.path != opened.header.path;
}

// Whether the packets of this aggregate came before, as the original or as a copy.
bool Session::is_delivered(const Opened& opened, const std::optional<wire::Copy>& copy) {
    const EpochState& epoch = *opened.epoch;
    if (!copy) {
        // The replay window has taken the number in already: only a copy can have been earlier.
        const crypto::ReplayWindow& copied = epoch.copied[space_slot(opened.header.space_number())];
        return copied.next() > 0 && opened.sequence < copied.next() && copied.has(opened.sequence);
    }
    const size_t slot = space_slot(wire::space_number(copy->space));
    return epoch.windows[slot].has(copy->sequence) || epoch.copied[slot].has(copy->sequence);
}

// Pieces are taken over only when the whole body was good. A completed entry is copied: several may
// be in one body.
bool Session::decode_fragments(const Opened& opened, size_t& arena_used, TimePoint now) {
    const uint32_t outer = outer_bytes_of(opened);
    for (const wire::BodyItem& item : scratch_.frames) {
        const auto* fragment = std::get_if<wire::Fragment>(&item);
        if (fragment == nullptr) {
            continue;
        }
        const auto whole = reassembly_.add(opened.header.traffic_class, *fragment, outer, now);
        if (!whole) {
            continue;
        }
        if (whole->entry.size() > kDecompressArenaBytes - arena_used) {
            drops_.add(DropReason::ReassemblyLimit);
            return false;
        }
        const MutableByteView copy(scratch_.decompressed.get() + arena_used, whole->entry.size());
        std::memcpy(copy.data(), whole->entry.data(), copy.size());
        arena_used += copy.size();
        split_outer_bytes_ += whole->earlier_outer_bytes;
        if (const auto decoded = opened.epoch->decoder.decode_section(copy); !decoded) {
            drops_.add(elision::drop_reason(decoded.error()));
            return false;
        }
    }
    return true;
}

bool Session::decode_section(EpochState& epoch, const wire::Section& section, size_t& arena_used) {
    ByteView content = section.content;
    if (section.head.mode == wire::SectionMode::Zstd) {
        if (section.head.generation != 0) {
            drops_.add(DropReason::UnknownReference);  // never confirmed, so the sender must not
                                                       // have used it
            return false;
        }
        const size_t room =
            std::min(kDecompressArenaBytes - arena_used, wire::kDefaultSectionOutputBytes);
        const MutableByteView output(scratch_.decompressed.get() + arena_used, room);
        const auto plain = scratch_.codec.decompress(content, output);
        if (!plain) {
            drops_.add(DropReason::DecompressFailed);
            return false;
        }
        arena_used += *plain;
        content = output.first(*plain);
    }
    if (const auto decoded = epoch.decoder.decode_section(content); !decoded) {
        drops_.add(elision::drop_reason(decoded.error()));
        return false;
    }
    return true;
}

void Session::deliver_entries(const Opened& opened, TimePoint now) {
    const auto entries = opened.epoch->decoder.entries();
    const uint32_t own = outer_bytes_of(opened);
    auto& members = scratch_.members;
    members.clear();
    for (const elision::DecodedEntry& entry : entries) {
        Flow* flow = deliver_entry(opened, entry, now);
        if (flow == nullptr) {
            continue;
        }
        size_t inner = 0;
        if (entry.kind != elision::EntryKind::Context) {
            inner = entry.payload.size() +
                    (entry.kind == elision::EntryKind::Whole ? 0 : entry.fields.header_bytes());
        }
        const auto same =
            std::find_if(members.begin(), members.end(),
                         [&](const ReceivedMember& member) { return member.flow == flow; });
        if (same != members.end()) {
            same->inner_bytes += static_cast<uint32_t>(inner);
        } else {
            members.push_back({flow, static_cast<uint32_t>(inner)});
        }
    }
    attribute_received(own);
}

// A flow may have ended by what was delivered: detach() took it out. Counters are looked up only
// now.
void Session::attribute_received(uint32_t own) {
    auto& shares = scratch_.shares;
    shares.clear();
    for (const ReceivedMember& member : scratch_.members) {
        if (member.flow != nullptr && member.flow->counters != nullptr &&
            shares.size() < flow::kMaxAttributionMembers) {
            shares.push_back({&member.flow->counters->counters, member.inner_bytes});
        }
    }
    scratch_.members.clear();
    if (shares.empty()) {
        counters_.overhead_received += own;
        return;
    }
    // What earlier pieces of a split packet cost was booked as overhead until it was whole.
    counters_.overhead_received -=
        std::min<uint64_t>(counters_.overhead_received, split_outer_bytes_);
    const auto direction =
        settings_.role == Role::Node ? flow::Direction::Down : flow::Direction::Up;
    flow::attribute(shares, own + split_outer_bytes_, direction);
}

Flow* Session::deliver_entry(const Opened& opened,
                             const elision::DecodedEntry& entry,
                             TimePoint now) {
    if (entry.kind == elision::EntryKind::Whole) {
        if (entry.payload.empty() || entry.payload.size() > packet::kLargeBufferBytes) {
            drops_.add(DropReason::MalformedPacket);
            return nullptr;
        }
        const MutableByteView whole(scratch_.whole.get(), entry.payload.size());
        std::memcpy(whole.data(), entry.payload.data(), whole.size());
        const auto version = whole[0] >> 4 == 6 ? base::IpVersion::V6 : base::IpVersion::V4;
        if (!packet::rewrite_node_address(whole, receives_side(), node_address(version), false)) {
            drops_.add(DropReason::MalformedPacket);
            return nullptr;
        }
        return host_.deliver_whole(*this, opened.header.traffic_class, whole, now);
    }
    packet::HeaderFields fields = entry.fields;
    const bool is_up = receives_side() == packet::NodeSide::Source;
    base::IpAddress& node = is_up ? fields.source : fields.destination;
    const base::IpAddress& remote = is_up ? fields.destination : fields.source;
    node = node_address(remote.version);
    FlowOpening opening;
    opening.index = entry.index;
    opening.traffic_class = opened.header.traffic_class;
    opening.open = entry.open;
    const bool is_echo =
        fields.protocol == packet::Protocol::Icmp || fields.protocol == packet::Protocol::IcmpV6;
    opening.tuple.local = node;
    opening.tuple.remote = remote;
    opening.tuple.local_port = is_up || is_echo ? fields.source_port : fields.destination_port;
    opening.tuple.remote_port =
        is_echo ? uint16_t{0} : (is_up ? fields.destination_port : fields.source_port);
    opening.tuple.protocol = fields.protocol;
    Flow* flow = flow_at(entry.index);
    const bool is_known = flow != nullptr && flow->tuple == opening.tuple;
    if (entry.kind == elision::EntryKind::Elided) {
        // A late packet of the flow that had this index before is not the new one's.
        flow = is_known ? flow : host_.find_flow(*this, opening.tuple);
    } else if (!is_known ||
               (entry.open.continues && flow->traffic_class != opened.header.traffic_class)) {
        flow = host_.on_flow_opened(*this, opening, now);
    }
    if (flow == nullptr) {
        drops_.add(DropReason::FlowLimit);
        return nullptr;
    }
    if (entry.kind != elision::EntryKind::Context) {
        host_.deliver(*this, *flow, fields, entry.payload, now);
    }
    return flow;
}

// `may_repeat`: it ends a silence in which datagrams may have been lost.
void Session::apply_frames(const Opened& opened, bool may_repeat, TimePoint now) {
    const wire::Space space = opened.header.space();
    const bool is_announcement = has_frame<wire::Announce>(scratch_.frames);
    const bool is_long_announcement =
        is_announcement && opened.datagram->bytes.size() >= wire::kAnnounceBodyBytes;
    // A padded CHALLENGE alone asks for the MTU: its answer is short, and nothing has moved.
    const bool is_mtu_probe = !is_announcement && has_frame<wire::Pad>(scratch_.frames);
    bool is_repeating = false;
    for (const wire::BodyItem& item : scratch_.frames) {
        if (const auto* report = std::get_if<wire::Report>(&item)) {
            apply_report(opened, *report);
        } else if (const auto* ack = std::get_if<wire::Ack>(&item)) {
            apply_ack(opened, *ack, now);
        } else if (const auto* challenge = std::get_if<wire::Challenge>(&item)) {
            paths_.on_challenge(space, *challenge, is_long_announcement);
            if (settings_.role == Role::Node && !is_mtu_probe) {
                host_.on_path_challenged(*this, space.path, now);
            }
        } else if (const auto* response = std::get_if<wire::Response>(&item)) {
            if (paths_.on_response(space, *response, now) && settings_.role == Role::Node) {
                host_.on_path_changed(*this, space.path, now);
            }
        } else if (const auto* announce = std::get_if<wire::Announce>(&item)) {
            if (settings_.role != Role::Snapt) {
                continue;
            }
            is_repeating = is_repeating || (may_repeat && announce->active);
            if (paths_.on_announce(space.path, *announce, now)) {
                ++counters_.handovers;
                is_repeating = true;
                host_.on_path_changed(*this, space.path, now);
            }
        } else if (const auto* closed = std::get_if<wire::Closed>(&item)) {
            for (size_t i = 0; i < closed->count; ++i) {
                if (Flow* flow = flow_at(closed->indexes[i])) {
                    host_.on_flows_closed(*this, *flow, now);
                }
            }
        } else if (std::holds_alternative<wire::Close>(item)) {
            host_.on_peer_closed(*this, now);
            return;  // nothing that follows is of a session that goes on
        }
    }
    if (is_repeating) {
        mark_lost();  // reports and acknowledgements of the same datagram are in
    }
}

EpochState* Session::acknowledged_epoch(const Opened& opened, bool previous) {
    if (!previous) {
        return opened.epoch;
    }
    return opened.epoch == current_.get() ? previous_.get() : nullptr;
}

void Session::apply_report(const Opened& opened, const wire::Report& report) {
    EpochState* epoch = acknowledged_epoch(opened, report.previous_epoch);
    if (epoch == nullptr || report.space.lane != 0) {
        return;
    }
    SendSpace& sent = epoch->send_spaces[space_slot(wire::space_number(report.space))];
    if (report.highest >= sent.next) {
        drops_.add(DropReason::BadBody);  // reports what was never sent
        return;
    }
    sent.highest_acknowledged =
        std::max<uint64_t>(sent.highest_acknowledged.value_or(0), report.highest);
}

void Session::apply_ack(const Opened& opened, const wire::Ack& ack, TimePoint now) {
    EpochState* epoch = acknowledged_epoch(opened, ack.previous_epoch);
    if (epoch == nullptr) {
        return;
    }
    ++counters_.acks_received;
    const uint16_t space = wire::space_number(ack.space);
    if (ack.space.lane != 0) {
        return;
    }
    SendSpace& sent = epoch->send_spaces[space_slot(space)];
    if (ack.highest() >= sent.next) {
        drops_.add(DropReason::BadBody);  // acknowledges what was never sent
        return;
    }
    sent.highest_acknowledged =
        std::max<uint64_t>(sent.highest_acknowledged.value_or(0), ack.highest());
    for (size_t i = 0; i < ack.run_count; ++i) {
        epoch->encoder.on_acknowledged(space, ack.runs[i].first, ack.runs[i].last, now);
    }
}

}  // namespace continuo::session
