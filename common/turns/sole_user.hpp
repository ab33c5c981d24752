// SoleUser: whether only one has used a resource for a while. Its work may then be done in larger
// pieces, which stay in a processor's cache; a newcomer may have to wait for one of them, once.
// Pure.
#pragma once

#include "common/base/time.hpp"

namespace continuo::turns {

// Time without any other user.
inline constexpr base::Duration kSoleUserAfter = base::seconds(10);

class SoleUser {
  public:
    // `user` is only compared. The first one is alone at once.
    void note(const void* user, base::TimePoint now) {
        if (user != latest_) {
            changed_at_ = latest_ != nullptr ? now : changed_at_;
            latest_ = user;
        }
    }
    bool is_sole(base::TimePoint now) const { return now - changed_at_ >= kSoleUserAfter; }

  private:
    const void* latest_ = nullptr;
    base::TimePoint changed_at_;
};

}  // namespace continuo::turns
