#include "common/session/retransmitter.hpp"

#include "common/session/session_types.hpp"

#include <algorithm>
#include <bit>

namespace continuo::session {

using base::ByteView;
using base::Duration;
using base::TimePoint;
using base::TrafficClass;
using path::low_bits;

namespace {

// Largest burst of datagrams that are sent again, as time of the pace.
constexpr Duration kRepeatBurst = base::milliseconds(2);
// Bytes that are sent again at once on any path: the initial window (RFC 9002 section 7.2).
constexpr uint64_t kRepeatedAtOnce = 14'720;
constexpr Duration kLongestRepeat = base::milliseconds(200);
// A gap of the last round trips before a silence may not be known to the sender, or its repair may
// be lost in the silence.
constexpr int kGapRoundTrips = 2;
// A session that sends nothing for so long gives the memory back.
constexpr Duration kReleaseAfter = base::seconds(30);
// Beyond two round trips after the node asked, what comes twice may still be a repeat.
constexpr Duration kRepeatsInPlace = base::seconds(1);
constexpr Duration kRepeatsElsewhere = base::seconds(10);

// Bytes of each of its datagrams but the last one.
uint32_t step_of(const SentEntry& entry) {
    return entry.segment_bytes != 0 ? entry.segment_bytes : entry.length;
}

}  // namespace

void Retransmitter::remember(const SentEntry& entry, ByteView bytes, TimePoint heard_at) {
    const Duration rtt = path_of(entry).smoothed_rtt();
    latest_rtt_ = rtt != Duration{} ? rtt : latest_rtt_;
    sent_.forget_oldest([&](const SentEntry& old) { return is_obsolete(old, heard_at); });
    sent_.push(entry, bytes);
}

// Striped packets come by several paths, and in order: copies know none.
bool Retransmitter::is_worth_remembering(const Way& way, TrafficClass traffic_class) const {
    return role_ == Role::Node && !way.is_striped && !base::is_low_delay(traffic_class);
}

bool Retransmitter::is_worth_keeping(const flow::Flow& flow, const Way& way, TimePoint now) const {
    if (way.is_striped || base::is_low_delay(flow.traffic_class)) {
        return false;
    }
    // When one that has nothing of its flow around it is lost, no later packet tells, but only its
    // sender's timer.
    const Path& path = paths_.path(way.destination.path);
    const bool is_alone = flow.queue.packets == 0 && flow.paths.gap >= path.smoothed_rtt();
    const bool is_answered =
        path.delivery() != nullptr &&
        now - path.delivery()->acknowledged_at() < kGapRoundTrips * path.smoothed_rtt();
    return is_alone || (role_ == Role::Node && !is_answered);
}

void Retransmitter::keep(const SentEntry& entry, ByteView packet) {
    kept_.forget_oldest(
        [&](const SentEntry& old) { return entry.sent_at - old.sent_at >= kRepeatableFor; });
    kept_.push(entry, packet);
    kept_.keep_newest(kMostKeptPackets);
}

const Path& Retransmitter::path_of(const SentEntry& entry) const {
    return paths_.path(wire::space_from_number(entry.space).path);
}

// Its last number, or a higher one, was acknowledged.
bool Retransmitter::is_passed(const SentEntry& entry, const EpochState& epoch) {
    const auto& acknowledged = epoch.send_spaces[space_slot(entry.space)].highest_acknowledged;
    return acknowledged && entry.first_sequence + entry.datagrams - 1 <= *acknowledged;
}

// It left less than two round trips before the newest of its path that was acknowledged.
bool Retransmitter::is_recent(const SentEntry& entry) const {
    const Path& path = path_of(entry);
    return path.delivery() != nullptr &&
           path.delivery()->newest_sent_at() - entry.left_at < kGapRoundTrips * path.smoothed_rtt();
}

// It can be opened or copied still.
bool Retransmitter::is_of_use(const SentEntry& entry) const {
    if (epochs_.numbered(entry.epoch) == nullptr) {
        return false;
    }
    return !entry.is_packet ||
           (entry.has_flow() &&
            (entry.is_unnamed || epochs_.numbered(entry.original.epoch) != nullptr));
}

// Its datagrams, but for those of a packet that have an entry of their own.
uint64_t Retransmitter::own_datagrams(const SentEntry& entry) {
    return low_bits(entry.datagrams) & ~(entry.is_packet ? entry.again : 0);
}

// While nothing is heard the peer may be away: then all is kept that there is room for.
bool Retransmitter::is_obsolete(const SentEntry& entry, TimePoint heard_at) const {
    if (!is_of_use(entry) || own_datagrams(entry) == 0 ||
        heard_at - entry.sent_at >= kRepeatableFor) {
        return true;
    }
    if (is_in_repair(entry)) {
        return missing(entry) == 0;
    }
    const uint64_t last = entry.first_sequence + entry.datagrams - 1;
    return !entry.is_unnamed && !is_recent(entry) &&
           (is_passed(entry, *epochs_.numbered(entry.epoch)) ||
            paths_.is_lost(entry.epoch, entry.space, last));
}

// Bit i: its datagram i can still be opened, and is not known to have arrived.
uint64_t Retransmitter::missing(const SentEntry& entry) const {
    if (!is_of_use(entry)) {
        return 0;
    }
    const uint64_t all = own_datagrams(entry);
    if (entry.is_unnamed) {
        return all;
    }
    const auto& acknowledged =
        epochs_.numbered(entry.epoch)->send_spaces[space_slot(entry.space)].highest_acknowledged;
    if (!acknowledged || *acknowledged < entry.first_sequence) {
        return all;
    }
    const uint64_t passed = *acknowledged - entry.first_sequence + 1;
    const path::Delivery* const delivery = path_of(entry).delivery();
    const uint64_t gaps = delivery == nullptr
                              ? 0
                              : delivery->missing({entry.epoch, entry.space},
                                                  static_cast<uint32_t>(entry.first_sequence),
                                                  entry.datagrams, entry.left_at);
    return (gaps | ~low_bits(passed)) & all;
}

uint64_t Retransmitter::missing_bytes(const SentEntry& entry) const {
    const uint64_t bits = missing(entry);
    if (entry.is_one_packet()) {
        return bits != 0 ? entry.length : 0;
    }
    return static_cast<uint64_t>(std::popcount(bits)) * step_of(entry);
}

// All of it was under way at once because the queue of the path that was left held a part of it. So
// it leaves over the round trip there, a quarter faster (RFC 9002 section 7.7), or the new queue
// drops what the old one had room for. Later packets wait for it, but not for seconds on a path
// that has such round trips.
void Retransmitter::on_moved(std::optional<uint8_t> former, PathMask paths, TimePoint now) {
    pace_ = {};
    pace_.at_once = kRepeatedAtOnce;
    if (former) {
        const Duration rtt = paths_.path(*former).smoothed_rtt();
        // A path that has ended is forgotten.
        pace_.span =
            std::min<Duration>((rtt != Duration{} ? rtt : latest_rtt_) * 4 / 5, kLongestRepeat);
    }
    if (!is_repairing() || (paths & mask_of(repair_.path)) != 0) {
        repair_ = {};
        repair_.since = now;
    }
    lost_paths_ = static_cast<PathMask>((has_repeats() ? lost_paths_ : 0U) | paths);
    sent_.mark_due([&](const SentEntry& entry) {
        const bool is_lost =
            (lost_paths_ & mask_of(wire::space_from_number(entry.space).path)) != 0;
        const uint64_t bytes = is_lost || entry.is_due ? missing_bytes(entry) : 0;
        pace_.bytes += bytes;
        return bytes != 0;
    });
    repair_.missing_bytes = UINT64_MAX;
    repair_.is_first_round = true;
}

void Retransmitter::on_left(PathMask paths, TimePoint since, TimePoint now) {
    kept_.mark_due([&](const SentEntry& entry) {
        const bool is_left = (paths & mask_of(wire::space_from_number(entry.space).path)) != 0;
        return entry.is_due || (is_left && entry.flow_index != SentEntry::kNoFlow &&
                                entry.sent_at >= since && now - entry.sent_at < kRepeatableFor);
    });
}

void Retransmitter::on_epoch(uint32_t number) {
    const EpochKind kind = epochs_.kind_of(number);
    switch (kind) {
    case EpochKind::AnewUnheard:
        // The same numbers begin again with other keys, so entries sealed before have no name any
        // more. Nothing was heard under the old keys, so the peer has opened none of them.
        kept_.unname(number);
        break;
    case EpochKind::AnewHeard:
    case EpochKind::First:
        kept_.clear();
        break;
    case EpochKind::Next:
        break;
    }
    const bool is_anew = kind == EpochKind::AnewHeard || kind == EpochKind::AnewUnheard;
    if (!is_anew || epochs_.current()->sealed_datagrams == 0) {
        return;
    }
    if (role_ == Role::Node && kind == EpochKind::AnewUnheard) {
        sent_.unname(number);
    } else {
        sent_.clear();
    }
}

void Retransmitter::release(TimePoint now) {
    const TimePoint keep_from = now - std::min(kReleaseAfter, now.time_since_epoch());
    if (!sent_.has_due()) {
        sent_.release(keep_from);
    }
    kept_.release(keep_from);
}

// The high-delay classes have a pace.
uint64_t Retransmitter::allowed_bytes(TimePoint now) const {
    const TimePoint from = std::max(pace_.next_at, now - kRepeatBurst);
    const auto bytes = static_cast<int64_t>(pace_.bytes);
    return pace_.at_once + static_cast<uint64_t>((now - from) * bytes / pace_.span);
}

void Retransmitter::pay(uint64_t bytes, TimePoint now) {
    const uint64_t free = std::min(bytes, pace_.at_once);
    pace_.at_once -= free;
    pace_.next_at = std::max(pace_.next_at, now - kRepeatBurst) +
                    pace_.span * static_cast<int64_t>(bytes - free) /
                        static_cast<int64_t>(std::max<uint64_t>(pace_.bytes, 1));
}

std::optional<Retransmitter::Repeat> Retransmitter::next_repeat(TimePoint now) {
    if (!has_repeats() && timeout_at() <= now) {
        on_repair_timeout(now);
    }
    while (sent_.has_due()) {
        SentEntry& entry = sent_.next_due();
        const uint64_t bits = missing(entry);
        const uint64_t left =
            entry.is_one_packet() ? std::min<uint64_t>(bits, 1) : bits >> entry.repeated;
        if (left == 0) {
            // It has come meanwhile, or cannot be opened any more; or so has the rest of it.
            sent_.done(entry, entry.repeated > 0 ? now : entry.sent_at);
            continue;
        }
        const bool is_paced = !base::is_low_delay(entry.traffic_class);
        const auto destination = paths_.destination(entry.traffic_class, now);
        if ((is_paced && now < pace_.next_at) || !destination) {
            return std::nullopt;
        }
        entry.repeated = static_cast<uint16_t>(entry.repeated + std::countr_zero(left));
        const auto run = static_cast<uint64_t>(std::countr_one(left >> std::countr_zero(left)));
        const uint32_t overhead = outer_overhead(destination->to.address);
        const uint32_t step = step_of(entry);
        if (!entry.is_packet && step + overhead > destination->mtu) {
            mark_too_long(entry);
            sent_.done(entry, now);
            continue;
        }
        uint64_t allowed = destination->budget_bytes / (step + overhead);
        if (is_paced && pace_.span > Duration{}) {
            allowed = std::min(allowed, std::max<uint64_t>(allowed_bytes(now) / step, 1));
        }
        const uint64_t count = std::min({allowed, run, entry.is_packet ? uint64_t{1} : run});
        if (count == 0) {
            return std::nullopt;  // until the path has answered
        }
        return repeat_of(entry, *destination, static_cast<uint16_t>(count));
    }
    return std::nullopt;
}

Retransmitter::Repeat
Retransmitter::repeat_of(SentEntry& entry, const Destination& destination, uint16_t count) const {
    const uint32_t step = step_of(entry);
    Repeat repeat;
    repeat.entry = &entry;
    repeat.destination = destination;
    repeat.bytes = sent_.bytes(entry);
    repeat.datagrams = count;
    repeat.datagram_bytes = step;
    if (!entry.is_packet) {
        const ByteView left = repeat.bytes.subspan(size_t{entry.repeated} * step);
        repeat.bytes = left.first(std::min<size_t>(size_t{count} * step, left.size()));
        repeat.segment_bytes = count > 1 ? entry.segment_bytes : uint16_t{0};
    }
    return repeat;
}

void Retransmitter::on_repeated(const Repeat& repeat, TimePoint now) {
    pay(uint64_t{repeat.datagrams} * repeat.datagram_bytes, now);
    repair_.path = repeat.destination.path;
    repair_.waits_since = now;
    SentEntry& entry = *repeat.entry;
    entry.again |=
        entry.is_one_packet() ? ~uint64_t{0} : low_bits(repeat.datagrams) << entry.repeated;
    entry.is_repeat = !entry.is_packet;
    entry.repeated = static_cast<uint16_t>(entry.repeated + repeat.datagrams);
    if (entry.is_one_packet() || entry.repeated == entry.datagrams) {
        sent_.done(entry, now);
    }
}

// It is too long for the path that it would be repeated on; the packet in it may have been kept.
void Retransmitter::mark_too_long(const SentEntry& sealed) {
    kept_.mark_due([&](const SentEntry& entry) {
        return entry.is_due ||
               (entry.flow_index != SentEntry::kNoFlow && entry.epoch == sealed.epoch &&
                entry.space == sealed.space && entry.first_sequence == sealed.first_sequence);
    });
}

bool Retransmitter::is_worth_sending(const SentEntry& entry,
                                     const flow::Flow* flow,
                                     TimePoint now) const {
    // A copy carries the class; a flow that has another one now would change back.
    if (epochs_.is_empty() || flow == nullptr || flow->traffic_class != entry.traffic_class ||
        now - entry.sent_at >= kRepeatableFor) {
        return false;
    }
    return entry.is_unnamed || (epochs_.numbered(entry.epoch) != nullptr &&
                                !paths_.is_named(entry.epoch, entry.space, entry.first_sequence));
}

bool Retransmitter::may_copy_to(const SentEntry& entry, const Destination& destination) const {
    return entry.is_unnamed || destination.path == wire::kTcpPath ||
           destination.path != wire::space_from_number(entry.space).path ||
           entry.length > destination.mtu ||
           paths_.is_lost(entry.epoch, entry.space, entry.first_sequence);
}

void Retransmitter::on_copied(SentEntry& entry, bool is_sent) {
    if (is_sent && entry.is_unnamed) {
        entry.flow_index = SentEntry::kNoFlow;  // without a name it would be delivered again
    }
    kept_.done(entry, entry.sent_at);
}

bool Retransmitter::may_be_repeat(bool is_elsewhere, TimePoint now) const {
    if (asked_at_ == base::kNever) {
        return false;
    }
    const Duration longest = is_elsewhere ? kRepeatsElsewhere : kRepeatsInPlace;
    return now - asked_at_ <= longest + paths_.largest_rtt() * 2;
}

}  // namespace continuo::session
