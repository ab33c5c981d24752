// TcpFallback: when the data of one SNAPT leaves UDP for TCP, and how often UDP is tried meanwhile
// (docs/PROTOCOL.md section 5.8). Pure.
//
// A silent UDP path alone decides nothing: a link that carries nothing keeps TCP silent too. So TCP
// is asked when UDP owes an answer, and takes over when it answered and UDP, asked at the same
// time, still did not.
#pragma once

#include "common/base/backoff.hpp"

namespace continuo::policy {

// A path that has worked may pause for a moment; one that never did is not waited for.
inline constexpr base::Duration kAskStreamAfter = base::seconds(1);
inline constexpr base::Duration kAskStreamAfterUnproven = base::milliseconds(500);
// From the question to the earliest change.
inline constexpr base::Duration kAskedBefore = base::milliseconds(500);
// TCP that carried and comes back so soon is asked at once: UDP was silent a moment ago.
inline constexpr base::Duration kCarriedLately = base::seconds(10);
// TCP's answer gives UDP's, which may be repeated later, so much time.
inline constexpr base::Duration kUdpGrace = base::milliseconds(250);
inline constexpr base::Duration kRetryWhileBusy = base::seconds(1);
inline constexpr base::Duration kRetryWhileIdle = base::seconds(25);
// UDP that fails again so soon is left alone for a while, which doubles each time.
inline constexpr base::Duration kShortStay = base::seconds(30);
inline constexpr base::Duration kFirstRest = base::seconds(2);
inline constexpr base::Duration kLongestRest = base::seconds(60);

struct UdpFacts {
    // Of the active path: since when it owes an answer; kNever: it does not.
    base::TimePoint unanswered_since = base::kNever;
    bool was_proven = false;          // it has answered since it is in use
    bool has_other_answered = false;  // another uplink did, lately
};

class TcpFallback {
  public:
    enum class Step : uint8_t { None, AskStream, UseStream };
    struct Decision {
        Step step = Step::None;
        base::TimePoint again_at = base::kNever;  // the next question, unless something happens
    };

    // While a stream is open and not in use.
    Decision decide(const UdpFacts& udp, base::TimePoint now);
    void on_stream_answered(base::TimePoint now) { answered_at_ = now; }
    void on_stream_used(base::TimePoint now);
    void on_udp_used(base::TimePoint now) { udp_used_at_ = now; }
    // The stream has ended while it was in use.
    void on_stream_ended(base::TimePoint now) { ended_at_ = now; }
    // The stream is another one.
    void reset_answer() { answered_at_ = base::kNever; }

    // While the stream is in use. `traffic`: a number that changes when there was any. `is_silent`:
    // the stream carries nothing either, so that UDP is not left alone.
    bool wants_retry(uint64_t traffic, bool is_silent, base::TimePoint now);

  private:
    base::TimePoint answered_at_ = base::kNever;
    base::TimePoint udp_used_at_ = base::kNever;  // after a stay on TCP
    base::TimePoint ended_at_ = base::kNever;
    base::Backoff rest_;
    base::TimePoint rest_until_{};
    base::TimePoint retried_at_{};
    base::TimePoint busy_at_{};
    uint64_t traffic_ = 0;
};

}  // namespace continuo::policy
