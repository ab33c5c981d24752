// Part of verify: whether every booked usage record is in one charge.
#pragma once

#include "snapt/store/database.hpp"

#include <string>

namespace continuo::snapt::accounting {

// "12 records", or what is wrong with some of them and where it starts.
class Faults {
  public:
    void add(const std::string& where) {
        if (count_++ == 0) {
            first_ = where;
        }
    }
    bool has_any() const { return count_ > 0; }
    std::string text(const std::string& what, const std::string& good) const {
        return count_ == 0 ? good : std::to_string(count_) + " " + what + ", the first " + first_;
    }

  private:
    uint64_t count_ = 0;
    std::string first_;
};

// Ranges of records charged together do not overlap and end where `booked` says. They hold as many
// records as the charges, or fewer where old ones were removed; no record of an account lies
// between them.
base::Result<void> verify_charged_once(store::Database& database, Faults& faults);

}  // namespace continuo::snapt::accounting
