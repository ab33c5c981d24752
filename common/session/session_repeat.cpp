// What SNAPT sends again when the return path has moved: the datagrams that were on their way to
// the old address. The node says in its announcements what it received last, so nothing else is
// repeated but what reordering makes look lost; the replay window drops that, and it is counted
// apart from what others replay (docs/PROTOCOL.md section 5.6).
#include "common/session/session.hpp"

#include <algorithm>
#include <cstring>

namespace continuo::session {

using base::Duration;
using base::TimePoint;

namespace {

// Beyond round trips as measured, what a queue at the old link may have held.
constexpr Duration kKeepBeyondRtt = base::milliseconds(200);
// Largest burst of datagrams that are sent again, as time of the pace.
constexpr Duration kRepeatBurst = base::milliseconds(2);
// Bytes that are sent again at once on any path: the initial window (RFC 9002 section 7.2).
constexpr uint64_t kRepeatedAtOnce = 14'720;
constexpr Duration kLongestRepeat = base::milliseconds(200);
// A session that sends nothing for so long gives the memory back.
constexpr Duration kReleaseAfter = base::seconds(30);
// What SNAPT may still have of a space that is silent for so long is of no use any more.
constexpr Duration kReportHeard = base::seconds(120);
// Beyond two round trips after the node asked, what comes twice may still be a repeat.
constexpr Duration kRepeatsInPlace = base::seconds(1);
constexpr Duration kRepeatsElsewhere = base::seconds(10);

}  // namespace

// SNAPT remembers what carries something new. What its node is not there for is only remembered,
// and leaves when the node is back. A node moves when it likes, and has then sent what it had.
void Session::commit(TransmitBatch& batch,
                     const TransmitItem& item,
                     const Draft& draft,
                     TimePoint now) {
    const bool has_new = !batch.open_attributions().empty();
    if (settings_.role == Role::Node || (!has_new && !draft.has_kept)) {
        batch.commit(item);
        return;
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
        const Path& path = paths_.path(item.path);
        const Duration keep = path.smoothed_rtt() * 2 + path.rtt_variation() * 4 + kKeepBeyondRtt;
        // While nothing is heard the node may be away: then all is kept that there is room for.
        const TimePoint from = heard_at_ - std::min(keep, heard_at_.time_since_epoch());
        sent_ring_.push(entry, batch.free_space().first(item.length), from);
    }
    if (unheard_.may_send(now)) {
        batch.commit(item);
    } else {
        batch.discard();
        drops_.add(base::DropReason::NodeGone, item.datagrams);
    }
}

// All of it was under way at once because the queue of the path that was left held a part of it. So
// it leaves over the round trip there, a quarter faster (RFC 9002 section 7.7), or the new queue
// drops what the old one had room for. Later packets wait for it, but not for seconds on a path
// that has such round trips.
void Session::mark_lost(std::optional<uint8_t> former, TimePoint now) {
    repeat_pace_ = {};
    repeat_pace_.at_once = kRepeatedAtOnce;
    if (former) {
        repeat_pace_.span =
            std::min<Duration>(paths_.path(*former).smoothed_rtt() * 4 / 5, kLongestRepeat);
    }
    sent_ring_.mark_due([this](const SentEntry& entry) {
        const EpochState* epoch = nullptr;
        for (const EpochState* candidate : {current_.get(), previous_.get()}) {
            epoch = candidate != nullptr && candidate->number == entry.epoch ? candidate : epoch;
        }
        if (epoch == nullptr) {
            return false;
        }
        const auto& acknowledged = epoch->send_spaces[space_slot(entry.space)].highest_acknowledged;
        const bool is_lost =
            !acknowledged || entry.first_sequence + entry.datagrams - 1 > *acknowledged;
        repeat_pace_.bytes += is_lost ? entry.length : 0;
        return is_lost;
    });
    if (sent_ring_.has_due()) {
        paths_.distrust_samples(now);
    }
}

// High-delay datagrams that may leave now, of `step` bytes each. At least one.
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
            return false;  // until the path has answered
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
        item.length = static_cast<uint32_t>(bytes.size());
        item.segment_bytes = count > 1 ? entry.segment_bytes : uint16_t{0};
        item.datagrams = count;
        batch.commit(item);
        paths_.on_sent(*destination, bytes.size(), true, now);
        const uint64_t outer =
            outer_bytes_of_run(item.path, item.to.address, bytes.size(), item.segment_bytes);
        paths_.on_data_sent(item.path, step + overhead, outer, now);
        counters_.overhead_sent += outer;
        counters_.repeated_datagrams += count;
        pay_repeat(bytes.size(), now);
        entry.repeated = static_cast<uint16_t>(entry.repeated + count);
        if (entry.repeated == entry.datagrams) {
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

// Whether SNAPT may have sent again what has come twice. It does so only when the node asks, and
// then most often by another path than the one in the header; by the same one soon
// (docs/PROTOCOL.md section 5.6).
bool Session::may_be_repeat(const Opened& opened, TimePoint now) const {
    if (asked_to_repeat_at_ == base::kNever) {
        return false;
    }
    const bool is_elsewhere = arrival_path(opened) != opened.header.path;
    const Duration longest = is_elsewhere ? kRepeatsElsewhere : kRepeatsInPlace;
    return now - asked_to_repeat_at_ <= longest + paths_.largest_rtt() * 2;
}

// Writes the numbers that came lately, newest ranges first: SNAPT repeats what lies above them.
void Session::write_received(const Draft& draft, base::ByteWriter& body, TimePoint now) {
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
