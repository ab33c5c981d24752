// A part of verify: whether usage_sum is what the usage records and charges come to. Each is read
// once, in any order: what is kept is a number for each day, to which every value is added, times
// numbers of its place and of its column, and from which the sums are taken away. One wrong value
// always shows; that several hide each other takes a chance of one in 2^63, or intent.
#pragma once

#include "common/flow/accounting_record.hpp"
#include "snapt/ledger/record_sums.hpp"
#include "snapt/store/database.hpp"

#include <map>
#include <string>
#include <vector>

namespace continuo::snapt::accounting {

class SumsCheck {
  public:
    void add(const flow::UsageRecord& record);
    base::Result<void> add_charges(store::Database& database);
    base::Result<void> take_sums(store::Database& database);
    // UTC days whose sums are not the ones that were added, by time.
    std::vector<std::string> wrong_days() const;
    size_t days() const { return left_.size(); }

  private:
    // To all four rows in which the quarter of an hour of an account has a part.
    void add_to_all(const ledger::SumPlace& quarter, const ledger::SumValues& values);
    uint64_t& of(const ledger::SumPlace& place);
    static uint64_t product(const ledger::SumPlace& place, const ledger::SumValues& values);

    std::map<int64_t, uint64_t> left_;  // by day
};

}  // namespace continuo::snapt::accounting
