// TcpFallback: when the data of one SNAPT leaves UDP for TCP, and how often UDP is tried meanwhile
// (docs/PROTOCOL.md section 5.8). Pure.
//
// A silent UDP path alone decides nothing: a dead link keeps TCP silent too. So TCP is asked when
// UDP owes an answer, and takes over if it answers and UDP, asked at the same time, does not.
#pragma once

#include "common/base/time.hpp"

namespace continuo::cnapt::node {

// A path that has worked may pause briefly; one that never did is not waited for.
inline constexpr base::Duration kAskStreamAfter = base::seconds(1);
inline constexpr base::Duration kAskStreamAfterUnproven = base::milliseconds(500);
// Least time between the question and a change.
inline constexpr base::Duration kAskedBefore = base::milliseconds(500);
// TCP that carried data and is back this soon is asked at once: UDP was silent just before.
inline constexpr base::Duration kCarriedLately = base::seconds(10);
// After TCP's answer, UDP's has this long to come, since it may be a repetition.
inline constexpr base::Duration kUdpGrace = base::milliseconds(250);
inline constexpr base::Duration kRetryWhileBusy = base::seconds(1);
inline constexpr base::Duration kRetryWhileIdle = base::seconds(25);
// UDP that fails again this soon is left alone for a while, which doubles each time.
inline constexpr base::Duration kShortStay = base::seconds(30);
inline constexpr base::Duration kFirstRest = base::seconds(2);
inline constexpr base::Duration kLongestRest = base::seconds(60);

struct UdpFacts {
    // Active path: since when it has owed an answer; kNever: it owes none.
    base::TimePoint silent_since = base::kNever;
    bool was_proven = false;          // it has answered since it came into use
    bool has_other_answered = false;  // another uplink answered recently
};

class TcpFallback {
  public:
    enum class Step : uint8_t { None, AskStream, UseStream };
    struct Decision {
        Step step = Step::None;
        base::TimePoint again_at = base::kNever;  // next question, unless something happens first
    };

    // While a stream is open and not in use.
    Decision decide(const UdpFacts& udp, base::TimePoint now);
    void on_stream_answered(base::TimePoint now) { answered_at_ = now; }
    void on_stream_used(base::TimePoint now);
    void on_udp_used(base::TimePoint now) { udp_used_at_ = now; }
    // The stream has ended while it was in use.
    void on_stream_ended(base::TimePoint now) { ended_at_ = now; }
    // Another stream has taken the stream's place.
    void reset_answer() { answered_at_ = base::kNever; }

    // While the stream is in use. `traffic`: a number that changes with any traffic.
    bool wants_retry(uint64_t traffic, base::TimePoint now);

  private:
    base::TimePoint answered_at_ = base::kNever;
    base::TimePoint udp_used_at_ = base::kNever;  // after a stay on TCP
    base::TimePoint ended_at_ = base::kNever;
    base::Duration rest_{};
    base::TimePoint rest_until_{};
    base::TimePoint retried_at_{};
    base::TimePoint busy_at_{};
    uint64_t traffic_ = 0;
};

}  // namespace continuo::cnapt::node
