// KeepaliveLearner: how often a node must send on a path so that its NAT mapping lives, learned
// from mappings that expired in an idle time. The first one may be chance; the second, and once an
// interval is learned each one, shortens it. Pure.
#pragma once

#include "common/base/time.hpp"

#include <algorithm>

namespace continuo::path {

class KeepaliveLearner {
  public:
    // Shorter idle times are not blamed for a lost mapping.
    static constexpr base::Duration kShortest = base::seconds(1);
    // Time without a loss after which a learned interval is doubled.
    static constexpr base::Duration kTryLongerAfter = base::seconds(600);

    struct State {
        base::Duration interval{};  // zero: none is learned
        base::TimePoint learned_at{};
        base::Duration idle_when_asked{};        // idle time before the latest request
        base::TimePoint lost_known_by{};         // packets that come before this had been lost
        base::Duration idle_when_lost{};         // idle time before the first loss; zero: none
        base::Duration idle_before_keepalive{};  // idle time before the latest keepalive
        base::TimePoint remapping_known_by{};    // a CHALLENGE before this answers that keepalive
    };

    // SNAPT misses a sign of life after `idle`. Packets that come within `patience` had been lost.
    void on_request(base::Duration idle, base::Duration patience, base::TimePoint now);
    // Packets came after `idle`. If none followed a request, SNAPT only missed an answer that the
    // node did not owe, and the mapping has outlived that time.
    void on_packets(base::Duration idle, base::Duration longest, base::TimePoint now);
    // A keepalive leaves after `idle`. A CHALLENGE that comes within `patience` answers it.
    void on_keepalive(base::Duration idle, base::Duration patience, base::TimePoint now);
    // SNAPT sees the path at a new address. If that answers a keepalive, the mapping had expired in
    // the idle time before.
    void on_remapped(base::Duration longest, base::TimePoint now);
    // The node was suspended: what comes now answers nothing.
    void on_pause() { state_.lost_known_by = state_.remapping_known_by = {}; }
    // Doubles a learned interval after some time without a loss.
    void try_longer(base::Duration longest, base::TimePoint now);

    base::Duration interval(base::Duration longest) const {
        return state_.interval == base::Duration{} ? longest : std::min(state_.interval, longest);
    }
    const State& state() const { return state_; }

  private:
    void on_expired(base::Duration idle, base::Duration longest, base::TimePoint now);

    State state_;
};

}  // namespace continuo::path
