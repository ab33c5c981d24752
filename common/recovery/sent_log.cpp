#include "common/recovery/sent_log.hpp"

#include "common/base/assert.hpp"

#include <algorithm>
#include <array>

namespace continuo::recovery {

using base::Duration;
using base::TimePoint;

namespace {

constexpr uint64_t low_bits(uint32_t count) {
    return count >= 64 ? ~uint64_t{0} : (uint64_t{1} << count) - 1;
}

template <typename Chains>
auto find_in(Chains& chains, const NumberSpace& space) -> decltype(chains.data()) {
    const auto found =
        std::ranges::find_if(chains, [&](const auto& chain) { return chain.space == space; });
    return found != chains.end() ? &*found : nullptr;
}

}  // namespace

uint64_t SentRun::mask(uint32_t from, uint32_t to) const {
    if (to < first || from > last()) {
        return 0;
    }
    const uint32_t low = std::max(from, first) - first;
    const uint32_t high = std::min(to, last()) - first;
    return low_bits(high + 1) & ~low_bits(low);
}

const SentLog::Chain* SentLog::find(const NumberSpace& space, bool is_repeat) const {
    return find_in(is_repeat ? repeat_chains_ : chains_, space);
}

SentLog::Chain* SentLog::find(const NumberSpace& space, bool is_repeat) {
    return find_in(is_repeat ? repeat_chains_ : chains_, space);
}

SentLog::Chain& SentLog::find_or_make(const NumberSpace& space, bool is_repeat) {
    std::vector<Chain>& chains = is_repeat ? repeat_chains_ : chains_;
    if (Chain* const chain = find(space, is_repeat)) {
        return *chain;
    }
    if (chains.size() < (is_repeat ? kMostRepeatSpaces : kMostSpaces)) {
        return chains.emplace_back(Chain{.space = space});
    }
    Chain& oldest =
        *std::min_element(chains.begin(), chains.end(),
                          [](const Chain& a, const Chain& b) { return a.newest < b.newest; });
    oldest = {.space = space};
    return oldest;
}

bool SentLog::joins(const SentRun& former, const SentRun& run, Duration span) {
    return former.space == run.space && former.last() + 1 == run.first &&
           former.count + run.count <= kMostDatagrams && former.bytes == run.bytes &&
           former.last_bytes == former.bytes && former.has_packets == run.has_packets &&
           !former.asks && !run.asks && !former.is_size_probe && !run.is_size_probe &&
           former.is_app_limited == run.is_app_limited && former.is_other_way == run.is_other_way &&
           former.is_repeat == run.is_repeat && run.sent_at - former.sent_at <= span;
}

SentRun SentLog::push(SentRun run, Duration span) {
    CTN_ASSERT(run.count > 0 && run.count <= kMostDatagrams);
    Chain& chain = find_or_make(run.space, run.is_repeat);
    // A lower number: the same epoch was granted anew, with a new key; or it is repeated after
    // higher ones, whose ACKs then find nothing: they count as lost by time.
    if (run.first < chain.next_number) {
        chain.newest = 0;
    }
    chain.sought_end = 0;
    chain.next_number = run.first + run.count;
    if (begin_ != end_ && chain.newest == end_ - 1) {
        SentRun& newest = at(end_ - 1);
        if (joins(newest, run, span)) {
            newest.outstanding |= low_bits(run.count) << newest.count;
            newest.count = static_cast<uint8_t>(newest.count + run.count);
            newest.last_bytes = run.last_bytes;
            newest.last_sent_at = run.sent_at;
            return {};
        }
    }
    const SentRun forgotten = make_room();
    Entry& entry = entry_at(end_);
    entry.run = run;
    entry.run.outstanding = low_bits(run.count);
    entry.run.lost = 0;
    entry.run.last_sent_at = run.sent_at;
    const bool has_former = chain.newest >= begin_;
    entry.back = has_former ? chain.newest : 0;
    entry.jump = has_former ? jump_behind(chain.newest) : 0;
    entry.depth = has_former ? entry_at(chain.newest).depth + 1 : 0;
    chain.newest = end_++;
    repeats_end_ = run.is_repeat ? end_ : repeats_end_;
    return forgotten;
}

// Where the jump of the run after `newest` points: two jumps of equal length before it are merged
// into one.
SentLog::Position SentLog::jump_behind(Position newest) const {
    const Entry& former = entry_at(newest);
    if (former.jump < begin_) {
        return newest;
    }
    const Entry& middle = entry_at(former.jump);
    const bool is_joined = middle.jump >= begin_ && former.depth - middle.depth ==
                                                        middle.depth - entry_at(middle.jump).depth;
    return is_joined ? middle.jump : newest;
}

SentLog::Position SentLog::run_at_or_below(Position newest, uint32_t number) const {
    Position position = newest;
    while (position >= begin_ && entry_at(position).run.first > number) {
        const Entry& entry = entry_at(position);
        const bool may_jump = entry.jump >= begin_ && entry_at(entry.jump).run.first > number;
        position = may_jump ? entry.jump : entry.back;
    }
    return position;
}

const SentRun* SentLog::run_with(const NumberSpace& space, bool is_repeat, uint32_t number) const {
    const Chain* const chain = find(space, is_repeat);
    const Position position = chain != nullptr ? run_at_or_below(chain->newest, number) : 0;
    if (position < begin_ || at(position).last() < number) {
        return nullptr;
    }
    return &at(position);
}

bool SentLog::is_lost(const NumberSpace& space, uint32_t number) const {
    return std::ranges::any_of(std::array{false, true}, [&](bool is_repeat) {
        const SentRun* const run = run_with(space, is_repeat, number);
        return run != nullptr && (run->mask(number, number) & run->lost) != 0;
    });
}

SentRun SentLog::make_room() {
    SentRun forgotten;
    if (end_ - begin_ < runs_.size()) {
        return forgotten;
    }
    if (runs_.size() < kMostRuns && resize(std::max(kFewestRuns, runs_.size() * 2))) {
        return forgotten;
    }
    forgotten = at(begin_++);
    forgotten_datagrams_ += static_cast<uint64_t>(std::popcount(forgotten.outstanding));
    return forgotten;
}

bool SentLog::resize(size_t size) {
    const size_t bytes = size > kFewestRuns ? size * sizeof(Entry) : 0;
    is_short_of_memory_ = bytes > memory_.bytes() && !memory_.take(bytes - memory_.bytes());
    if (is_short_of_memory_) {
        return false;
    }
    std::vector<Entry> runs(size);
    for (Position position = begin_; position != end_; ++position) {
        runs[position % size] = entry_at(position);
    }
    runs_.swap(runs);
    memory_.give_back(memory_.bytes() - bytes);
    return true;
}

void SentLog::settle(TimePoint late_from) {
    while (begin_ != end_) {
        const SentRun& oldest = at(begin_);
        const bool may_come_late = oldest.lost != 0 && oldest.last_sent_at >= late_from;
        if (oldest.outstanding != 0 || may_come_late) {
            return;
        }
        ++begin_;
    }
}

void SentLog::release() {
    const size_t needed = std::max(kFewestRuns, std::bit_ceil(end_ - begin_ + 1));
    if (begin_ == end_) {
        std::vector<Entry>().swap(runs_);
        memory_.give_back(memory_.bytes());
        is_short_of_memory_ = false;
    } else if (needed <= runs_.size() / 4) {
        resize(needed);
    }
}

}  // namespace continuo::recovery
