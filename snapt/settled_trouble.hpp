// SettledTrouble: faults that block packets of nodes, without short ones, such as a firewall being
// reloaded: a fault is reported to nodes, which then move new flows elsewhere. Pure.
#pragma once

#include <string>

namespace continuo::snapt {

// Consecutive checks, one a second, after which a fault counts, and after which it is over.
inline constexpr unsigned kLooksToBegin = 2;
inline constexpr unsigned kLooksToEnd = 3;

class SettledTrouble {
  public:
    // Takes the result of a check; empty: no fault. True when a fault begins or ends with it.
    bool note(const std::string& found) {
        const bool has_found = !found.empty();
        if (has_found == !text_.empty()) {
            looks_ = 0;
            text_ = found;  // the latest wording
            return false;
        }
        if (++looks_ < (has_found ? kLooksToBegin : kLooksToEnd)) {
            return false;
        }
        looks_ = 0;
        text_ = found;
        return true;
    }
    // At the start: the first check counts.
    void begin(const std::string& found) { text_ = found; }
    // Empty: there is none.
    const std::string& text() const { return text_; }

  private:
    std::string text_;
    unsigned looks_ = 0;  // consecutive, for the opposite state
};

}  // namespace continuo::snapt
