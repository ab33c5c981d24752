#include "common/session/sent_datagrams.hpp"

#include <algorithm>

namespace continuo::session {

using base::Duration;
using base::TimePoint;
using routing::mask_of;
using routing::PathMask;

namespace {

// Largest burst of repeated datagrams, in time at the repeat rate.
constexpr Duration kRepeatBurst = base::milliseconds(2);
// Bytes repeated at once on any path: the initial window (RFC 9002 section 7.2).
constexpr uint64_t kRepeatedAtOnce = 14'720;
constexpr Duration kLongestRepeat = base::milliseconds(200);

}  // namespace

SentDatagrams::SentDatagrams(SessionCore& core)
    : core_(core), paths_(core.paths), epochs_(core.epochs), ring_(core.settings.memory) {}

void SentDatagrams::remember(const DatagramInfo& info, base::ByteView bytes, TimePoint now) {
    const Draft& draft = *info.draft;
    SentEntry entry;
    entry.sent_at = now;
    entry.first_sequence = draft.space->next - info.count;
    entry.epoch = draft.epoch->number;
    entry.space = draft.space_number;
    entry.segment_bytes = static_cast<uint16_t>(info.count > 1 ? info.segment_bytes : 0);
    entry.datagrams = info.count;
    entry.traffic_class = info.traffic_class;
    entry.tuple_class = info.destination.tuple_class;
    ring_.forget_oldest([this, now](const SentEntry& old) { return !is_under_way(old, now); });
    // While nothing is heard the node may be away: everything is kept that there is room for.
    const TimePoint from =
        core_.heard_at - std::min<Duration>(kUsefulFor, core_.heard_at.time_since_epoch());
    ring_.push(entry, bytes, from);
}

// No ACK has named its last number or a higher one of its space, and it is not given up. Other
// spaces prove nothing: the node may receive datagrams on other paths while this path is silent.
bool SentDatagrams::is_under_way(const SentEntry& entry, TimePoint now) const {
    const EpochState* const epoch = epochs_.find(entry.epoch);
    if (epoch == nullptr) {
        return false;
    }
    const auto& highest = epoch->send_spaces[space_slot(entry.space)].highest_acknowledged;
    const bool is_newer = !highest || entry.first_sequence + entry.datagrams - 1 > *highest;
    return is_newer && !epoch->encoder.has_given_up(entry.sent_at, now);
}

void SentDatagrams::follow_move(Announced move, TimePoint now) {
    if (!limit_.take(now)) {
        if (waiting_move_) {
            move.has_moved = move.has_moved || waiting_move_->has_moved;
            move.is_new_connection = move.is_new_connection || waiting_move_->is_new_connection;
            move.lost_classes |= waiting_move_->lost_classes;
            move.former = waiting_move_->former;
        }
        waiting_move_ = move;
        return;
    }
    waiting_move_.reset();
    paths_.snapt().forget_remapping();
    mark_lost(move, now);
    if (move.has_moved && paths_.active()) {
        core_.host.on_path_changed(core_.session, *paths_.active(), now);
    }
}

// The old path's queue held part of the datagrams under way. They therefore leave over one round
// trip of the old path, a quarter faster (RFC 9002 section 7.7), or the new queue would drop
// what the old one had room for. Later packets wait for them, but not for seconds on a path with
// such round trips. Nothing is repeated twice on a path, so a node that announces a move again and
// again gains nothing.
void SentDatagrams::mark_lost(const Announced& move, TimePoint now) {
    if (!paths_.active()) {
        return;
    }
    pace_ = {};
    pace_.at_once = kRepeatedAtOnce;
    if (move.former) {
        pace_.span = std::min<Duration>(paths_.path(*move.former).feedback().smoothed_rtt() * 4 / 5,
                                        kLongestRepeat);
    }
    const PathMask again = move.is_new_connection ? PathMask{0} : mask_of(*paths_.active());
    ring_.mark_due([this, &move, again, now](SentEntry& entry) {
        const bool is_new_there = (entry.repeated_on & again) == 0;
        entry.repeated = is_new_there ? uint16_t{0} : entry.repeated;
        const bool went_there = (move.lost_classes & path::mask_of(entry.tuple_class)) != 0;
        const bool is_lost =
            (entry.is_due || (is_new_there && went_there)) && is_under_way(entry, now);
        pace_.bytes += is_lost ? entry.length : 0;
        return is_lost;
    });
    if (ring_.has_due()) {
        paths_.logs().distrust_samples(now);
    }
}

void SentDatagrams::on_timeout(TimePoint now) {
    if (waiting_move_ && limit_.free_at() <= now) {
        follow_move(*waiting_move_, now);
    }
}

void SentDatagrams::on_time(TimePoint now) {
    if (!ring_.has_due()) {
        ring_.release(now - std::min(kReleaseAfter, now.time_since_epoch()));
    }
}

SentEntry* SentDatagrams::next_due(TimePoint now) {
    if (!ring_.has_due()) {
        return nullptr;
    }
    SentEntry& entry = ring_.next_due();
    const bool is_paced = !base::is_low_delay(entry.traffic_class);
    return is_paced && now < pace_.next_at ? nullptr : &entry;
}

uint64_t SentDatagrams::allowed(const SentEntry& entry, uint32_t step, TimePoint now) const {
    return base::is_low_delay(entry.traffic_class) ? UINT64_MAX : repeatable(step, now);
}

// High-delay bytes that may leave now, in datagrams of `step` bytes. At least one datagram.
uint64_t SentDatagrams::repeatable(uint32_t step, TimePoint now) const {
    if (pace_.span == Duration{}) {
        return UINT16_MAX;
    }
    const TimePoint from = std::max(pace_.next_at, now - kRepeatBurst);
    const auto bytes = static_cast<int64_t>(pace_.bytes);
    const auto earned = static_cast<uint64_t>((now - from) * bytes / pace_.span);
    return std::max<uint64_t>((pace_.at_once + earned) / step, 1);
}

void SentDatagrams::pay_repeat(uint64_t bytes, TimePoint now) {
    const uint64_t free = std::min(bytes, pace_.at_once);
    pace_.at_once -= free;
    pace_.next_at = std::max(pace_.next_at, now - kRepeatBurst) +
                    pace_.span * static_cast<int64_t>(bytes - free) /
                        static_cast<int64_t>(std::max<uint64_t>(pace_.bytes, 1));
}

void SentDatagrams::on_repeated(
    SentEntry& entry, uint16_t datagrams, uint64_t bytes, uint8_t path, TimePoint now) {
    pay_repeat(bytes, now);
    entry.repeated = static_cast<uint16_t>(entry.repeated + datagrams);
    entry.repeated_on |= mask_of(path);
    if (entry.repeated == entry.datagrams) {
        ring_.done(entry, now);
    }
}

TimePoint SentDatagrams::next_deadline(TimePoint now) const {
    const TimePoint move_at = waiting_move_ ? limit_.free_at() : base::kNever;
    const bool is_paced = ring_.has_due() && pace_.next_at > now;
    return std::min(move_at, is_paced ? pace_.next_at : base::kNever);
}

}  // namespace continuo::session
