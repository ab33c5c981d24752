// verify: looks through all of the ledger database for what no run of snapt writes: holes in the
// sequence of usage records, digests that do not fit, balances that are no sum of entries, charges
// that their records do not make, sums for reports that differ from both.
#pragma once

#include "snapt/accounting/database.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace continuo::snapt {

struct LedgerCheck {
    // "records", "sequence", "plans", "entries", "balances", "charges", "sums"
    std::string_view what;
    bool is_good = true;
    std::string found;
};

// In this order, each check once. Records and entries are of one snapshot.
base::Result<std::vector<LedgerCheck>> verify_ledger(Database& database);

}  // namespace continuo::snapt
