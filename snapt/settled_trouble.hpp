// SettledTrouble: what keeps packets of nodes from passing, without what lasts for a moment only,
// such as a firewall that is loaded again: nodes are told, and move their new flows. Pure.
#pragma once

#include <string>

namespace continuo::snapt {

// Looks in a row, one a second, after which a trouble counts, and after which it is over.
inline constexpr unsigned kLooksToBegin = 2;
inline constexpr unsigned kLooksToEnd = 3;

class SettledTrouble {
  public:
    // Takes the result of a look; empty: no trouble. True when a trouble begins or ends by it.
    bool note(const std::string& found) {
        const bool has_found = !found.empty();
        if (has_found == !text_.empty()) {
            looks_ = 0;
            text_ = found;  // its newest form
            return false;
        }
        if (++looks_ < (has_found ? kLooksToBegin : kLooksToEnd)) {
            return false;
        }
        looks_ = 0;
        text_ = found;
        return true;
    }
    // At the start: that of the first look counts.
    void begin(const std::string& found) { text_ = found; }
    // Empty: there is none.
    const std::string& text() const { return text_; }

  private:
    std::string text_;
    unsigned looks_ = 0;  // in a row that speak for the opposite
};

}  // namespace continuo::snapt
