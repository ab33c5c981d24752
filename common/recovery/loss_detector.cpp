#include "common/recovery/loss_detector.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace continuo::recovery {

using base::Duration;
using base::TimePoint;

const LossDetector::Largest* LossDetector::find(const NumberSpace& space) const {
    const auto end = largest_.begin() + static_cast<std::ptrdiff_t>(spaces_);
    const auto found = std::find_if(largest_.begin(), end,
                                    [&](const Largest& largest) { return largest.space == space; });
    return found != end ? &*found : nullptr;
}

LossDetector::Largest* LossDetector::find(const NumberSpace& space) {
    const Largest* const found = std::as_const(*this).find(space);
    return found != nullptr ? &largest_[static_cast<size_t>(found - largest_.data())] : nullptr;
}

std::optional<uint32_t> LossDetector::largest(const NumberSpace& space) const {
    const Largest* const found = find(space);
    return found != nullptr ? std::optional(found->number) : std::nullopt;
}

void LossDetector::on_acknowledged(SentLog::Position position, const SentRun& run, uint64_t bits) {
    newest_acknowledged_ = std::max(newest_acknowledged_, position);
    const uint32_t number = run.first + static_cast<uint32_t>(std::bit_width(bits)) - 1U;
    Largest* largest = find(run.space);
    if (largest == nullptr) {
        if (spaces_ < largest_.size()) {
            largest = &largest_[spaces_++];
        } else {
            largest = &*std::min_element(
                largest_.begin(), largest_.end(),
                [](const Largest& a, const Largest& b) { return a.position < b.position; });
        }
        *largest = {run.space, number, position};
        return;
    }
    // A later position with a lower number means that the epoch was granted anew.
    if (position > largest->position || number > largest->number) {
        *largest = {run.space, number, position};
    }
}

void LossDetector::on_late(const SentRun& run, uint64_t late, TimePoint arrived_at) {
    if (const Largest* const largest = find(run.space)) {
        const uint32_t number = run.first + static_cast<uint32_t>(std::countr_zero(late));
        const uint32_t distance = largest->number > number ? largest->number - number : 0;
        packet_threshold_ = std::clamp(distance + 1, packet_threshold_, kMostPacketThreshold);
    }
    reordering_ = std::max(reordering_, arrived_at - run.last_sent_at);
    episodes_left_ = kReorderingPersists;
}

// A repeated datagram left after higher numbers than its own: only time tells of it.
uint64_t LossDetector::overtaken(const SentRun& run) {
    const Largest* const largest = find(run.space);
    if (run.is_repeat || largest == nullptr || largest->number < packet_threshold_) {
        return 0;
    }
    return run.mask(0, largest->number - packet_threshold_);
}

Duration LossDetector::time_threshold(const RttEstimator& rtt) const {
    const Duration round_trip = std::max(rtt.smoothed(), rtt.latest());
    const Duration usual = std::max<Duration>(round_trip * 9 / 8, RttEstimator::kGranularity);
    return std::clamp(reordering_, usual, std::max(usual, 2 * round_trip));
}

// Losses within a round trip are one episode.
void LossDetector::note_episode(bool has_lost, TimePoint now, Duration round_trip) {
    if (!has_lost || now < episode_ends_at_) {
        return;
    }
    episode_ends_at_ = now + round_trip;
    if (episodes_left_ > 0 && --episodes_left_ == 0) {
        packet_threshold_ = kPacketThreshold;
        reordering_ = {};
    }
}

}  // namespace continuo::recovery
