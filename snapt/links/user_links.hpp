// UserLinks: the number of control links of each user. Any thread.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace continuo::snapt::links {

// Limit for a user without a limit of sessions. A choice, not measured.
inline constexpr size_t kManyLinks = 16384;

// Limit for `sessions` sessions of a user; 0: no limit. Each node has one link, a second one while
// it moves, and some break unnoticed.
constexpr size_t max_links_of_user(size_t user_sessions) {
    return user_sessions == 0 ? kManyLinks : 2 * user_sessions + 8;
}

class UserLinks {
  public:
    // A link's place among those of its user, for its lifetime.
    class Place {
      public:
        Place(UserLinks& links, std::string user) : links_(links), user_(std::move(user)) {}
        Place(const Place&) = delete;
        Place& operator=(const Place&) = delete;
        ~Place() { links_.leave(user_); }

      private:
        UserLinks& links_;
        std::string user_;
    };

    // Applies to new links.
    void set_user_sessions(size_t user_sessions) { user_sessions_ = user_sessions; }
    size_t user_sessions() const { return user_sessions_; }
    // Null: the user is at its limit.
    std::unique_ptr<Place> take(const std::string& user) {
        const size_t most = max_links_of_user(user_sessions_);
        const std::scoped_lock lock(mutex_);
        size_t& count = counts_[user];
        if (count >= most) {
            return nullptr;
        }
        ++count;
        return std::make_unique<Place>(*this, user);
    }

  private:
    void leave(const std::string& user) {
        const std::scoped_lock lock(mutex_);
        if (const auto found = counts_.find(user); --found->second == 0) {
            counts_.erase(found);
        }
    }

    std::atomic<size_t> user_sessions_ = 0;
    std::mutex mutex_;
    std::map<std::string, size_t> counts_;
};

}  // namespace continuo::snapt::links
