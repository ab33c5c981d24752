// Silence: since when a path owes an answer, and whether what is sent by it arrives. Datagrams that
// come in end a silence; they say nothing of the other direction, so that after some datagrams that
// nothing has confirmed only proof ends it: a RESPONSE, or an ACK that names a higher number than
// before (docs/PROTOCOL.md section 5.1). Pure.
#pragma once

#include "common/base/backoff.hpp"
#include "common/path/rtt_estimator.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace continuo::path {

// How long a silence may last: until the question, and until the path is in doubt. Some round
// trips, within bounds; without a sample the upper ones hold.
struct Patience {
    base::Duration ask{};
    base::Duration doubt{};

    // `is_suspect`: something below says that the path may carry nothing soon.
    static Patience of(const RttEstimator& rtt, bool is_suspect);
};

class Silence {
  public:
    // So many datagrams with packets that nothing has confirmed are a reason to ask.
    static constexpr uint64_t kUnconfirmedDatagrams = 4;
    // Datagrams of a burst whose sudden end is a reason to ask.
    static constexpr uint32_t kStreamDatagrams = 10;
    static constexpr base::Duration kLongestPauseOfBurst = base::milliseconds(250);
    // A peer that answers a question, but does not report, is asked again after twice the time.
    static constexpr base::Duration kLongestProofPatience = base::seconds(4);

    // Something that should have an answer left.
    void expect_answer(base::TimePoint now) {
        if (since_ == base::kNever) {
            since_ = now;
        }
    }
    // The same, and it was a datagram with packets.
    void on_packets_sent(base::TimePoint now) {
        expect_answer(now);
        if (unconfirmed_++ == 0) {
            unconfirmed_since_ = now;
        }
    }
    // Something authenticated came; the one before came at `before`.
    void on_heard(base::TimePoint before, base::TimePoint now) {
        burst_ = now - before > kLongestPauseOfBurst ? 1 : burst_ + 1;
        if (!needs_proof_) {
            since_ = base::kNever;
        }
    }
    // Proof: what was sent has arrived, but for `outstanding` datagrams. True when only that could
    // end the silence.
    bool confirm(uint64_t outstanding, base::TimePoint now) {
        proof_wanted_from_ = now;
        unconfirmed_ = outstanding;
        unconfirmed_since_ = now;
        if (!std::exchange(needs_proof_, false)) {
            return false;
        }
        since_ = base::kNever;
        return true;
    }
    // An ACK came, so that the peer reports.
    void on_reported() { proof_patience_.reset(); }
    // A doubt has ended.
    void want_proof_from(base::TimePoint now) { proof_wanted_from_ = now; }
    // From here on only proof ends it, which is `length` old already.
    void need_proof(base::Duration length, base::TimePoint now) {
        needs_proof_ = true;
        since_ = now - length;
    }
    // The question for proof is put: the next one comes later.
    void ask_for_proof(base::Duration patience, base::TimePoint now) {
        need_proof(patience, now);
        proof_patience_.next(2 * patience, kLongestProofPatience);
    }
    // A burst has ended, which began the silence at `since`.
    void begin(base::TimePoint since) {
        if (since_ == base::kNever) {
            since_ = since;
        }
    }
    void end_burst() { burst_ = 0; }
    // Nobody may be there to answer, or what is unanswered was not waited for.
    void end() {
        since_ = base::kNever;
        needs_proof_ = false;
    }
    void end_all() {
        end();
        unconfirmed_ = 0;
    }
    // This end did not run for a while.
    void on_pause() {
        since_ = base::kNever;
        burst_ = 0;
    }

    base::TimePoint since() const { return since_; }  // kNever: it owes nothing
    bool is_silent() const { return since_ != base::kNever; }
    bool needs_proof() const { return needs_proof_; }
    base::TimePoint proof_wanted_from() const { return proof_wanted_from_; }
    bool is_burst() const { return burst_ >= kStreamDatagrams; }
    // When to ask for proof of a path that was last heard at `heard_at`; kNever: no need.
    base::TimePoint ask_for_proof_at(base::TimePoint heard_at, base::Duration patience) const {
        const bool is_unconfirmed =
            unconfirmed_ >= kUnconfirmedDatagrams && heard_at > unconfirmed_since_;
        return is_unconfirmed ? unconfirmed_since_ + std::max(patience, proof_patience_.pause())
                              : base::kNever;
    }

    bool operator==(const Silence&) const = default;

  private:
    base::TimePoint since_ = base::kNever;
    uint32_t burst_ = 0;  // datagrams that came without a pause
    uint64_t unconfirmed_ = 0;
    base::TimePoint unconfirmed_since_{};
    bool needs_proof_ = false;
    base::TimePoint proof_wanted_from_{};
    base::Backoff proof_patience_;
};

inline Patience Patience::of(const RttEstimator& rtt, bool is_suspect) {
    using base::milliseconds;
    using base::seconds;
    if (!rtt.has_sample()) {
        return {seconds(1), seconds(2)};
    }
    const base::Duration some = rtt.smoothed() * 4 + rtt.variation() * 4;
    const base::Duration soonest = milliseconds(is_suspect ? 200 : 500);
    const base::Duration answer = milliseconds(is_suspect ? 200 : 300);
    Patience result;
    result.ask = std::clamp<base::Duration>(some, soonest, seconds(1));
    result.doubt = result.ask + std::clamp<base::Duration>(some, answer, seconds(1));
    return result;
}

}  // namespace continuo::path
