// verify: searches the ledger database for what no run of snapt writes: gaps in the sequence of
// usage records, wrong digests, balances that are not the sum of their entries, charges that their
// records do not give, days whose sums are not those of their records and charges.
#pragma once

#include "snapt/store/database.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace continuo::snapt::accounting {

struct LedgerCheck {
    // "records", "sequence", "plans", "entries", "balances", "charges", "sums"
    std::string_view what;
    bool is_good = true;
    std::string found;
};

// In this order, each check once. Records and entries are of one snapshot.
base::Result<std::vector<LedgerCheck>> verify_ledger(store::Database& database);

}  // namespace continuo::snapt::accounting
