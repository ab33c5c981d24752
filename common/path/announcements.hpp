// Announcements: when a node announces a path, some copies first and then at intervals that grow
// until something is heard. Pure.
#pragma once

#include "common/path/probe_interval.hpp"

#include <cstdint>

namespace continuo::path {

class Announcements {
  public:
    // So many at `at` at once, then repetitions, the first after `interval`.
    void begin(uint8_t copies, base::Duration interval, base::TimePoint at) {
        due_ = copies;
        interval_ = interval;
        again_at_ = at;
    }
    void stop() {
        due_ = 0;
        again_at_ = base::kNever;
    }
    bool are_repeated() const { return again_at_ != base::kNever; }
    base::TimePoint deadline() const { return again_at_; }
    // One leaves at deadline(). `is_patient`: nobody has answered for long; then intervals grow to
    // `longest`, from kPatientInterval on.
    void on_sent(bool is_patient, base::Duration longest, base::TimePoint now);
    // The next one is far off.
    bool are_rare(base::TimePoint now) const { return again_at_ - now > kLongestProbeInterval; }

    // An idle node must stay cheap: as often as a mapping at a NAT needs it (RFC 4787, REQ-5).
    static constexpr base::Duration kPatientInterval = base::seconds(25);

    bool operator==(const Announcements&) const = default;

  private:
    uint8_t due_ = 0;
    base::TimePoint again_at_ = base::kNever;
    base::Duration interval_{};
};

inline void Announcements::on_sent(bool is_patient, base::Duration longest, base::TimePoint now) {
    if (due_ > 1) {
        --due_;
        return;
    }
    due_ = 0;
    again_at_ = now + interval_;
    interval_ = interval_ < kLongestProbeInterval || !is_patient
                    ? longer_interval(interval_)
                    : std::clamp<base::Duration>(interval_ * 2, kPatientInterval, longest);
}

}  // namespace continuo::path
