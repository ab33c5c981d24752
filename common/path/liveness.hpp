// Liveness: whether a path answers, judged only by probe time-outs (RFC 9002 section 6.2). A
// time-out runs only while an acknowledgement is owed: for kOwedBytes with packets, or for a PING.
// Less traffic than that is owed none: ask_at() says when a PING would tell. The first time-out is
// a reason to probe, and says nothing of the path yet. PathSet takes from it the probes and whether
// a path has timed out, and judges the state of a path by silence.
#pragma once

#include "common/base/time.hpp"

#include <algorithm>
#include <cstdint>

namespace continuo::path {

enum class Health : uint8_t { Usable, Doubtful, Dead };

class Liveness {
  public:
    // A lone acknowledgement of about 60 bytes is 2 % of 2900 bytes; the rest allows for losses.
    static constexpr uint64_t kOwedBytes = 4000;
    static constexpr uint32_t kDoubtfulAfterTimeouts = 2;
    // Longer than a scan of Wi-Fi takes the radio away.
    static constexpr base::Duration kDoubtfulAfter = base::milliseconds(250);
    static constexpr uint32_t kDeadAfterTimeouts = 3;  // RFC 9002, 7.6.1
    static constexpr base::Duration kDeadAfter = base::seconds(1);
    static constexpr base::Duration kAskAfter = base::milliseconds(500);
    // Longest time between two probes.
    static constexpr uint32_t kMostBackoff = 6;  // doublings

    // A datagram left. `unacknowledged_bytes`: total of datagrams with packets, including this one.
    void on_sent(bool has_packets, bool asks, uint64_t unacknowledged_bytes, base::TimePoint now) {
        if (has_packets && unheard_since_ == base::kNever) {
            unheard_since_ = now;
        }
        is_asked_ = is_asked_ || asks;
        if (armed_at_ == base::kNever && (is_asked_ || unacknowledged_bytes >= kOwedBytes)) {
            armed_at_ = now;
            owed_since_ = now;
        }
    }
    // An authenticated datagram came on this path. On a dead path, one more probe then tells
    // whether this end's datagrams arrive again.
    void on_heard() {
        unheard_since_ = base::kNever;
        may_probe_dead_ = true;
    }
    // Something was acknowledged for the first time. `asks`: a PING is still unacknowledged.
    void on_progress(uint64_t unacknowledged_bytes, bool asks, base::TimePoint now) {
        timeouts_ = 0;
        is_asked_ = asks;
        const bool is_owed = asks || unacknowledged_bytes >= kOwedBytes;
        armed_at_ = is_owed ? now : base::kNever;
        owed_since_ = armed_at_;
    }
    // Datagrams are sent again by another path, which owes the answer now: they are no more in
    // flight here, as discarded ones (RFC 9002, 6.4). A path that has timed out is asked until it
    // answers.
    void on_taken_out(uint64_t unacknowledged_bytes, bool asks) {
        is_asked_ = asks;
        if (timeouts_ == 0 && !asks && unacknowledged_bytes < kOwedBytes) {
            armed_at_ = base::kNever;
            owed_since_ = base::kNever;
        }
    }
    // True when the probe time-out has passed: the caller sends a probe.
    bool on_time(base::Duration probe_timeout, base::TimePoint now) {
        if (now < deadline(probe_timeout)) {
            return false;
        }
        ++timeouts_;
        armed_at_ = now;
        may_probe_dead_ = false;
        return true;
    }

    // When the probe time-out passes; kNever while nothing is owed. A dead path is not probed again
    // until something is heard on it: the peer may be gone for long.
    base::TimePoint deadline(base::Duration probe_timeout) const {
        if (armed_at_ == base::kNever) {
            return base::kNever;
        }
        if (health(armed_at_) == Health::Dead) {
            return may_probe_dead_ ? armed_at_ + probe_timeout : base::kNever;
        }
        return armed_at_ + probe_timeout * (1U << std::min(timeouts_, kMostBackoff));
    }
    // When a node that has heard nothing should send a PING; kNever: it need not.
    base::TimePoint ask_at(base::Duration probe_timeout) const {
        return unheard_since_ == base::kNever || armed_at_ != base::kNever
                   ? base::kNever
                   : unheard_since_ + std::max<base::Duration>(probe_timeout, kAskAfter);
    }
    Health health(base::TimePoint now) const {
        if (timeouts_ >= kDeadAfterTimeouts && now - owed_since_ >= kDeadAfter) {
            return Health::Dead;
        }
        return timeouts_ >= kDoubtfulAfterTimeouts && now - owed_since_ >= kDoubtfulAfter
                   ? Health::Doubtful
                   : Health::Usable;
    }
    // When the first datagram with packets left since something was heard; kNever: none has.
    base::TimePoint unheard_since() const { return unheard_since_; }
    bool is_owed() const { return armed_at_ != base::kNever; }
    // A PING is not acknowledged yet.
    bool is_asked() const { return is_asked_; }
    uint32_t timeouts() const { return timeouts_; }
    base::TimePoint owed_since() const { return owed_since_; }

  private:
    uint32_t timeouts_ = 0;
    bool is_asked_ = false;
    bool may_probe_dead_ = false;
    base::TimePoint armed_at_ = base::kNever;
    base::TimePoint owed_since_ = base::kNever;
    base::TimePoint unheard_since_ = base::kNever;
};

}  // namespace continuo::path
