#include "common/sending/send_pipeline.hpp"

#include <algorithm>

namespace continuo::sending {

using base::TimePoint;
using base::TrafficClass;
using routing::Way;
using session::AckWriter;
using session::SentDatagrams;
using session::SessionCore;
using session::TransmitBatch;

namespace {

// A super-packet that takes longer than 1/kLongestAtRate s at the session's rate is cut up, or all
// others would wait for it. A choice, like the burst of a rate.
constexpr uint64_t kLongestAtRate = 20;

}  // namespace

SendPipeline::SendPipeline(SessionCore& core, SentDatagrams& sent, AckWriter& acks)
    : core_(core)
    , settings_(core.settings)
    , scratch_(core.scratch)
    , paths_(core.paths)
    , acks_(acks)
    , router_(core.paths)
    , kept_(core)
    , queues_(core, router_, sent)
    , sealer_(core, sent)
    , retransmitter_(core, sealer_, sent, kept_)
    , cutter_(core)
    , encoder_(core)
    , copies_(core, router_, sealer_, encoder_)
    , aggregator_(core, {queues_, sealer_, acks, kept_, encoder_, copies_, cutter_})
    , supers_(core, {queues_, sealer_, kept_, copies_, cutter_})
    , control_(core, sealer_, acks) {}

void SendPipeline::on_packet(flow::Flow& flow, packet::PacketPtr packet, TimePoint now) {
    cutter_.on_packet(queues_.of(flow.traffic_class), flow, *packet, now);
    queues_.push(flow, std::move(packet), now);
}

bool SendPipeline::poll(TransmitBatch& batch, TimePoint now) {
    if (kept_.follow_active(now)) {
        queues_.on_path_changed();
    }
    core_.upkeep.on_poll(now);
    while (batch.has_room()) {
        if (control_.send_probe(batch, now) || retransmitter_.send_datagram(batch, now)) {
            continue;
        }
        const auto traffic_class = queues_.pick(now);
        // Behind a full datagram it would meet a full queue in the path.
        if (traffic_class && !leaves_room_for_ack(*traffic_class)) {
            const auto ack = acks_.next_lone(now);
            if (ack && ack->due_at <= now && control_.send_upkeep(batch, now)) {
                continue;
            }
        }
        const bool is_urgent = traffic_class && base::is_low_delay(*traffic_class);
        if ((!is_urgent && retransmitter_.send_packet(batch, now)) ||
            (traffic_class && send_class(*traffic_class, batch, now))) {
            continue;
        }
        if (!control_.send_upkeep(batch, now)) {
            paths_.on_app_limited();
            return false;
        }
    }
    return true;
}

// Whether the next datagram of the queue has room for a piggybacked acknowledgement.
bool SendPipeline::leaves_room_for_ack(TrafficClass traffic_class) {
    constexpr uint32_t kRoom = 128;  // beside the packet, including the headers of the datagram
    const packet::Packet* const next = queues_.of(traffic_class).peek();
    const auto active = paths_.active();
    return next != nullptr && next->offload.gso == packet::GsoType::None && active &&
           next->length + kRoom <= paths_.path(*active).mtu();
}

bool SendPipeline::send_class(TrafficClass traffic_class, TransmitBatch& batch, TimePoint now) {
    SendClass& state = queues_.of(traffic_class);
    const auto way = queues_.sendable_way(state, now);
    if (!way) {
        return false;
    }
    const uint64_t before = state.counters.inner_bytes;
    const bool is_sent = send_next(state, *way, batch, now);
    if (settings_.rate != nullptr) {
        settings_.rate->take(state.counters.inner_bytes - before, now);
    }
    return is_sent;
}

bool SendPipeline::send_next(SendClass& state,
                             const Way& way,
                             TransmitBatch& batch,
                             TimePoint now) {
    const packet::Packet* const next = state.peek();
    const bool is_super = next != nullptr && next->offload.gso != packet::GsoType::None &&
                          !cutter_.compress_next(state, way, now);
    if (is_super && settings_.rate != nullptr && settings_.rate->is_limited() &&
        uint64_t{next->length} * 8 > settings_.rate->bits_per_s() / kLongestAtRate) {
        cutter_.cut_or_drop(state, state.queue.take());
        return true;
    }
    if (is_super) {
        supers_.send(state, way, batch, now);
        return true;
    }
    const uint64_t before = state.counters.inner_bytes;
    scratch_.load.begin();
    const bool is_sent = aggregator_.send(state, way, batch, now);
    if (const auto spent = scratch_.load.end(state.counters.inner_bytes - before, now)) {
        cutter_.on_compressed(*spent, now);
    }
    return is_sent;
}

TimePoint SendPipeline::next_deadline(TimePoint now) const {
    const TimePoint queued_at = queues_.next_deadline(now);
    const auto ack = acks_.next_lone(now);
    return ack ? std::min(ack->due_at, queued_at) : queued_at;
}

}  // namespace continuo::sending
