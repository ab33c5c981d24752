// Liveness: whether a path answers, judged by probe time-outs alone (RFC 9002 section 6.2). One
// runs only while an acknowledgement is owed: for kOwedBytes with packets, or for a PING or a
// CHALLENGE. Less traffic than that is owed none: ask_at() says when a PING would tell. The first
// time-out says nothing of the path yet: kProbes probes leave, kProbeInterval apart, so that chance
// losses do not make a judgement.
//
//   doubtful   each of them is unanswered for a probe time-out, and kDoubtfulAfter has passed since
//              an answer was owed
//   dead       for another one, and kDeadAfter
//
// Arrivals prove nothing of the other direction: only on_progress() ends a doubt.
#pragma once

#include "common/base/time.hpp"

#include <algorithm>
#include <cstdint>

namespace continuo::recovery {

enum class Health : uint8_t { Usable, Doubtful, Dead };

class Liveness {
  public:
    // A lone acknowledgement of about 60 bytes is 2 % of 2900 bytes; the rest allows for losses.
    static constexpr uint64_t kOwedBytes = 4000;
    // Probes of the first time-out. With 10 % of loss each way, the question and all of them are
    // lost in 5 of 100 000 cases.
    static constexpr uint32_t kProbes = 5;
    static constexpr base::Duration kProbeInterval = base::milliseconds(40);
    // Longer than a scan of Wi-Fi takes the radio away.
    static constexpr base::Duration kDoubtfulAfter = base::milliseconds(250);
    static constexpr base::Duration kDeadAfter = base::seconds(1);
    static constexpr base::Duration kAskAfter = base::milliseconds(500);
    // Datagrams with packets that nothing confirms, after which a PING asks although others come.
    static constexpr uint32_t kUnconfirmedDatagrams = 4;
    // Longest time between two probes.
    static constexpr uint32_t kMostBackoff = 6;  // doublings

