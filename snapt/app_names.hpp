// AppNames: what a session's application tags are called. Names come on the thread of links, the
// ledger takes those that it does not know yet, reports look them up. Any thread; a call holds its
// lock for one message at most.
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

namespace continuo::snapt {

// Names that a session may have; further ones are not kept.
inline constexpr size_t kMaxAppNames = 1024;

class AppNames {
  public:
    // True: the ledger is to be asked to take them. It is not, while it has not done so the last
    // time.
    bool add(std::span<const control::App> apps);
    // The ledger could not be asked.
    void on_refused();
    // Called by the ledger: names that are new since its last call.
    std::vector<std::pair<uint16_t, std::string>> take_new();

    std::optional<std::string> find(uint32_t tag) const;

  private:
    mutable std::mutex mutex_;
    std::map<uint16_t, std::string> names_;
    std::set<uint16_t> new_;  // tags
    bool is_asked_ = false;   // the ledger, to take them
};

}  // namespace continuo::snapt
