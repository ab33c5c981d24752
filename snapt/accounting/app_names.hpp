// AppNames: names of a session's application tags. Names arrive on the thread of links, the ledger
// takes new ones, reports look them up. Any thread; the lock is held for at most one message.
#pragma once

#include "common/control/message.hpp"

#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace continuo::snapt::accounting {

// Most names of a session; further ones are dropped.
inline constexpr size_t kMaxAppNames = 1024;

class AppNames {
  public:
    // True: ask the ledger to take the new names. False while it has not done so the last time.
    bool add(std::span<const control::App> apps);
    // The ledger could not be asked.
    void on_refused();
    // For the ledger: names added since its last call.
    std::vector<std::pair<uint16_t, std::string>> take_new();

    std::optional<std::string> find(uint32_t tag) const;

  private:
    mutable std::mutex mutex_;
    std::map<uint16_t, std::string> names_;
    std::set<uint16_t> new_;  // tags
    bool is_asked_ = false;   // the ledger, to take them
};

}  // namespace continuo::snapt::accounting
