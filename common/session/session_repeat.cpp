// Datagrams that SNAPT repeats after the return path has moved: those on their way to the old
// address. The node's announcements say what it received last, so the only needless repeats are of
// datagrams that reordering makes look lost; the replay window drops those, counted apart from
// other replays (docs/PROTOCOL.md section 5.6).
#include "common/session/session.hpp"

#include <algorithm>
#include <cstring>
#include <initializer_list>

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

// No ACK has named its last number or a higher one of its space, and it is not given up. Other
// spaces prove nothing: the node may receive datagrams on other paths while this path is silent.
bool is_under_way(const SentEntry& entry,
                  std::initializer_list<const EpochState*> epochs,
                  TimePoint now) {
    for (const EpochState* epoch : epochs) {
        if (epoch != nullptr && epoch->number == entry.epoch) {
            const auto& highest = epoch->send_spaces[space_slot(entry.space)].highest_acknowledged;
            const bool is_newer = !highest || entry.first_sequence + entry.datagrams - 1 > *highest;
            return is_newer && !epoch->encoder.has_given_up(entry.sent_at, now);
        }
    }
    return false;
}

// Datagrams of the entry leave again with `item`, each of `step` bytes but for the last. One that
// an ACK has named meanwhile is waited for nowhere. PathLogs is told of one at a time, since they
// may be in different logs; the new log joins them.
void log_repeats(PathSet& paths,
                 const SentEntry& entry,
                 const TransmitItem& item,
                 uint32_t step,
                 std::initializer_list<const EpochState*> epochs,
                 TimePoint now) {
    const EpochState* const* const epoch =
        std::find_if(epochs.begin(), epochs.end(), [&entry](const EpochState* any) {
            return any != nullptr && any->number == entry.epoch;
        });
    if (epoch == epochs.end()) {
        return;  // its keys are gone, so nobody names it
    }
    const NamedNumbers* const named = (*epoch)->send_spaces[space_slot(entry.space)].named.get();
    path::SentRun run;
    run.space = {entry.epoch, entry.space};
    run.count = 1;
    run.has_packets = true;
    for (uint32_t i = 0; i < item.datagrams; ++i) {
        run.first = static_cast<uint32_t>(entry.first_sequence) + entry.repeated + i;
        if (named != nullptr && named->contains(run.first)) {
            continue;
        }
        const uint32_t bytes = std::min(step, item.length - i * step);
        run.bytes = static_cast<uint16_t>(outer_bytes(item.path, item.to.address, bytes));
        run.last_bytes = run.bytes;
        paths.logs().on_sent_again(run, item.path, now);
    }
}

// True when the whole entry has left again.
bool note_repeat(SentEntry& entry, const TransmitItem& item) {
    entry.repeated = static_cast<uint16_t>(entry.repeated + item.datagrams);
    entry.repeated_on |= mask_of(item.path);
    return entry.repeated == entry.datagrams;
}

}  // namespace

// True when the datagram leaves. SNAPT remembers those that carry something new; one whose node is
// away is only remembered, and leaves when the node is back. A node chooses when it moves, so it
// has then sent what it had.
bool Session::commit(TransmitBatch& batch,
                     const TransmitItem& item,
                     const Draft& draft,
                     TimePoint now) {
    const bool has_new = !batch.open_attributions().empty();
    if (settings_.role == Role::Node || (!has_new && !draft.has_kept)) {
        batch.commit(item);
        return true;
    }
    if (has_new) {
        SentEntry entry;
        entry.sent_at = now;
        entry.first_sequence = draft.space->next - item.datagrams;
        entry.epoch = draft.epoch->number;
        entry.space = draft.space_number;
        entry.segment_bytes = item.segment_bytes;
        entry.datagrams = item.datagrams;
        entry.traffic_class = draft.header.traffic_class;
        entry.tuple_class = draft.destination.tuple_class;
        sent_ring_.forget_oldest([this, now](const SentEntry& old) {
            return !is_under_way(old, {current_.get(), previous_.get()}, now);
        });
        // While nothing is heard the node may be away: everything is kept that there is room for.
        const TimePoint from =
            heard_at_ - std::min<Duration>(kUsefulFor, heard_at_.time_since_epoch());
        sent_ring_.push(entry, batch.free_space().first(item.length), from);
    }
    if (!unheard_.may_send(now)) {
        batch.discard();
        drops_.add(base::DropReason::NodeGone, item.datagrams);
        return false;
    }
    batch.commit(item);
    return true;
}

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
    paths_.forget_remapping();
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
        repeat_pace_.span =
            std::min<Duration>(paths_.path(*move.former).smoothed_rtt() * 4 / 5, kLongestRepeat);
    }
    const PathMask again = move.is_new_connection ? PathMask{0} : mask_of(*paths_.active());
    sent_ring_.mark_due([this, &move, again, now](SentEntry& entry) {
        const bool is_new_there = (entry.repeated_on & again) == 0;
        entry.repeated = is_new_there ? uint16_t{0} : entry.repeated;
        const bool went_there = (move.lost_classes & mask_of(entry.tuple_class)) != 0;
        const bool is_lost = (entry.is_due || (is_new_there && went_there)) &&
                             is_under_way(entry, {current_.get(), previous_.get()}, now);
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
        const auto destination = paths_.destination(entry.traffic_class, now);
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
        TransmitItem item;
        item.session = this;
        item.path = destination->path;
        item.traffic_class = destination->tuple_class;
        item.marked_class = entry.traffic_class;
        item.to = destination->to;
        item.from = destination->from;
        item.is_unmarked = destination->is_unmarked;
        item.length = static_cast<uint32_t>(bytes.size());
        item.segment_bytes = count > 1 ? entry.segment_bytes : uint16_t{0};
        item.datagrams = count;
        batch.commit(item);
        paths_.on_sent(*destination, bytes.size(), true, now);
        log_repeats(paths_, entry, item, step, {current_.get(), previous_.get()}, now);
        const uint64_t outer =
            outer_bytes_of_run(item.path, item.to.address, bytes.size(), item.segment_bytes);
        paths_.on_data_sent(item.path, step + overhead, outer, now);
        counters_.overhead[base::index_of(entry.traffic_class)].sent += outer;
        counters_.repeated_datagrams += count;
        pay_repeat(bytes.size(), now);
        if (note_repeat(entry, item)) {
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
