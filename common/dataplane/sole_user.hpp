// SoleUser: whether one alone has used a way for a while. Who does makes nobody wait, so its work
// may be done in larger pieces, which stay in a processor's own cache. Pure.
#pragma once

#include "common/base/time.hpp"

namespace continuo::dataplane {

// Nobody else has used it for so long.
inline constexpr base::Duration kSoleUserAfter = base::seconds(1);

class SoleUser {
  public:
    // `user` is only compared.
    void note(const void* user, base::TimePoint now) {
        if (user != latest_) {
            latest_ = user;
            changed_at_ = now;
        }
    }
    bool is_sole(base::TimePoint now) const { return now - changed_at_ >= kSoleUserAfter; }

  private:
    const void* latest_ = nullptr;
    base::TimePoint changed_at_;
};

}  // namespace continuo::dataplane
