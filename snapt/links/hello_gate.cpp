#include "snapt/links/hello_gate.hpp"

#include <algorithm>

namespace continuo::snapt::links {

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
    const std::pair key{std::string(user), std::string(node)};
    auto known = buckets_.find(key);
    if (known == buckets_.end() || is_old(known->second, now)) {
        if (!has_room_for(user)) {
            forget_old(now);
            known = buckets_.find(key);
        }
        if (known == buckets_.end() && !has_room_for(user)) {
            return false;
        }
        const size_t burst =
            user_sessions == 0 ? kManyNewNodes : std::max(kNewNodeBurst, 4 * user_sessions);
        if (!take(buckets_[{key.first, std::string()}], kNewNodeInterval, burst, now)) {
            return false;
        }
        if (known == buckets_.end()) {
            known = buckets_.try_emplace(key).first;
            ++owned_[key.first];
        }
    }
    return take(known->second, kHelloInterval, kHelloBurst, now);
}

bool HelloGate::has_room_for(std::string_view user) const {
    constexpr size_t kNeeded = 2;  // the node's and the user's own
    const auto owned = owned_.find(user);
    return buckets_.size() + kNeeded <= kMaxHelloBuckets &&
           (owned == owned_.end() || owned->second < kMaxHelloBucketsOfUser);
}

void HelloGate::forget_old(base::TimePoint now) {
    if (now < forget_again_at_) {
        return;  // it takes long
    }
    forget_again_at_ = now + kNodeRemembered / 4;
    std::erase_if(buckets_, [now](const auto& bucket) { return is_old(bucket.second, now); });
    owned_.clear();
    for (const auto& [key, paid_at] : buckets_) {
        owned_[key.first] += key.second.empty() ? 0U : 1U;
    }
}

}  // namespace continuo::snapt::links
