#include "common/elision/in_flight.hpp"

#include <algorithm>
#include <bit>

namespace continuo::elision {

namespace {

// Datagrams of one flow that are sent closer than this share a record.
constexpr Duration kRecordSpan = base::milliseconds(2);
// Settled records behind an outstanding one are removed when there are so many, and more than half.
constexpr size_t kMinSettled = 32;
constexpr size_t kMaxProbes = 16;
// A probe that was not answered gives its place to a newer one.
constexpr Duration kProbeLife = base::seconds(2);
constexpr size_t kMaxCarriers = 64;
constexpr size_t kFewestChunks = 16;
constexpr Duration kIdleTime = base::seconds(10);
// An acknowledgement that nothing makes urgent may wait so long (docs/PROTOCOL.md section 6.6).
constexpr Duration kLongestAckDelay = base::seconds(1);

bool same_use(Use a, Use b) {
    return a.index == b.index && a.reference == b.reference && a.sets == b.sets;
}

uint64_t low_bits(uint64_t count) {
    return count >= 64 ? ~uint64_t{0} : (uint64_t{1} << count) - 1;
}

}  // namespace

bool InFlight::make_room(size_t records, size_t uses) {
    static_assert(kMaxRecordsAtOnce <= BlockPool<Record>::kMostFree);
    // Each of them may begin a block of its space.
    return records <= kMaxRecordsAtOnce && records_ + records <= kMaxRecords &&
           make_room_for_uses(uses) && blocks_.reserve(records);
}

bool InFlight::make_room_for_uses(size_t uses) {
    if (uses <= kInlineUses) {
        return true;
    }
    const size_t needed = chunks_in_use_ + uses / UseChunk::kUses + 1;
    if (needed <= chunks_.capacity()) {
        return true;
    }
    const size_t capacity = std::min(std::max(std::bit_ceil(needed), kFewestChunks), kMaxUseChunks);
    const size_t bytes = capacity * sizeof(UseChunk);
    if (needed > capacity || !chunk_memory_.take(bytes - chunk_memory_.bytes())) {
        return false;
    }
    chunks_.reserve(capacity);
    return true;
}

InFlight::Space* InFlight::find(uint16_t space) {
    if (last_space_ < spaces_.size() && spaces_[last_space_].space == space) {
        return &spaces_[last_space_];
    }
    for (size_t i = 0; i < spaces_.size(); ++i) {
        if (spaces_[i].space == space) {
            last_space_ = i;
            return &spaces_[i];
        }
    }
    return nullptr;
}

bool InFlight::know_space(uint16_t space) {
    if (find(space) != nullptr) {
        return true;
    }
    if (spaces_.size() == kMaxSpaces) {
        return false;
    }
    last_space_ = spaces_.size();
    spaces_.emplace_back().space = space;
    return true;
}

void InFlight::count_sent(uint16_t space, uint64_t first, uint32_t count) {
    if (Space* known = find(space)) {
        known->next_sequence = std::max(known->next_sequence, first + count);
    }
}

void InFlight::record(uint16_t space,
                      uint64_t first,
                      uint32_t count,
                      TimePoint now,
                      std::span<const Use> uses,
                      std::span<const Floor> floors) {
    CTN_ASSERT(count > 0 && count <= kMaxRecordDatagrams);
    count_sent(space, first, count);
    if (unanswered_since_ == base::kNever || now - last_sent_at_ >= 3 * skew_ + kLongestAckDelay) {
        unanswered_since_ = now;
    }
    last_sent_at_ = now;
    if (uses.empty() && floors.empty()) {
        add_probe(space, first, now);
        return;
    }
    Space* known = find(space);
    CTN_ASSERT(known != nullptr && records_ < kMaxRecords);
    BlockRing<Record>& records = known->records;
    if (!records.empty()) {
        CTN_ASSERT(first >= records.back().first + records.back().count);
        if (floors.empty() && grow(records.back(), first, count, now, uses)) {
            return;
        }
    }
    Record& record = records.push_back(blocks_);
    ++records_;
    record.first = first;
    record.count = static_cast<uint8_t>(count);
    record.outstanding = low_bits(count);
    record.first_sent = now;
    record.last_sent = now;
    record.has_floors = !floors.empty();
    record.may_grow = floors.empty() && uses.size() == 1 && uses[0].sets == 0;
    store_uses(record, uses);
    for (const Floor& floor : floors) {
        if (carriers_.size() < kMaxCarriers) {
            carriers_.push_back({space, first, floor});
        }
    }
}

bool InFlight::grow(
    Record& last, uint64_t first, uint32_t count, TimePoint now, std::span<const Use> uses) {
    if (!last.may_grow || uses.size() != 1 || last.outstanding == 0 ||
        !same_use(last.uses[0], uses[0]) || first != last.first + last.count ||
        last.count + count > kMaxRecordDatagrams || now - last.first_sent > kRecordSpan) {
        return false;
    }
    FlowContext* flow = flows_.find(uses[0].index);
    CTN_ASSERT(flow != nullptr);
    --flow->users[uses[0].reference];  // the record has counted once
    last.outstanding |= low_bits(count) << last.count;
    last.count = static_cast<uint8_t>(last.count + count);
    last.last_sent = now;
    return true;
}

void InFlight::store_uses(Record& record, std::span<const Use> uses) {
    const size_t within = std::min(uses.size(), kInlineUses);
    std::copy_n(uses.begin(), within, record.uses.begin());
    record.use_count = static_cast<uint8_t>(within);
    for (size_t done = within; done < uses.size();) {
        uint32_t number = free_chunk_;
        if (number == kNoChunk) {
            CTN_ASSERT(chunks_.size() < chunks_.capacity());
            number = static_cast<uint32_t>(chunks_.size());
            chunks_.emplace_back();
        } else {
            free_chunk_ = chunks_[number].next;
        }
        ++chunks_in_use_;
        UseChunk& chunk = chunks_[number];
        const size_t part = std::min(uses.size() - done, chunk.uses.size());
        std::copy_n(uses.begin() + static_cast<std::ptrdiff_t>(done), part, chunk.uses.begin());
        chunk.use_count = static_cast<uint8_t>(part);
        chunk.next = record.more_uses;
        record.more_uses = number;
        done += part;
    }
}

void InFlight::add_probe(uint16_t space, uint64_t sequence, TimePoint now) {
    if (last_probe_at_ != TimePoint::min() && now - last_probe_at_ < skew_ / 4) {
        return;
    }
    const auto place = std::find_if(probes_.begin(), probes_.end(), [now](const Probe& probe) {
        return !probe.in_use || now - probe.sent_at > kProbeLife;
    });
    if (place != probes_.end()) {
        *place = {space, sequence, now, true};
    } else if (probes_.size() < kMaxProbes) {
        probes_.push_back({space, sequence, now, true});
    } else {
        return;
    }
    last_probe_at_ = now;
}

bool InFlight::acknowledge(uint16_t space, uint64_t first, uint64_t last, TimePoint now) {
    Space* known = find(space);
    if (known == nullptr || first > last || last >= known->next_sequence) {
        return false;
    }
    bool progress = acknowledge_probes(space, first, last);
    if (last >= known->acknowledged_end) {
        known->acknowledged_end = last + 1;
        progress = true;
    }
    BlockRing<Record>& records = known->records;
    size_t low = 0;
    for (size_t high = records.size(); low < high;) {
        const size_t middle = low + (high - low) / 2;
        if (records[middle].first + records[middle].count <= first) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    for (; low < records.size() && records[low].first <= last; ++low) {
        Record& record = records[low];
        const uint64_t from = std::max(first, record.first) - record.first;
        const uint64_t to = std::min<uint64_t>(last - record.first, record.count - 1U);
        const uint64_t arrived = record.outstanding & low_bits(to + 1) & ~low_bits(from);
        if (arrived == 0) {
            continue;
        }
        progress = true;
        record.outstanding &= ~arrived;
        evidence_ = std::max(evidence_, record.first_sent);
        if (record.outstanding == 0) {
            ++known->settled;
            release(space, record, Outcome::Acknowledged);
        }
    }
    if (progress) {
        drop_settled(now);
        unanswered_since_ = records_ > 0 ? now : base::kNever;
    }
    return true;
}

bool InFlight::acknowledge_probes(uint16_t space, uint64_t first, uint64_t last) {
    bool found = false;
    for (Probe& probe : probes_) {
        if (probe.in_use && probe.space == space && probe.sequence >= first &&
            probe.sequence <= last) {
            probe.in_use = false;
            evidence_ = std::max(evidence_, probe.sent_at);
            found = true;
        }
    }
    return found;
}

void InFlight::release(uint16_t space, Record& record, Outcome outcome) {
    for (size_t i = 0; i < record.use_count; ++i) {
        release(record.uses[i], outcome);
    }
    while (record.more_uses != kNoChunk) {
        const uint32_t number = record.more_uses;
        UseChunk& chunk = chunks_[number];
        for (size_t i = 0; i < chunk.use_count; ++i) {
            release(chunk.uses[i], outcome);
        }
        record.more_uses = chunk.next;
        chunk.next = free_chunk_;
        free_chunk_ = number;
        --chunks_in_use_;
    }
    if (record.has_floors) {
        settle_carriers(space, record.first, outcome);
    }
}

void InFlight::release(Use use, Outcome outcome) {
    FlowContext* context = flows_.find(use.index);
    CTN_ASSERT(context != nullptr && context->users[use.reference] > 0);
    FlowContext& flow = *context;
    --flow.users[use.reference];
    if (outcome == Outcome::Dead) {
        flow.set_had_dead_user(use.reference, true);
        if (use.sets != 0) {
            flow.is_set_pending = false;
        }
        return;
    }
    if (use.sets == 0 || !flow.is_set_pending) {
        return;
    }
    if (!flow.is_open) {  // the OPEN has dropped the other reference as well
        flow.set_had_dead_user(1 - use.reference, false);
    }
    flow.set_had_dead_user(use.reference, false);
    flow.is_set_pending = false;
    flow.is_open = true;
    flow.current = use.reference != 0;
}

void InFlight::settle_carriers(uint16_t space, uint64_t sequence, Outcome outcome) {
    for (size_t i = 0; i < carriers_.size();) {
        FloorCarrier& carrier = carriers_[i];
        if (carrier.space != space || carrier.sequence != sequence) {
            ++i;
            continue;
        }
        if (outcome == Outcome::Acknowledged) {
            const auto floored =
                std::find_if(spaces_.begin(), spaces_.end(), [&carrier](const Space& known) {
                    return known.space == carrier.floor.space;
                });
            floored->acknowledged_floor =
                std::max(floored->acknowledged_floor, carrier.floor.sequence);
        }
        carrier = carriers_.back();
        carriers_.pop_back();
    }
    count_floors();
}

void InFlight::drop_settled(TimePoint now) {
    bool floor_rose = false;
    for (Space& space : spaces_) {
        BlockRing<Record>& records = space.records;
        while (!records.empty()) {
            Record& oldest = records.front();
            if (oldest.outstanding == 0) {
                --space.settled;
            } else if (!has_given_up(oldest.last_sent, now)) {
                break;
            } else {
                kill(space, oldest);
                floor_rose = true;
            }
            records.pop_front(blocks_);
            --records_;
        }
        if (space.settled >= kMinSettled && space.settled * 2 > records.size()) {
            records.remove_if(blocks_,
                              [](const Record& record) { return record.outstanding == 0; });
            records_ -= space.settled;
            space.settled = 0;
        }
    }
    if (floor_rose) {
        count_floors();
    }
}

void InFlight::kill(Space& space, Record& record) {
    const auto end = static_cast<unsigned>(std::bit_width(record.outstanding));
    space.floor = std::max(space.floor, record.first + end);
    dead_datagrams_ += static_cast<unsigned>(std::popcount(record.outstanding));
    release(space.space, record, Outcome::Dead);
}

void InFlight::count_floors() {
    unacknowledged_floors_ =
        static_cast<size_t>(std::count_if(spaces_.begin(), spaces_.end(), [](const Space& space) {
            return space.floor > space.acknowledged_floor;
        }));
}

void InFlight::copy_floors(std::vector<Floor>& to) const {
    to.clear();
    for (const Space& space : spaces_) {
        if (space.floor > space.acknowledged_floor) {
            to.push_back({space.space, space.floor});
        }
    }
}

bool InFlight::is_silent(TimePoint now) const {
    const Duration limit = 3 * skew_ + kLongestAckDelay;
    return unanswered_since_ != base::kNever && now - unanswered_since_ >= limit &&
           now - last_sent_at_ < limit;
}

bool InFlight::is_idle(TimePoint now) const {
    return last_sent_at_ == TimePoint::min() || now - last_sent_at_ >= kIdleTime;
}

void InFlight::release_memory() {
    for (Space& space : spaces_) {
        space.records.release_memory();
    }
    blocks_.release_memory();
    if (chunks_in_use_ == 0) {
        std::vector<UseChunk>().swap(chunks_);
        chunk_memory_.give_back(chunk_memory_.bytes());
        free_chunk_ = kNoChunk;
    }
}

}  // namespace continuo::elision
