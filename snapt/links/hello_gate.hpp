// HelloGate: limits how often a user's nodes may log in. Pure; asked before anything is written for
// a HELLO. One thread.
#pragma once

#include "common/base/time.hpp"

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace continuo::snapt::links {

// Bucket of one node of a user: burst, and interval.
inline constexpr int kHelloBurst = 10;
inline constexpr base::Duration kHelloInterval = base::milliseconds(500);
// Nodes of a user that were not here recently: this many at once, or four times its sessions if
// that is more, and the interval for each further one. So invented names gain nothing.
inline constexpr size_t kNewNodeBurst = 64;
inline constexpr base::Duration kNewNodeInterval = base::seconds(1);
inline constexpr base::Duration kNodeRemembered = base::seconds(60);
// Most users and nodes whose HELLOs are remembered; above that new ones are refused.
inline constexpr size_t kMaxHelloBuckets = 65536;
// Share of the buckets that one user's nodes may take, so that others have room. An eighth is a
// choice.
inline constexpr size_t kMaxHelloBucketsOfUser = kMaxHelloBuckets / 8;
// New nodes at once for a user without a limit of sessions. A choice, not measured.
inline constexpr size_t kManyNewNodes = 4096;

class HelloGate {
  public:
    // `user_sessions`: limit of a user; 0: none.
    bool
    admit(std::string_view user, std::string_view node, size_t user_sessions, base::TimePoint now);

  private:
    // When the bucket is full again.
    using Buckets = std::map<std::pair<std::string, std::string>, base::TimePoint>;

    static bool is_old(base::TimePoint paid_at, base::TimePoint now) {
        return paid_at + kNodeRemembered <= now;
    }
    static bool
    take(base::TimePoint& paid_at, base::Duration each, size_t burst, base::TimePoint now);
    bool has_room_for(std::string_view user) const;
    void forget_old(base::TimePoint now);

    Buckets buckets_;  // by user and node; the user's own has an empty node
    std::map<std::string, size_t, std::less<>> owned_;  // by user: buckets of its nodes
    base::TimePoint forget_again_at_{};
};

}  // namespace continuo::snapt::links
