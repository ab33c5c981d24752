// Recovery of what the last run of the process left, and the begin of the next epoch.
#pragma once

#include "snapt/ledger/ledger_store.hpp"

namespace continuo::snapt::ledger {

struct Recovered {
    int64_t epoch = 0;     // the next one
    uint64_t records = 0;  // written for the former one
};

// In one transaction. After a crash of the process the live file has all counts, after one of the
// machine the records and the last checkpoint.
base::Result<Recovered> recover(LedgerStore& store, const LedgerOptions& options, int64_t now_us);

}  // namespace continuo::snapt::ledger
