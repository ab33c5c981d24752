#include "common/session/control_sender.hpp"

#include <algorithm>

namespace continuo::session {

using base::ByteWriter;
using base::DropReason;
using base::TimePoint;
using base::TrafficClass;

namespace {

// A question is as much longer than its frame, so that three answers, whose header is two bytes
// longer, fit into three times its size: the detour moves the tuple that they go to.
constexpr size_t kClassQuestionPad = 3;

}  // namespace

ControlSender::ControlSender(SessionCore& core, Sealer& sealer, AckWriter& acks)
    : settings_(core.settings)
    , drops_(core.drops)
    , paths_(core.paths)
    , epochs_(core.epochs)
    , flows_(core.flows)
    , upkeep_(core.upkeep)
    , expected_repeats_(core.expected_repeats)
    , sealer_(sealer)
    , acks_(acks) {}

bool ControlSender::send_probe(TransmitBatch& batch, TimePoint now) {
    const auto probe = paths_.next_probe(now);
    if (!probe) {
        return false;
    }
    Path& path = paths_.path(probe->path);
    const TrafficClass tuple_class = probe->tuple_class.value_or(probe->traffic_class);
    Destination destination{probe->path, tuple_class, probe->to, probe->from, path.mtu()};
    const path::ClassWay usual = path.feedback().way_of(probe->traffic_class);
    const path::ClassWay way = probe->way.value_or(usual);
    destination.is_unmarked = way != path::ClassWay::Own;
    const Tuple& tuple = path.validation().tuple(tuple_class);
    const uint32_t overhead = outer_overhead(probe->to.address);
    const size_t padded = probe->is_padded
                              ? wire::kAnnounceBodyBytes
                              : std::max<size_t>(probe->outer_bytes, overhead) - overhead;
    // An unproven tuple gets one short frame, and no more room than it needs: an answer and a
    // challenge fit into three times the size of the node's challenge.
    const uint64_t shortest =
        wire::kLongHeaderBytes + wire::Challenge::kBytes + epochs_.sending()->sealer->tag_bytes();
    const uint64_t most = std::max<uint64_t>(padded, shortest);
    if (!tuple.may_take(most)) {
        drops_.add(DropReason::AmplificationLimit);
        path.on_withheld(*probe);
        return true;
    }
    auto draft = sealer_.start(destination, probe->traffic_class, batch);
    if (!draft) {
        return false;
    }
    draft->epoch->encoder.begin_datagram(draft->space_number, draft->space->next, now,
                                         elision::Setting::Forbidden);
    ByteWriter body(
        draft->datagram.subspan(draft->header.size(), std::max<size_t>(kControlBodyBytes, padded)));
    const bool is_own_tuple = usual == path::ClassWay::Detour && tuple_class != TrafficClass::LtLd;
    draft->is_other_way = way != usual || is_own_tuple;
    write_probe(*draft, *probe, tuple, body, now);
    draft->epoch->encoder.end_datagram();
    const size_t unpadded = draft->header.size() + body.size() + draft->epoch->sealer->tag_bytes();
    // To the node a CHALLENGE without PAD says that its address has changed.
    const size_t wanted =
        std::max(padded, probe->is_class_question ? unpadded + kClassQuestionPad : 0);
    if (unpadded < wanted) {
        wire::Pad{wanted - unpadded}.serialize(body);
    }
    sealer_.finish(*draft, body.size(), batch, now);
    return true;
}

void ControlSender::write_probe(
    Draft& draft, const Probe& probe, const Tuple& tuple, ByteWriter& body, TimePoint now) {
    probe.serialize(body);
    if (probe.has_ping || probe.wants_ack) {
        wire::Ping{}.serialize(body);
        draft.has_ping = probe.has_ping;
    }
    draft.is_size_probe = probe.outer_bytes != 0;
    if (probe.announce && probe.announce->active) {
        acks_.write_received(draft, body, now);
        expected_repeats_.on_asked(now);
    }
    // The few bytes allowed to an unproven tuple are for the answer. A class question stays short.
    if (probe.outer_bytes == 0 && !probe.is_class_question &&
        (tuple.is_proven() || probe.is_padded)) {
        acks_.write(draft, body, false, now, tuple.is_proven() ? SIZE_MAX : 0);
    }
}

bool ControlSender::send_upkeep(TransmitBatch& batch, TimePoint now) {
    EpochState* epoch = epochs_.sending();
    std::optional<Destination> destination;
    if (upkeep_.is_keepalive_due()) {
        destination = paths_.selector().destination(TrafficClass::LtLd, now);
    }
    const bool is_keepalive = has_control_room(destination);
    const auto ack = acks_.next_lone(now);
    const bool owes_ack = ack && ack->due_at <= now;
    if (!is_keepalive && owes_ack) {
        destination = ack->destination;
    } else if (!is_keepalive && epoch->encoder.wants_floor()) {
        destination = paths_.selector().upkeep_destination(now);
    }
    if (!has_control_room(destination)) {
        return false;
    }
    auto draft = sealer_.start(*destination, TrafficClass::LtLd, batch);
    if (!draft) {
        return false;
    }
    ByteWriter body(draft->datagram.subspan(draft->header.size(), kControlBodyBytes));
    epoch->encoder.begin_datagram(draft->space_number, draft->space->next, now);
    write_floors(epoch->encoder, body);
    if (!epoch->encoder.floors().empty()) {
        wire::Ping{}.serialize(body);
        draft->has_ping = true;
    }
    acks_.write(*draft, body, !is_keepalive, now);
    if (body.size() > 0) {
        // A node that asks because it hears nothing tells then what has come.
        if (settings_.role == Role::Snapt && owes_ack && ack->answers_ping &&
            paths_.path(destination->path).feedback().has_unconfirmed_class(now)) {
            wire::Ping{}.serialize(body);
        }
        if (flows_.has_closed()) {
            flows_.write_closed(*epoch, body, body.room(),
                                now + elision::skew_for(paths_.largest_rtt()));
        }
    }
    epoch->encoder.end_datagram();
    if (body.size() == 0 && !is_keepalive) {
        return false;  // the byte credit did not allow it
    }
    if (is_keepalive) {
        upkeep_.on_keepalive(now);
    }
    sealer_.finish(*draft, body.size(), batch, now);
    if (settings_.role == Role::Node && !is_keepalive && owes_ack &&
        ack->acknowledged_path == destination->path) {
        paths_.path(destination->path).node().expect_more(now);
    }
    return true;
}

}  // namespace continuo::session
