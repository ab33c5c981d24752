#include "common/sending/kept_packets.hpp"

#include "common/packet/segmenter.hpp"

#include <algorithm>
#include <cstring>

namespace continuo::sending {

using base::ByteView;
using base::Duration;
using base::MutableByteView;
using base::TimePoint;
using base::TrafficClass;
using path::Destination;
using path::Path;
using path::PathState;
using path::Role;
using routing::mask_of;
using routing::PathMask;
using routing::Way;
using session::Draft;
using session::kMostKeptPackets;
using session::kReleaseAfter;
using session::kUsefulFor;
using session::PendingPacket;
using session::SentEntry;
using session::SessionCore;

namespace {

// A path is silent when it has owed an answer for two round trips and kSilence, so that an
// acknowledgement should have come.
constexpr Duration kSilence = base::milliseconds(50);
constexpr Duration kLeastPatience = base::milliseconds(100);
// Limit of repeats of a packet, however often its path changes.
constexpr uint8_t kMostRepeats = 16;

}  // namespace

KeptPackets::KeptPackets(SessionCore& core)
    : settings_(core.settings)
    , scratch_(core.scratch)
    , paths_(core.paths)
    , ring_(core.settings.memory) {}

bool KeptPackets::is_silent(const Way& way, TrafficClass traffic_class, TimePoint now) const {
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
bool KeptPackets::is_alone(const flow::Flow& flow, const Way& way) const {
    return !way.is_striped && !base::is_low_delay(flow.traffic_class) && flow.queue.packets == 0 &&
           flow.paths.gap >= paths_.path(way.destination.path).feedback().smoothed_rtt();
}

void KeptPackets::keep(
    const Draft& draft, uint64_t sequence, const flow::Flow& flow, ByteView packet, TimePoint now) {
    SentEntry entry;
    entry.sent_at = now;
    entry.first_sequence = sequence;
    entry.epoch = draft.epoch->number;
    entry.space = draft.space_number;
    entry.traffic_class = draft.header.traffic_class;
    entry.flow_index = flow.index;
    ring_.push(entry, packet, now - std::min<Duration>(kUsefulFor, now.time_since_epoch()));
    ring_.keep_newest(kMostKeptPackets);
}

void KeptPackets::keep_if_wanted(const Draft& draft,
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

void KeptPackets::on_time(TimePoint now) {
    ring_.release(now - std::min(kReleaseAfter, now.time_since_epoch()));
}

// Marks packets kept from those paths since `since` as due, beside those that are due already.
void KeptPackets::mark_left(PathMask paths, TimePoint since, TimePoint now) {
    ring_.mark_due([&](const SentEntry& entry) {
        const bool is_left = (paths & mask_of(wire::space_from_number(entry.space).path)) != 0;
        return entry.is_due ||
               (is_left && entry.repeats < kMostRepeats && entry.flow_index != SentEntry::kNoFlow &&
                entry.sent_at >= since && now - entry.sent_at < kUsefulFor);
    });
}

bool KeptPackets::follow_active(TimePoint now) {
    const bool is_new_connection = sends_on_connection_ != paths_.connections();
    if (paths_.active() == sends_on_ && !is_new_connection) {
        return false;
    }
    sends_on_connection_ = paths_.connections();
    sends_on_ = paths_.active();
    sends_on_since_ = now;
    if (sends_on_ && settings_.role == Role::Node) {
        const PathMask same = is_new_connection ? PathMask{0} : mask_of(*sends_on_);
        mark_left(static_cast<PathMask>(~same), TimePoint{}, now);
    }
    return true;
}

void KeptPackets::on_doubt(uint8_t path, TimePoint now) {
    if (paths_.active() != path && paths_.path(path).state() == PathState::Doubtful) {
        mark_left(mask_of(path), sends_on_since_, now);
    }
}

void KeptPackets::on_narrowed(TimePoint now) {
    mark_left(UINT16_MAX, TimePoint{}, now);
}

void KeptPackets::on_too_long(const SentEntry& sealed) {
    ring_.mark_due([&](const SentEntry& entry) {
        return entry.is_due ||
               (entry.flow_index != SentEntry::kNoFlow && entry.epoch == sealed.epoch &&
                entry.space == sealed.space && entry.first_sequence == sealed.first_sequence);
    });
}

bool KeptPackets::may_leave(const SentEntry& entry, const Destination& destination) const {
    const uint8_t path = wire::space_from_number(entry.space).path;
    const bool is_of_former_connection = path == wire::kTcpPath && entry.sent_at < sends_on_since_;
    return destination.path != path || is_of_former_connection || entry.length > destination.mtu ||
           paths_.logs().is_lost(entry.epoch, entry.space, entry.first_sequence);
}

}  // namespace continuo::sending
