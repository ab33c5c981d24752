// A part of verify: whether usage_sum is what the usage records and charges come to. Each is read
// once, in any order: what is kept is a number for each day, to which every value is added, times
// numbers of its place and of its column, and from which the sums are taken away. One wrong value
// always shows; that several hide each other takes a chance of one in 2^63, or intent.
#pragma once

#include "common/flow/accounting_record.hpp"
#include "snapt/accounting/database.hpp"

#include <array>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace continuo::snapt {

class SumsCheck {
  public:
    void add(const flow::UsageRecord& record);
    base::Result<void> add_charges(Database& database);
    base::Result<void> take_sums(Database& database);
    // UTC days whose sums are not the ones that were added, by time.
    std::vector<std::string> wrong_days() const;
    size_t days() const { return left_.size(); }

  private:
    using Values = std::array<int64_t, 13>;  // in the order of the columns
    // A row of usage_sum.
    struct Place {
        int64_t unit_s = 0;
        std::string_view user;
        int64_t account_id = 0;
        int64_t unit = 0;
        int64_t cls = 0;
        std::string_view snapt_id;
        std::string_view app;
    };
    // Of an account's quarter of an hour: to all four rows that have a part in it.
    void add_to_all(Place place, const Values& values);
    uint64_t& of(const Place& place);
    static uint64_t product(const Place& place, const Values& values);

    std::map<int64_t, uint64_t> left_;  // by day
};

}  // namespace continuo::snapt
