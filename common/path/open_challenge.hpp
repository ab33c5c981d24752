// OpenChallenge: a CHALLENGE to one tuple until it is answered or given up (docs/PROTOCOL.md
// section 5.4). Each sending has its own token, so that its answer gives a round trip (RFC 6298
// section 3 ignores repeated segments only because they cannot be told apart). Every second one
// leaves without DSCP, which the network may drop (section 5.1). Pure.
#pragma once

#include "common/base/random.hpp"
#include "common/base/time.hpp"
#include "common/path/class_ways.hpp"
#include "common/recovery/liveness.hpp"
#include "common/wire/frame.hpp"

#include <algorithm>
#include <optional>

namespace continuo::path {

// Longest interval between repetitions of unanswered announcements and challenges; the first is
// Liveness::kProbeInterval.
inline constexpr base::Duration kLongestProbeInterval = base::seconds(1);
inline base::Duration longer_interval(base::Duration interval) {
    return std::min<base::Duration>(interval * 2, kLongestProbeInterval);
}
// An unanswered challenge is given up after this, until the tuple is heard again.
inline constexpr base::Duration kChallengeLifetime = base::seconds(30);

class OpenChallenge {
  public:
    struct Answer {
        base::Duration round_trip{};  // the newest sending's; else the time since the first
        bool is_sample = false;       // `round_trip` is that of the sending that was answered
        bool is_unmarked = false;     // that one left without DSCP
    };

    void start(base::Random& random, base::TimePoint now);
    // It was answered, or is given up.
    void stop() { since_ = again_at_ = base::kNever; }
    // Announcements carry it from now on.
    void leave_to_announcements() { again_at_ = base::kNever; }
    // Asks now, and not again before the next call or hasten().
    void repeat_once(base::TimePoint now);
    void hasten(base::TimePoint now) { again_at_ = std::min(again_at_, now); }
    // A due sending did not leave: too few bytes were received. resume() repeats it.
    void withhold() { is_withheld_ = true; }
    void resume(base::TimePoint now);

    bool is_open() const { return since_ != base::kNever; }
    bool has_expired(base::TimePoint now) const {
        return is_open() && now - since_ >= kChallengeLifetime;
    }
    bool was_sent() const { return was_sent_; }
    bool is_withheld() const { return is_withheld_; }
    base::TimePoint since() const { return since_; }
    base::TimePoint asked_at() const { return asked_at_; }
    base::TimePoint due_at() const { return again_at_; }
    base::Duration interval() const { return interval_; }
    uint32_t repetitions() const { return repetitions_; }
    const wire::ChallengeToken& token() const { return token_; }
    // True when it is to leave now; gives it up when it is too old.
    bool take_due(base::TimePoint now);
    // The frame of the sending that leaves now.
    wire::Challenge next_sending(base::TimePoint now);
    // The way of the latest sending; nothing: the one that its class takes.
    std::optional<ClassWay> way() const {
        return is_unmarked(repetitions_) ? std::optional(ClassWay::Unmarked) : std::nullopt;
    }
    // Nothing: the token answers no sending of it.
    std::optional<Answer> answer(const wire::ChallengeToken& token, base::TimePoint now) const;

  private:
    static bool is_unmarked(uint32_t sending) { return sending % 2 == 1; }

    wire::ChallengeToken token_{};
    base::TimePoint since_ = base::kNever;
    base::TimePoint again_at_ = base::kNever;
    base::Duration interval_{};
    base::TimePoint asked_at_{};  // when it was last sent
    uint32_t repetitions_ = 0;
    bool was_sent_ = false;
    bool is_withheld_ = false;
};

}  // namespace continuo::path
