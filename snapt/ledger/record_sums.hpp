// RecordSums: the part of usage records in usage_sum (usage_sums.hpp). The records of a transaction
// are added up in memory, and each row of the table is changed once, before the commit: many
// records have few rows in common. Memory: at most two rows for each record of the transaction,
// which a seal has as many of as there are live slots.
#pragma once

#include "common/flow/accounting_record.hpp"
#include "snapt/store/database.hpp"

#include <array>
#include <compare>
#include <map>
#include <string>

namespace continuo::snapt::ledger {

inline constexpr int64_t kSumQuarterS = 900;
inline constexpr int64_t kSumDayS = 86'400;

// The key of a row, in its order.
struct SumPlace {
    int64_t unit_s = kSumQuarterS;
    std::string user;
    int64_t account_id = 0;
    int64_t unit = 0;
    int64_t cls = 0;
    std::string snapt_id;
    std::string app;
    auto operator<=>(const SumPlace&) const = default;
};
// The other columns, in their order.
using SumValues = std::array<int64_t, 13>;

// The row of the account and its quarter of an hour.
SumPlace sum_place(const flow::UsageRecord& record);
SumValues sum_values(const flow::UsageRecord& record);
// The row of its day, and that of all accounts together.
SumPlace of_day(SumPlace quarter);
SumPlace of_all_accounts(SumPlace place);

class RecordSums {
  public:
    // A sum beyond 64 bits stays at the limit.
    void add(const flow::UsageRecord& record);
    // Adds them to the table, in the order of its keys.
    base::Result<void> write(store::Statement& add_sum) const;
    // The statement for that.
    static base::Result<store::Statement> add_sum(store::Database& database);

  private:
    using Sums = std::map<SumPlace, SumValues>;
    static base::Result<void> write(const Sums& sums, store::Statement& add_sum);

    Sums quarters_;
};

}  // namespace continuo::snapt::ledger
