#include "common/io/spin_advice.hpp"

#include <algorithm>
#include <utility>

namespace continuo::io {
namespace {

constexpr int kMaxTurns = 2 * kSpinTurns;
// An answer to a sleeping peer comes later than to a spinning one, by the two wake-ups saved.
constexpr int kSleeperIsSlower = 2;
// A window this much longer contained other work.
constexpr int kLongestWindow = 4;

}  // namespace

void SpinAdvice::note_moved(const void* descriptor, size_t bytes, base::Duration waited) {
    const bool is_turn = descriptor != nullptr && descriptor != last_ &&
                         bytes <= kLargestTurnBytes && waited <= limit_ * kSleeperIsSlower &&
                         limit_ > base::Duration::zero();
    // A single turn that is none is tolerated, a stream is not.
    turns_ = is_turn ? std::min(turns_ + 1, kMaxTurns) : turns_ / 2;
    last_ = descriptor;
}

void SpinAdvice::note_pressure(base::Duration waited, base::TimePoint now) {
    const auto before = std::exchange(before_, std::nullopt);
    if (licensed_until_ != base::TimePoint{}) {
        licensed_until_ = {};  // nobody needed the processor
        next_pause_ = kSpinPause;
    }
    if (!before || now - before->at > kPressureWindow * kLongestWindow) {
        before_ = Pressure{waited, now};
        asks_at_ = now + kPressureWindow;
    } else if ((waited - before->waited) * 100 > (now - before->at) * kMaxPressurePercent) {
        note_contended(now);
    } else {
        licensed_until_ = now + kSpinLicence;
    }
}

void SpinAdvice::note_spun(bool has_hit, base::TimePoint now) {
    misses_ = has_hit ? 0 : misses_ + 1;
    if (misses_ == kMaxSpinMisses) {
        pause(kSpinPause, now);
    }
}

void SpinAdvice::note_contended(base::TimePoint now) {
    pause(next_pause_, now);
    next_pause_ = std::min(next_pause_ * 2, kLongestSpinPause);
}

void SpinAdvice::pause(base::Duration length, base::TimePoint now) {
    misses_ = 0;
    before_.reset();
    licensed_until_ = {};
    asks_at_ = now + length;
}

}  // namespace continuo::io
