// SpinAdvice: whether a loop without work should stay awake for what comes next. Only where
// requests and answers follow each other at once: two descriptors in turn, each soon after the
// other, with a few bytes each. A stream, however fast, has no such turns: staying awake between
// its packets would cost more than it gains. And only on a machine with processors to spare:
// before, and at intervals, it checks how long programs wait for one (the kernel's pressure stall
// information). Pure, one per loop.
#pragma once

#include "common/base/time.hpp"

#include <cstddef>
#include <optional>

namespace continuo::io {

// Turns after which spinning starts, and the most bytes that one of them moves: less than the full
// segments of an ACK-clocked stream.
inline constexpr int kSpinTurns = 8;
inline constexpr size_t kLargestTurnBytes = 1200;
// Consecutive spins in vain after which it pauses.
inline constexpr int kMaxSpinMisses = 4;
// The pause; doubles while other programs need the processor.
inline constexpr base::Duration kSpinPause = base::milliseconds(200);
inline constexpr base::Duration kLongestSpinPause = base::seconds(10);
// Time without spinning, to measure who waits for a processor; and how long the result holds.
inline constexpr base::Duration kPressureWindow = base::milliseconds(20);
inline constexpr base::Duration kSpinLicence = base::seconds(5);
// Share of the window in which programs may wait for a processor. Requests and answers alone cause
// 20 % on two processors, one computing program on each of them over 50 %.
inline constexpr int kMaxPressurePercent = 35;

class SpinAdvice {
  public:
    // Longest spin; 0, the default: never.
    void set_limit(base::Duration limit) { limit_ = limit; }
    base::Duration limit() const { return limit_; }

    // The loop has moved `bytes` for one descriptor (null: for several) after `waited`.
    void note_moved(const void* descriptor, size_t bytes, base::Duration waited);
    bool is_worth_while(base::TimePoint now) const {
        return turns_ >= kSpinTurns && now < licensed_until_;
    }
    // True: call note_pressure().
    bool is_asking(base::TimePoint now) const {
        return turns_ >= kSpinTurns && now >= licensed_until_ && now >= asks_at_;
    }
    // Total time that programs have waited for a processor.
    void note_pressure(base::Duration waited, base::TimePoint now);
    // The result of spinning: work in time, or nothing.
    void note_spun(bool has_hit, base::TimePoint now);
    // Another program used the processor for long.
    void note_contended(base::TimePoint now);

  private:
    struct Pressure {
        base::Duration waited;
        base::TimePoint at;
    };
    void pause(base::Duration length, base::TimePoint now);

    base::Duration limit_{};
    const void* last_ = nullptr;
    int turns_ = 0;
    int misses_ = 0;
    base::TimePoint licensed_until_{};
    base::TimePoint asks_at_{};
    base::Duration next_pause_ = kSpinPause;  // when contended
    std::optional<Pressure> before_;          // the window
};

}  // namespace continuo::io
