// What a session does with received datagrams, in the order of trust: open, check, decode, then
// apply (session_frames.cpp) and deliver (session_deliver.cpp).
#include "common/session/session.hpp"

#include <algorithm>

namespace continuo::session {

using base::ByteReader;
using base::DropReason;
using base::TimePoint;

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
        // All verdicts first: the host may make a session send by what it is told of a datagram,
        // and that seals in the same units.
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

// Takes datagrams of one epoch from the front, at most a batch, ready to be opened; gives their
// number.
size_t Session::gather_batch(std::span<ReceivedDatagram> datagrams,
                             std::span<Opened> batch,
                             size_t& taken) {
    size_t count = 0;
    EpochState* epoch = nullptr;
    for (; taken < datagrams.size() && count < batch.size(); ++taken) {
        ReceivedDatagram& datagram = datagrams[taken];
        ByteReader reader(datagram.bytes);
        const auto header = wire::TunnelHeader::parse(reader);
        if (!header) {
            drops_.add(DropReason::TooShort);
            continue;
        }
        EpochState* own = epochs_.of_header(header->epoch);
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
    return count;
}

void Session::on_authentic(const Opened& opened, TimePoint now) {
    EpochState& epoch = *opened.epoch;
    const uint16_t space = opened.header.space_number();
    crypto::ReplayWindow& window = epoch.windows[space_slot(space)];
    const bool is_highest = opened.sequence >= window.next() && epochs_.is_newest_heard(epoch);
    note_gap(opened, window.next(), now);
    if (!window.check_and_mark(opened.sequence)) {
        const bool is_elsewhere = opened.arrival_path() != opened.header.path;
        drops_.add(retransmitter_.may_be_repeat(is_elsewhere, now) ? DropReason::Repeated
                                                                   : DropReason::Replayed);
        ++counters_.duplicates;
        paths_.path(opened.header.path).on_duplicate();
        return;
    }
    const uint64_t outer = opened.outer_bytes();
    ++counters_.datagrams_received;
    counters_.bytes_received += outer;
    BodyFacts facts;
    epoch.decoder.begin(space, opened.sequence);
    if (!decoder_.decode(opened, facts, now)) {
        epoch.decoder.rollback();
        epoch.voided[space_slot(space)].check_and_mark(opened.sequence);
        acknowledge(opened, facts, AckKind::Received, now);
        return;
    }
    facts.is_urgent = facts.is_urgent || epoch.decoder.has_set();
    heard_at_ = now;
    if (!epoch.is_heard) {
        on_epoch_heard(epoch, now);
    }
    // What SNAPT sent again tells of the path it took.
    wire::Space arrival = opened.header.space();
    arrival.path = opened.arrival_path();
    const bool may_repeat =
        settings_.role == Role::Snapt && paths_.path(arrival.path).is_overdue(now);
    const bool may_announce = wants_announcement(arrival.path);
    const bool ends_doubt = note_arrival(opened, arrival, is_highest, now);
    if (facts.copy && facts.original_epoch != nullptr) {
        const size_t slot = space_slot(wire::space_number(facts.copy->space));
        facts.original_epoch->copied[slot].check_and_mark(facts.copy->sequence);
    }
    if (facts.is_delivered) {
        ++counters_.copies_dropped;
        counters_.overhead_received += outer;
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
    if (may_announce && paths_.path(arrival.path).state() == PathState::Usable) {
        paths_.path(arrival.path).announce_usable(now);
    }
    if (ends_doubt) {
        events_.push({SessionEvent::Kind::PathChanged, arrival.path});
    }
}

// The node's active path fails, and no announcement is under way by it: when it works again one has
// to say what has come, so that SNAPT repeats the rest. TCP loses nothing by itself.
bool Session::wants_announcement(uint8_t path) const {
    return settings_.role == Role::Node && paths_.active() == path && path != wire::kTcpPath &&
           paths_.path(path).is_failing() && !paths_.path(path).is_announcing();
}

// A path that is heard again shows as missing all that was sent into its silence. That is no loss
// of a path that delivers.
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

// The datagram is authenticated and will be acknowledged. One with a void body counts as one with
// packets: its sender waits for an answer as well.
void Session::acknowledge(const Opened& opened,
                          const BodyFacts& facts,
                          AckKind kind,
                          TimePoint now) {
    EpochState& epoch = *opened.epoch;
    AckLedger::Arrival arrival;
    arrival.traffic_class = opened.header.traffic_class;
    arrival.number = static_cast<uint32_t>(opened.sequence);
    arrival.outer_bytes = opened.outer_bytes();
    arrival.kind = kind;
    arrival.has_packets = kind == AckKind::Received || !epoch.decoder.entries().empty() ||
                          scratch_.has_frame<wire::Fragment>();
    // A repeat had another path, and its sender waits to hear that it came.
    arrival.is_asked = facts.has_ping || opened.arrival_path() != opened.header.path;
    arrival.is_urgent = kind == AckKind::Applied && facts.is_urgent;
    AckLedger& ledger = epoch.ledger(opened.header.path);
    if (arrival.number == 0) {
        ledger.set_rtt(paths_.path(opened.header.path).smoothed_rtt());
    }
    ledger.on_datagram(arrival, now);
}

// A good datagram came on that path. True when it ends a doubt.
bool Session::note_arrival(const Opened& opened,
                           const wire::Space& arrival,
                           bool is_highest,
                           TimePoint now) {
    EpochState& epoch = *opened.epoch;
    const ReceivedDatagram& datagram = *opened.datagram;
    if (settings_.role == Role::Snapt) {
        if (const auto quote = wire::Quote::of(datagram.bytes)) {
            latest_ = *quote;
        }
    }
    const bool ends_doubt = paths_.on_authenticated(arrival, datagram.from, datagram.to,
                                                    datagram.bytes.size(), is_highest, now);
    paths_.path(arrival.path).on_received(opened.outer_bytes());
    const bool has_entries = !epoch.decoder.entries().empty();
    if (has_entries) {
        router_.on_packets(now);
        paths_.path(arrival.path)
            .keepalive()
            .on_packets(now - kept_alive_at_, settings_.keepalive, now);
    }
    if (settings_.role == Role::Snapt && arrival.path == wire::kTcpPath && datagram.arrived_on) {
        paths_.path(arrival.path).trust(arrival.traffic_class);
    }
    return ends_doubt;
}

void Session::on_epoch_heard(EpochState& epoch, TimePoint now) {
    // Missing datagrams of the one before may be sent again until then.
    epochs_.on_heard(epoch,
                     now + std::max(kRepeatableFor, elision::skew_for(paths_.largest_rtt())));
}

}  // namespace continuo::session
