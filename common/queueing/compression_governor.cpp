#include "common/queueing/compression_governor.hpp"

#include <algorithm>

namespace continuo::queueing {

using base::Duration;
using base::TimePoint;

void RecentSum::add(uint64_t amount, TimePoint now) {
    const int64_t number = number_at(now);
    for (int64_t n = std::max(newest_ + 1, number - static_cast<int64_t>(kSlots) + 1); n <= number;
         ++n) {
        slots_[static_cast<size_t>(n) % kSlots] = 0;
    }
    newest_ = std::max(newest_, number);
    slots_[static_cast<size_t>(newest_) % kSlots] += amount;
}

uint64_t RecentSum::sum(TimePoint now) const {
    const int64_t oldest = number_at(now) - static_cast<int64_t>(kSlots) + 1;
    uint64_t sum = 0;
    for (int64_t n = std::max(oldest, newest_ - static_cast<int64_t>(kSlots) + 1); n <= newest_;
         ++n) {
        sum += n >= 0 ? slots_[static_cast<size_t>(n) % kSlots] : 0;
    }
    return sum;
}

uint64_t RecentSum::newest(TimePoint now) const {
    return number_at(now) == newest_ ? slots_[static_cast<size_t>(newest_) % kSlots] : 0;
}

void CompressionLoad::note_compressing() {
    if (!is_compressing_ && clock_ != nullptr) {
        began_at_ = clock_();
    }
    is_compressing_ = true;
}

std::optional<Duration> CompressionLoad::end(uint64_t inner_bytes, TimePoint now) {
    if (!is_compressing_ || inner_bytes == 0) {
        return std::nullopt;
    }
    const auto bytes = static_cast<double>(inner_bytes);
    Duration spent(static_cast<int64_t>(bytes * ns_per_byte_));
    if (clock_ != nullptr) {
        spent = std::max(clock_() - began_at_, Duration{});
        const double measured = static_cast<double>(spent.count()) / bytes;
        const double taken = std::clamp(measured, ns_per_byte_ / kMostOff, ns_per_byte_ * kMostOff);
        ns_per_byte_ += (taken - ns_per_byte_) * kGain;
    }
    spent_.add(spent, now);
    return spent;
}

double CompressionLoad::share_of(uint64_t bytes, Duration span) const {
    return static_cast<double>(bytes) * ns_per_byte_ / static_cast<double>(span.count());
}

void CompressionGovernor::on_arrival(uint64_t bytes, TimePoint now) {
    // An empty window has room for it: the last change counts from when the window became empty.
    const TimePoint emptied_at = arrived_at_ + RecentSum::kWindow;
    const TimePoint resumed_at = std::max(emptied_at, changed_at_ + kShortestStay);
    if (!is_compressing_ && resumed_at <= now && fast_until_ <= now) {
        is_compressing_ = true;
        changed_at_ = resumed_at;
    }
    arrived_at_ = now;
    arrived_.add(bytes, now);
}

bool CompressionGovernor::may_compress(const CompressionLoad& load,
                                       const PathPace& path,
                                       TimePoint now) {
    const bool is_fast = is_too_much(load, path, now);
    if (is_fast) {
        fast_until_ = now + kFastFor;
    }
    const bool is_wanted =
        !is_fast && (is_compressing_ || fast_until_ <= now) && is_worth_it(load, now);
    if (now - changed_at_ >= kShortestStay && is_wanted != is_compressing_) {
        if (is_compressing_ && is_raw_known(now) && !is_faster_than_raw(now)) {
            doubted_until_ = now + kDoubt;
        } else if (!is_compressing_ && path.is_full) {
            raw_bytes_ = arrived_.sum(now);
            raw_known_until_ = now + kRawKnown;
        }
        is_compressing_ = !is_compressing_;
        changed_at_ = now;
    }
    return is_compressing_;
}

CompressionGovernor::Shares CompressionGovernor::shares(const CompressionLoad& load,
                                                        TimePoint now) const {
    const double spent = spent_.share(now);
    const double rest = std::max(0.0, load.share(now) - spent);
    // Where compression slows the arrivals down, it still takes all the time there is.
    return {rest + std::max(spent, load.share_of(arrived_.sum(now), RecentSum::kWindow)), rest};
}

// The processor has no time left for compression.
bool CompressionGovernor::is_too_much(const CompressionLoad& load,
                                      const PathPace& path,
                                      TimePoint now) const {
    if (load.share_of(arrived_.newest(now), RecentSum::kSlot) > kMostShare) {
        return true;
    }
    // One busy slot is enough of a sign, as a stream at full speed usually gives.
    const Shares share = shares(load, now);
    if (share.all < kFreeShare && spent_.newest_share(now) <= kMostShare) {
        return false;
    }
    // Arrivals to expect if the super-packets were compressed.
    const double wanted = load.share_of(path.bytes_per_s, base::seconds(1)) / kTypicalRatio;
    return !path.is_full || path.bytes_per_s == 0 ||
           std::max(share.all, wanted + share.rest) >= kMostShare;
}

// The processor has time, and above kFreeShare compression is faster or is to be tried.
bool CompressionGovernor::is_worth_it(const CompressionLoad& load, TimePoint now) const {
    if (shares(load, now).all < kFreeShare) {
        return true;
    }
    return is_compressing_ ? is_raw_known(now) && is_faster_than_raw(now) : now >= doubted_until_;
}

bool CompressionGovernor::is_faster_than_raw(TimePoint now) const {
    return static_cast<double>(arrived_.sum(now)) > static_cast<double>(raw_bytes_) * kLeastGain;
}

}  // namespace continuo::queueing