    // A datagram left. `asks`: with a PING or a CHALLENGE. `unacknowledged_bytes`: total of
    // datagrams with packets, including this one.
    void on_sent(bool has_packets, bool asks, uint64_t unacknowledged_bytes, base::TimePoint now) {
        if (has_packets || asks) {
            note_sent(now);
        }
        if (has_packets && unconfirmed_datagrams_++ == 0) {
            unconfirmed_since_ = now;
        }
        const bool is_first_question = asks && !is_asked_ && timeouts_ == 0;
        is_asked_ = is_asked_ || asks;
        is_answered_elsewhere_ =
            is_answered_elsewhere_ && !asks && unacknowledged_bytes < kOwedBytes;
        is_streaming_ = is_streaming_ && !asks;
        const bool is_owed = is_asked_ || unacknowledged_bytes >= kOwedBytes;
        if (is_first_question || (armed_at_ == base::kNever && is_owed)) {
            armed_at_ = now;
            owed_since_ = now;
            is_answered_elsewhere_ = false;
        }
    }
    // Something left that should be answered, by means that are not timed here.
    void note_sent(base::TimePoint now) { unheard_since_ = std::min(unheard_since_, now); }
    // Until the next question, something follows whatever comes: its end is a silence too.
    void expect_more(base::TimePoint now) {
        note_sent(now);
        is_streaming_ = true;
    }
    // An authenticated datagram came on this path. On a dead path, one more probe then tells
    // whether this end's datagrams arrive again.
    void on_heard(base::TimePoint now) {
        unheard_since_ = is_streaming_ ? now : base::kNever;
        may_probe_dead_ = true;
        if (is_answered_elsewhere_ && health_ == Health::Usable) {
            on_progress(0, false, now);
        }
    }
    // Something was acknowledged for the first time, or a CHALLENGE was answered. `asks`: a PING is
    // still unacknowledged.
    void on_progress(uint64_t unacknowledged_bytes, bool asks, base::TimePoint now) {
        health_ = Health::Usable;
        timeouts_ = 0;
        probes_ = 0;
        probed_at_ = base::kNever;
        is_answered_elsewhere_ = false;
        unconfirmed_datagrams_ = 0;
        is_asked_ = asks;
        const bool is_owed = asks || unacknowledged_bytes >= kOwedBytes;
        armed_at_ = is_owed ? now : base::kNever;
        owed_since_ = armed_at_;
    }
    // The same, told by another path: it says nothing of the way back, so a question waits until
    // something is heard, and a doubt until this path answers.
    void on_progress_told_elsewhere(uint64_t unacknowledged_bytes, bool asks, base::TimePoint now) {
        if (is_asked_) {
            is_answered_elsewhere_ = !asks && unacknowledged_bytes < kOwedBytes;
        } else {
            on_progress(unacknowledged_bytes, asks, now);
        }
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
    // Nobody may be there to answer what was sent until now.
    void forget_silence() {
        unheard_since_ = base::kNever;
        unconfirmed_datagrams_ = 0;
    }
    void begin_anew() { *this = Liveness(); }
    // Nothing that was sent until now will be acknowledged. The silence goes on.
    void forget_judgement() {
        const base::TimePoint unheard_since = unheard_since_;
        begin_anew();
        unheard_since_ = unheard_since;
    }
    // True when a probe time-out has passed: the caller sends a probe.
    bool on_time(base::Duration probe_timeout, base::TimePoint now) {
        if (armed_at_ == base::kNever) {
            return false;
        }
        if (now >= judged_at(probe_timeout, Health::Dead)) {
            health_ = Health::Dead;
        } else if (now >= judged_at(probe_timeout, Health::Doubtful)) {
            health_ = std::max(health_, Health::Doubtful);
        }
        if (now < probe_at(probe_timeout)) {
            return false;
        }
        if (probes_ < kProbes) {
            ++probes_;
            probed_at_ = now;
        }
        if (probes_ == 1 || probed_at_ != now) {
            ++timeouts_;
            armed_at_ = now;
        }
        may_probe_dead_ = false;
        return true;
    }

    // When to call on_time(); kNever while nothing is owed. A dead path is not probed again until
    // something is heard on it: the peer may be gone for long.
    base::TimePoint deadline(base::Duration probe_timeout) const {
        if (armed_at_ == base::kNever) {
            return base::kNever;
        }
        const base::TimePoint probe_at = this->probe_at(probe_timeout);
        return health_ == Health::Dead
                   ? probe_at
                   : std::min(probe_at,
                              judged_at(probe_timeout, health_ == Health::Usable ? Health::Doubtful
                                                                                 : Health::Dead));
    }
    // When an end that gets no answer to thin traffic should send a PING; kNever: it need not.
    base::TimePoint ask_at(base::Duration probe_timeout) const {
        if (is_asked_ || timeouts_ > 0) {
            return base::kNever;
        }
        const base::TimePoint since = unconfirmed_datagrams_ >= kUnconfirmedDatagrams
                                          ? std::min(unheard_since_, unconfirmed_since_)
                                          : unheard_since_;
        return since == base::kNever ? base::kNever
                                     : since + std::max<base::Duration>(probe_timeout, kAskAfter);
    }
    Health health() const { return health_; }
    // When the first datagram left that nothing followed, or of a path with time-outs, since when
    // an answer is owed; kNever: nothing is waited for.
    base::TimePoint silent_since() const {
        return timeouts_ > 0 ? std::min(owed_since_, unheard_since_) : unheard_since_;
    }
    base::TimePoint unheard_since() const { return unheard_since_; }
    bool is_owed() const { return armed_at_ != base::kNever; }
    // A PING is not acknowledged yet.
    bool is_asked() const { return is_asked_; }
    uint32_t timeouts() const { return timeouts_; }
    base::TimePoint owed_since() const { return owed_since_; }

  private:
    base::TimePoint probe_at(base::Duration probe_timeout) const {
        if (health_ == Health::Dead) {
            return may_probe_dead_ ? armed_at_ + probe_timeout : base::kNever;
        }
        if (probes_ > 0 && probes_ < kProbes) {
            return probed_at_ + kProbeInterval;
        }
        const base::TimePoint next =
            armed_at_ + probe_timeout * (1U << std::min(timeouts_, kMostBackoff));
        return probes_ == 0 ? next : std::max(next, probed_at_ + kProbeInterval);
    }
    // Not before all probes have left, however late this end is.
    base::TimePoint judged_at(base::Duration probe_timeout, Health health) const {
        if (probes_ < kProbes) {
            return base::kNever;
        }
        return health == Health::Dead
                   ? std::max(probed_at_ + 2 * probe_timeout, owed_since_ + kDeadAfter)
                   : std::max(probed_at_ + probe_timeout, owed_since_ + kDoubtfulAfter);
    }

    Health health_ = Health::Usable;
    uint32_t timeouts_ = 0;
    uint32_t probes_ = 0;                       // the first time-out's; the others have one each
    base::TimePoint probed_at_ = base::kNever;  // when the latest of these left
    bool is_streaming_ = false;
    bool is_answered_elsewhere_ = false;  // all that is owed, as another path has told
    uint32_t unconfirmed_datagrams_ = 0;
    bool is_asked_ = false;
    bool may_probe_dead_ = false;
    base::TimePoint armed_at_ = base::kNever;
    base::TimePoint owed_since_ = base::kNever;
    base::TimePoint unheard_since_ = base::kNever;
    base::TimePoint unconfirmed_since_{};
};

}  // namespace continuo::recovery
