#include "common/io/spin_advice.hpp"

#include <algorithm>
#include <utility>

namespace continuo::io {
namespace {

constexpr int kMaxTurns = 2 * kSpinTurns;
// An answer to one who sleeps comes later than to one who spins, by the wake-ups that both save.
constexpr int kSleeperIsSlower = 2;
// A window that much longer had other work in it.
constexpr int kLongestWindow = 4;

}  // namespace

void SpinAdvice::note_served(const void* descriptor, base::Duration waited) {
    const bool is_turn =
        descriptor != nullptr && descriptor != last_ && waited <= limit_ * kSleeperIsSlower;
    // A timer in between is forgiven, a stream is not.
    turns_ = is_turn ? std::min(turns_ + 1, kMaxTurns) : turns_ / 2;
    last_ = descriptor;
}

void SpinAdvice::note_pressure(base::Duration waited, base::TimePoint now) {
    const auto before = std::exchange(before_, std::nullopt);
    if (!before || now - before->at > kPressureWindow * kLongestWindow) {
        before_ = Pressure{waited, now};
        asks_at_ = now + kPressureWindow;
    } else if ((waited - before->waited) * 100 > (now - before->at) * kMaxPressurePercent) {
        pause(now);
    } else {
        licensed_until_ = now + kSpinLicence;
    }
}

void SpinAdvice::note_spun(bool has_hit, base::TimePoint now) {
    misses_ = has_hit ? 0 : misses_ + 1;
    if (misses_ == kMaxSpinMisses) {
        pause(now);
    }
}

void SpinAdvice::pause(base::TimePoint now) {
    misses_ = 0;
    before_.reset();
    licensed_until_ = {};
    asks_at_ = now + kSpinPause;
}

}  // namespace continuo::io
