#include "common/sending/copy_sender.hpp"

#include <algorithm>

namespace continuo::sending {

using base::ByteWriter;
using base::PathMode;
using base::TimePoint;
using base::TrafficClass;
using flow::Flow;
using routing::CopyWay;
using routing::Router;
using routing::Way;
using session::ClassSettings;
using session::Draft;
using session::outer_overhead;
using session::SessionCore;
using session::TransmitBatch;

namespace {

// Longest COPY frame: type, space, varint of 28 bits.
constexpr uint32_t kMaxCopyFrameBytes = 6;
// A path with less room for a body carries no copies.
constexpr uint32_t kMinCopyBodyBytes = 200;

}  // namespace

CopySender::CopySender(SessionCore& core,
                       const Router& router,
                       Sealer& sealer,
                       BodyEncoder& encoder)
    : settings_(core.settings)
    , scratch_(core.scratch)
    , counters_(core.counters)
    , flows_(core.flows)
    , router_(router)
    , sealer_(sealer)
    , encoder_(encoder) {}

std::optional<CopyWay>
CopySender::way(TrafficClass traffic_class, const Way& original, TimePoint now) const {
    return router_.copy(traffic_class, original.destination.path,
                        flows_.in_mode(PathMode::Redundant) > 0, now);
}

void CopySender::leave_room(Draft& draft, const std::optional<CopyWay>& copy) const {
    if (!copy) {
        return;
    }
    const ClassSettings& settings = settings_.classes[base::index_of(draft.header.traffic_class)];
    const uint32_t outer = settings.max_bytes != 0
                               ? std::min<uint32_t>(settings.max_bytes, copy->destination.mtu)
                               : copy->destination.mtu;
    const uint32_t beside = outer_overhead(copy->destination.to.address) +
                            static_cast<uint32_t>(wire::kLongHeaderBytes) +
                            static_cast<uint32_t>(draft.epoch->sealer->tag_bytes()) +
                            kMaxCopyFrameBytes;
    if (outer >= beside + kMinCopyBodyBytes) {
        draft.body_limit = std::min(draft.body_limit, outer - beside);
    }
}

bool CopySender::has_redundant(size_t count) const {
    for (size_t i = 0; i < count; ++i) {
        const Flow& flow = *scratch_.packets[i].item.flow;
        if (flow.paths.mode == PathMode::Redundant) {
            return true;
        }
    }
    return false;
}

// `bytes`: approximate size of the original.
bool CopySender::may_copy(const CopyWay& copy, bool is_redundant, size_t bytes, TimePoint now) {
    if (is_redundant) {
        return true;
    }
    if (!copy.is_doubt) {
        return false;
    }
    if (!budget_.take(bytes, now)) {
        ++counters_.copies_unsent;
        return false;
    }
    return true;
}

void CopySender::send(const wire::Copy& original,
                      SendClass& state,
                      size_t count,
                      size_t bytes,
                      const CopyWay& copy,
                      TransmitBatch& batch,
                      TimePoint now) {
    if (!may_copy(copy, has_redundant(count), bytes, now)) {
        return;
    }
    auto draft = sealer_.start(copy.destination, original.space.traffic_class, batch);
    if (!draft) {
        return;
    }
    elision::Encoder& encoder = draft->epoch->encoder;
    encoder.begin_datagram(draft->space_number, draft->space->next, now,
                           elision::Setting::Forbidden);
    ByteWriter body(draft->datagram.subspan(draft->header.size(), draft->body_limit));
    original.serialize(body);
    if (scratch_.order.count > 0) {
        scratch_.order.serialize(body);
    }
    for (size_t i = 0; i < count; ++i) {
        scratch_.packets[i].is_announced = false;  // only sets announce a flow for good
    }
    if (!encoder_.write_packets(*draft, state, count, body)) {
        encoder.abort_datagram();
        ++counters_.copies_unsent;
        return;
    }
    encoder.end_datagram();
    sealer_.finish(*draft, body.size(), batch, now);
    ++counters_.copies_sent;
}

void CopySender::send_piece(const wire::Copy& original,
                            const wire::Fragment& piece,
                            bool is_redundant,
                            const CopyWay& copy,
                            TransmitBatch& batch,
                            TimePoint now) {
    if (!may_copy(copy, is_redundant, piece.piece.size(), now)) {
        return;
    }
    auto draft = sealer_.start(copy.destination, original.space.traffic_class, batch);
    if (!draft) {
        return;
    }
    ByteWriter body(draft->datagram.subspan(draft->header.size(), draft->body_limit));
    original.serialize(body);
    piece.serialize(body);
    if (!body.ok()) {
        ++counters_.copies_unsent;
        return;
    }
    elision::Encoder& encoder = draft->epoch->encoder;
    encoder.begin_datagram(draft->space_number, draft->space->next, now,
                           elision::Setting::Forbidden);
    encoder.end_datagram();
    sealer_.finish(*draft, body.size(), batch, now);
    ++counters_.copies_sent;
}

}  // namespace continuo::sending
