#include "snapt/hello_gate.hpp"

#include <algorithm>

namespace continuo::snapt {

bool HelloGate::take(base::TimePoint& paid_at,
                     base::Duration each,
                     size_t burst,
                     base::TimePoint now) {
    const base::TimePoint after = std::max(paid_at, now) + each;
    if (after - now > each * static_cast<int64_t>(burst)) {
        return false;
    }
    paid_at = after;
    return true;
}

bool HelloGate::admit(std::string_view user,
                      std::string_view node,
                      size_t user_sessions,
                      base::TimePoint now) {
    auto known = buckets_.find({std::string(user), std::string(node)});
    if (known == buckets_.end() || is_old(known->second, now)) {
        constexpr size_t kNeeded = 2;  // its own and the user's
        if (buckets_.size() + kNeeded > kMaxHelloBuckets) {
            forget_old(now);
        }
        if (buckets_.size() + kNeeded > kMaxHelloBuckets) {
            return false;
        }
        const size_t burst = std::max(kNewNodeBurst, 4 * user_sessions);
        base::TimePoint& of_user = buckets_[{std::string(user), std::string()}];
        if (user_sessions != 0 && !take(of_user, kNewNodeInterval, burst, now)) {
            return false;
        }
        known = buckets_.try_emplace({std::string(user), std::string(node)}).first;
    }
    return take(known->second, kHelloInterval, kHelloBurst, now);
}

void HelloGate::forget_old(base::TimePoint now) {
    if (now < forget_again_at_) {
        return;  // it takes long
    }
    forget_again_at_ = now + kNodeRemembered / 4;
    std::erase_if(buckets_, [now](const auto& bucket) { return is_old(bucket.second, now); });
}

}  // namespace continuo::snapt
