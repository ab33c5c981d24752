#include "common/session/receive_pipeline.hpp"

#include <algorithm>

namespace continuo::session {

using base::ByteReader;
using base::DropReason;
using base::TimePoint;

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

ReceivePipeline::ReceivePipeline(SessionCore& core, SentDatagrams& sent, AckWriter& acks)
    : core_(core)
    , settings_(core.settings)
    , scratch_(core.scratch)
    , drops_(core.drops)
    , counters_(core.counters)
    , paths_(core.paths)
    , epochs_(core.epochs)
    , sent_(sent)
    , body_(core)
    , delivery_(core)
    , frames_(core, sent, acks) {}

void ReceivePipeline::on_datagrams(std::span<ReceivedDatagram> datagrams, TimePoint now) {
    epochs_.set_in_use(true);
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
    epochs_.set_in_use(false);
}

// Takes datagrams of one epoch from the front, at most a batch, ready to be opened; returns their
// number.
size_t ReceivePipeline::gather_batch(std::span<ReceivedDatagram> datagrams,
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
        EpochState* own = epochs_.of_header(header->epoch);
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

void ReceivePipeline::on_authentic(const Opened& opened, TimePoint now) {
    EpochState& epoch = *opened.epoch;
    const size_t slot = space_slot(opened.header.space_number());
    crypto::ReplayWindow& window = epoch.windows[slot];
    const bool is_highest = opened.sequence >= window.next() && epochs_.may_move(epoch);
    note_gap(opened, window.next(), now);
    if (!window.check_and_mark(opened.sequence)) {
        const bool is_elsewhere = opened.arrival_path() != opened.header.path;
        const bool is_repeat =
            core_.expected_repeats.has_asked() &&
            core_.expected_repeats.may_be(is_elsewhere, paths_.largest_rtt(), now);
        drops_.add(is_repeat ? DropReason::Repeated : DropReason::Replayed);
        ++counters_.duplicates;
        paths_.path(opened.header.path).on_duplicate();
        return;
    }
    ++counters_.datagrams_received;
    counters_.bytes_received += opened.outer_bytes();
    BodyFacts facts;
    if (!body_.decode(opened, facts, now)) {
        epoch.voided[slot].check_and_mark(opened.sequence);
        acknowledge(opened, facts, AckKind::Received, now);
        return;
    }
    apply(opened, facts, is_highest, now);
}

// The datagram is valid.
void ReceivePipeline::apply(const Opened& opened,
                            const BodyFacts& facts,
                            bool is_highest,
                            TimePoint now) {
    EpochState& epoch = *opened.epoch;
    core_.heard_at = now;
    core_.unheard.on_heard();
    if (!epoch.is_heard) {
        on_epoch_heard(epoch, now);
    }
    // Repeated datagrams of SNAPT count for the path they took.
    wire::Space arrival = opened.header.space();
    arrival.path = opened.arrival_path();
    const bool may_repeat =
        settings_.role == Role::Snapt && paths_.snapt().is_overdue(arrival.path, now);
    note_arrival(opened, arrival, is_highest, now);
    if (facts.copy) {
        epoch.copied[space_slot(wire::space_number(facts.copy->space))].check_and_mark(
            facts.copy->sequence);
    }
    frames_.end_closed_flows(now);
    if (facts.is_delivered) {
        ++counters_.copies_dropped;
        counters_.overhead[base::index_of(opened.header.traffic_class)].received +=
            opened.outer_bytes();
        if (!facts.copy) {
            delivery_.open_flows(opened, now);
        }
    } else {
        delivery_.deliver(opened, facts, now);
    }
    static_cast<void>(epoch.decoder.commit());
    const bool is_refused = epoch.decoder.is_short_of_memory();
    if (is_refused) {
        drops_.add(DropReason::FlowLimit);
    }
    acknowledge(opened, facts, is_refused ? AckKind::Received : AckKind::Applied, now);
    frames_.apply(opened, may_repeat, now);
}

// When a silent path is heard again, everything sent into its silence appears missing. That is not
// a loss of a path that delivers.
void ReceivePipeline::note_gap(const Opened& opened, uint64_t next, TimePoint now) {
    constexpr base::Duration kLongSilence = base::seconds(1);
    const auto& ledger = opened.epoch->ledgers[opened.header.path];
    if (next == 0 || opened.sequence <= next || ledger == nullptr) {
        return;
    }
    const TimePoint heard_at = ledger->heard_at(opened.header.traffic_class);
    if (heard_at != TimePoint{} && now - heard_at >= kLongSilence) {
        epochs_.on_silent_gap(opened.sequence - next);
    }
}

// The datagram is authenticated and will be acknowledged. One with a void body counts as carrying
// packets: its sender waits for an answer as well.
void ReceivePipeline::acknowledge(const Opened& opened,
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
    arrival.is_asked = facts.has_ping;
    arrival.is_urgent = kind == AckKind::Applied && facts.is_urgent;
    AckLedger& ledger = epoch.ledger(opened.header.path);
    if (arrival.number == 0) {
        ledger.set_rtt(paths_.path(opened.header.path).feedback().smoothed_rtt());
    }
    ledger.on_datagram(arrival, now);
}

// A valid datagram came on that path.
void ReceivePipeline::note_arrival(const Opened& opened,
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
        if (sent_.has_due() || paths_.selector().is_in_doubt(now) ||
            scratch_.announces_active_path()) {
            spare_repeated(now);
        }
    }
    paths_.on_authenticated(arrival, datagram.from, datagram.to, datagram.bytes.size(), is_highest,
                            now);
    Path& path = paths_.path(arrival.path);
    path.on_received(opened.outer_bytes());
    const bool has_entries = !epoch.decoder.entries().empty();
    if (has_entries) {
        core_.upkeep.note_use(now);
    }
    if (has_entries && settings_.role == Role::Node) {
        path.node().keepalive().on_packets(now - core_.upkeep.idle_since(), settings_.keepalive,
                                           now);
    }
    if (settings_.role == Role::Snapt && arrival.path == wire::kTcpPath && datagram.arrived_on) {
        path.snapt().trust(arrival.traffic_class);
    }
}

// Repeated datagrams were first sent long before those that arrive meanwhile. Acknowledgements that
// come now must therefore not declare them lost, nor for T_skew after: the last repeat may be that
// late.
void ReceivePipeline::spare_repeated(TimePoint now) {
    const TimePoint until = now + elision::skew_for(paths_.largest_rtt());
    epochs_.each([until](EpochState& epoch) { epoch.encoder.spare(until); });
}

void ReceivePipeline::on_epoch_heard(EpochState& epoch, TimePoint now) {
    const bool ends_previous =
        epochs_.on_heard(epoch, now + elision::skew_for(paths_.largest_rtt()));
    if (ends_previous && settings_.role == Role::Snapt) {
        paths_.logs().forget_sent();  // it has sent under the former keys until now
    }
}

}  // namespace continuo::session
