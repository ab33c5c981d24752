// Usage with its price under a plan, recomputed from the records; writes nothing.
#pragma once

#include "rating/rate.hpp"
#include "snapt/accounting/usage.hpp"

namespace continuo::snapt {

// Like query_usage(), with prices in each row: sums of the charges for its records.
base::Result<UsageReport> rate_usage(Database& database,
                                     const UsageQuery& query,
                                     const rating::Plan& plan,
                                     const UsageLimits& limits = {});

}  // namespace continuo::snapt
