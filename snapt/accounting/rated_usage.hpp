// Usage with its price under a plan, computed anew from the records: nothing is written.
#pragma once

#include "rating/rate.hpp"
#include "snapt/accounting/usage.hpp"

namespace continuo::snapt {

// As query_usage(), with the prices of each row filled in: sums of the charges for its records.
base::Result<UsageReport> rate_usage(Database& database,
                                     const UsageQuery& query,
                                     const rating::Plan& plan,
                                     const UsageLimits& limits = {});

}  // namespace continuo::snapt
