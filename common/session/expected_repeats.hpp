// ExpectedRepeats: whether a duplicate may be a datagram that SNAPT sent again. SNAPT repeats when
// the node asks (ANNOUNCE) or answers a CHALLENGE from another port, mostly on a path other than
// the one in the header; on the same one only soon after (docs/PROTOCOL.md section 5.6). Pure.
#pragma once

#include "common/base/time.hpp"

namespace continuo::session {

class ExpectedRepeats {
  public:
    // Node: it announces its active path, or SNAPT sees it at a new port.
    void on_asked(base::TimePoint now) { asked_at_ = now; }
    bool has_asked() const { return asked_at_ != base::kNever; }
    // Call only if the node has asked. `is_elsewhere`: the duplicate came on another path than its
    // header says.
    bool may_be(bool is_elsewhere, base::Duration rtt, base::TimePoint now) const {
        return now - asked_at_ <= (is_elsewhere ? kRepeatsElsewhere : kRepeatsInPlace) + rtt * 2;
    }

  private:
    // Margin beyond two round trips.
    static constexpr base::Duration kRepeatsInPlace = base::seconds(1);
    static constexpr base::Duration kRepeatsElsewhere = base::seconds(10);

    base::TimePoint asked_at_ = base::kNever;
};

}  // namespace continuo::session
