// KeepaliveSearch: how often a node that has nothing else to send must send, so that its mapping at
// a NAT stays. RFC 4787 REQ-5 asks for two minutes, many boxes take less. Two things show that the
// mapping ended while the node was idle. The SNAPT saw what ended the idle time come from another
// address. Or packets come right after the answer to a request of the SNAPT: they were repeated, so
// they had been lost. Pure.
#pragma once

#include "common/base/time.hpp"

#include <algorithm>
#include <utility>

namespace continuo::path {

class KeepaliveSearch {
  public:
    // A mapping that was gone when nothing was sent for so long, at least.
    static constexpr base::Duration kShortest = base::seconds(1);
    // Without a request for so long, an interval that was learned is tried twice as long.
    static constexpr base::Duration kTryLongerAfter = base::seconds(600);

    // Something left on a path that works, after the node had sent nothing for `idle`.
    void on_sent(base::Duration idle, base::TimePoint now) {
        if (idle >= kShortest) {
            idle_before_ = idle;
            sent_at_ = now;
        }
    }
    // The SNAPT saw another address there. Within `round_trip` of what ended an idle time it is
    // that which came from there.
    void on_new_address(base::Duration round_trip, base::Duration longest, base::TimePoint now) {
        const base::Duration idle = std::exchange(idle_before_, {});
        if (idle != base::Duration{} && now - sent_at_ <= round_trip) {
            learn(idle, longest, now);
        }
    }
    // The SNAPT asked for a sign of life after the node had sent nothing for `idle`. Packets that
    // come until `known_by` had been lost.
    void on_request(base::Duration idle, base::TimePoint known_by) {
        if (idle >= kShortest) {
            idle_when_asked_ = idle;
            lost_known_by_ = known_by;
        }
    }
    // Packets came while the node had sent nothing for `idle`. Where nothing comes, the SNAPT only
    // missed an answer that the node did not owe.
    void on_packets(base::Duration idle, base::Duration longest, base::TimePoint now);
    void try_longer(base::Duration longest, base::TimePoint now) {
        if (interval_ != base::Duration{} && now - learned_at_ >= kTryLongerAfter) {
            interval_ = interval_ < longest / 2 ? interval_ * 2 : base::Duration{};
            learned_at_ = now;
        }
    }
    // At most `longest`, the SNAPT's own.
    base::Duration interval(base::Duration longest) const {
        return interval_ == base::Duration{} ? longest : std::min(interval_, longest);
    }
    // This end did not run for a while: what comes now says nothing.
    void on_pause() {
        lost_known_by_ = {};
        idle_before_ = {};
    }

    bool operator==(const KeepaliveSearch&) const = default;

  private:
    // The mapping ended within `idle`. The second time makes the interval shorter (one may be
    // chance), and then each.
    void learn(base::Duration idle, base::Duration longest, base::TimePoint now);

    base::Duration interval_{};  // zero: nothing was learned
    base::TimePoint learned_at_{};
    base::Duration idle_when_asked_{};
    base::TimePoint lost_known_by_{};
    base::Duration idle_when_lost_{};  // before the first loss; zero: none is known
    base::Duration idle_before_{};     // before the datagram that left at sent_at_; zero: none
    base::TimePoint sent_at_{};
};

inline void
KeepaliveSearch::on_packets(base::Duration idle, base::Duration longest, base::TimePoint now) {
    if (now > lost_known_by_) {
        // A mapping that outlived as much disproves it.
        idle_when_lost_ = idle >= idle_when_lost_ ? base::Duration{} : idle_when_lost_;
        return;
    }
    lost_known_by_ = {};
    learn(idle_when_asked_, longest, now);
}

inline void
KeepaliveSearch::learn(base::Duration idle, base::Duration longest, base::TimePoint now) {
    const bool is_first = idle_when_lost_ == base::Duration{};
    if (is_first && interval_ == base::Duration{}) {
        idle_when_lost_ = idle;
        return;
    }
    const base::Duration lost_after = is_first ? idle : std::min(idle_when_lost_, idle);
    interval_ = std::max<base::Duration>(
        std::min<base::Duration>(lost_after / 2, interval(longest)), kShortest);
    learned_at_ = now;
    idle_when_lost_ = {};
}

}  // namespace continuo::path
