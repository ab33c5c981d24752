// A part of verify: whether every usage record that is booked is in one charge.
#pragma once

#include "snapt/accounting/database.hpp"

#include <string>

namespace continuo::snapt {

// "12 records", or what is wrong with some of them and where it begins.
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

// Numbers of records that were charged together overlap with no others and end where `booked` says.
// They have so many records as the charges, or fewer where old ones were removed; no record of an
// account is between them.
base::Result<void> verify_charged_once(Database& database, Faults& faults);

}  // namespace continuo::snapt
