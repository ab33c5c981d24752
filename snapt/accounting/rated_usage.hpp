// Usage with its price under a plan, recomputed from the records; writes nothing.
#pragma once

#include "rating/rate.hpp"
#include "snapt/ledger/usage.hpp"

namespace continuo::snapt::accounting {

// Like query_usage(), with prices in each row: sums of the charges for its records.
base::Result<ledger::UsageReport> rate_usage(store::Database& database,
                                             const ledger::UsageQuery& query,
                                             const rating::Plan& plan,
                                             const ledger::UsageLimits& limits = {});

}  // namespace continuo::snapt::accounting
