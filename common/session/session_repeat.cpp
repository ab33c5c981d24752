// Datagrams that SNAPT repeats after the return path has moved: those on their way to the old
// address. The node's announcements say what it received last, so the only needless repeats are of
// datagrams that reordering makes look lost; the replay window drops those, counted apart from
// other replays (docs/PROTOCOL.md section 5.6).
#include "common/session/session.hpp"

#include <algorithm>
#include <cstring>

namespace continuo::session {

using base::Duration;
using base::TimePoint;

namespace {

// Largest burst of repeated datagrams, in time at the repeat rate.
constexpr Duration kRepeatBurst = base::milliseconds(2);
// Bytes repeated at once on any path: the initial window (RFC 9002 section 7.2).
constexpr uint64_t kRepeatedAtOnce = 14'720;
constexpr Duration kLongestRepeat = base::milliseconds(200);
// A session that has sent nothing for this long frees the memory.
constexpr Duration kReleaseAfter = base::seconds(30);
// Age at which datagrams in a silent space are no longer worth repeating.
constexpr Duration kReportHeard = base::seconds(120);
// Margin, beyond two round trips after the node asked, in which a duplicate may be a repeat.
constexpr Duration kRepeatsInPlace = base::seconds(1);
constexpr Duration kRepeatsElsewhere = base::seconds(10);

// True when the whole entry has left again.
bool note_repeat(SentEntry& entry, uint16_t datagrams, uint8_t path) {
    entry.repeated = static_cast<uint16_t>(entry.repeated + datagrams);
    entry.repeated_on |= mask_of(path);
    return entry.repeated == entry.datagrams;
}

}  // namespace

// Looks for datagrams under way and tells the host of the move, within RepeatLimit. The path itself
// has already moved.
void Session::follow_move(Announced move, TimePoint now) {
    if (!repeat_limit_.take(now)) {
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
        host_.on_path_changed(*this, *paths_.active(), now);
    }
}

// The old path's queue held part of the datagrams under way. They therefore leave over one round
// trip of the old path, a quarter faster (RFC 9002 section 7.7), or the new queue would drop
// what the old one had room for. Later packets wait for them, but not for seconds on a path with
// such round trips. Nothing is repeated twice on a path, so a node that announces a move again and
// again gains nothing.
void Session::mark_lost(const Announced& move, TimePoint now) {
    if (!paths_.active()) {
        return;
    }
    repeat_pace_ = {};
    repeat_pace_.at_once = kRepeatedAtOnce;
    if (move.former) {
        repeat_pace_.span = std::min<Duration>(
            paths_.path(*move.former).feedback().smoothed_rtt() * 4 / 5, kLongestRepeat);
    }
    const PathMask again = move.is_new_connection ? PathMask{0} : mask_of(*paths_.active());
    sent_ring_.mark_due([this, &move, again, now](SentEntry& entry) {
        const bool is_new_there = (entry.repeated_on & again) == 0;
        entry.repeated = is_new_there ? uint16_t{0} : entry.repeated;
        const bool went_there = (move.lost_classes & mask_of(entry.tuple_class)) != 0;
        const bool is_lost =
            (entry.is_due || (is_new_there && went_there)) && is_under_way(entry, now);
        repeat_pace_.bytes += is_lost ? entry.length : 0;
        return is_lost;
    });
    if (sent_ring_.has_due()) {
        paths_.logs().distrust_samples(now);
    }
}

// High-delay bytes that may leave now, in datagrams of `step` bytes. At least one datagram.
uint64_t Session::repeatable(uint32_t step, TimePoint now) const {
    if (repeat_pace_.span == Duration{}) {
        return UINT16_MAX;
    }
    const TimePoint from = std::max(repeat_pace_.next_at, now - kRepeatBurst);
    const auto bytes = static_cast<int64_t>(repeat_pace_.bytes);
    const auto earned = static_cast<uint64_t>((now - from) * bytes / repeat_pace_.span);
    return std::max<uint64_t>((repeat_pace_.at_once + earned) / step, 1);
}

void Session::pay_repeat(uint64_t bytes, TimePoint now) {
    const uint64_t free = std::min(bytes, repeat_pace_.at_once);
    repeat_pace_.at_once -= free;
    repeat_pace_.next_at = std::max(repeat_pace_.next_at, now - kRepeatBurst) +
                           repeat_pace_.span * static_cast<int64_t>(bytes - free) /
                               static_cast<int64_t>(std::max<uint64_t>(repeat_pace_.bytes, 1));
}

bool Session::send_again(TransmitBatch& batch, TimePoint now) {
    while (sent_ring_.has_due()) {
        SentEntry& entry = sent_ring_.next_due();
        const bool is_paced = !base::is_low_delay(entry.traffic_class);
        if (is_paced && now < repeat_pace_.next_at) {
            return false;
        }
        const auto destination = paths_.selector().destination(entry.traffic_class, now);
        if (!destination) {
            return false;
        }
        const uint32_t overhead = outer_overhead(destination->to.address);
        const uint32_t step = entry.segment_bytes != 0 ? entry.segment_bytes : entry.length;
        if (step + overhead > destination->mtu) {
            mark_too_long(entry);
            sent_ring_.done(entry, now);
            continue;
        }
        uint64_t allowed = destination->budget_bytes / (step + overhead);
        if (is_paced) {
            allowed = std::min(allowed, repeatable(step, now));
        }
        const auto count =
            static_cast<uint16_t>(std::min<uint64_t>(allowed, entry.datagrams - entry.repeated));
        if (count == 0) {
            return false;  // not until the path has answered
        }
        const base::ByteView whole = sent_ring_.bytes(entry);
        const size_t from = size_t{entry.repeated} * step;
        const base::ByteView bytes =
            whole.subspan(from, std::min<size_t>(size_t{count} * step, whole.size() - from));
        std::memcpy(batch.free_space().data(), bytes.data(), bytes.size());
        DatagramInfo info;
        info.repeated = &entry;
        info.destination = *destination;
        info.traffic_class = entry.traffic_class;
        info.bytes = static_cast<uint32_t>(bytes.size());
        info.segment_bytes = step;
        info.count = count;
        commit(info, batch, now);
        counters_.repeated_datagrams += count;
        pay_repeat(bytes.size(), now);
        if (note_repeat(entry, count, destination->path)) {
            sent_ring_.done(entry, now);
        }
        return true;
    }
    return false;
}

void Session::release_sent(TimePoint now) {
    if (!sent_ring_.has_due()) {
        sent_ring_.release(now - std::min(kReleaseAfter, now.time_since_epoch()));
    }
    kept_ring_.release(now - std::min(kReleaseAfter, now.time_since_epoch()));
}

// Whether a duplicate may be a repeat by SNAPT. SNAPT repeats when the node asks or answers a
// CHALLENGE from another port, mostly on a path other than the one in the header; on the same one
// only soon after (docs/PROTOCOL.md section 5.6).
bool Session::may_be_repeat(const Opened& opened, TimePoint now) const {
    if (asked_to_repeat_at_ == base::kNever) {
        return false;
    }
    const bool is_elsewhere = arrival_path(opened) != opened.header.path;
    const Duration longest = is_elsewhere ? kRepeatsElsewhere : kRepeatsInPlace;
    return now - asked_to_repeat_at_ <= longest + paths_.largest_rtt() * 2;
}

// Writes the numbers received recently, newest ranges first: SNAPT repeats those above them.
void Session::write_received(Draft& draft, base::ByteWriter& body, TimePoint now) {
    const TimePoint from = now - std::min<Duration>(kReportHeard, now.time_since_epoch());
    for (EpochState* epoch : {current_.get(), previous_.get()}) {
        const bool is_sayable =
            epoch != nullptr && (epoch == draft.epoch || draft.epoch == current_.get());
        if (!is_sayable) {
            continue;
        }
        epoch->each_ledger([&](uint8_t path, const AckLedger& ledger) {
            const size_t count = ledger.build_newest(scratch_.acks, from, now);
            for (const AckBlock& block : std::span(scratch_.acks).first(count)) {
                write_ack_frame(block, path, *epoch, draft, body, now);
            }
        });
    }
}

}  // namespace continuo::session
