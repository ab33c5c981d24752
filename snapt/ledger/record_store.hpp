// RecordStore: writes usage records and their sums into the ledger. Records are never changed; each
// carries a SHA-256 over its fields.
#pragma once

#include "common/flow/accounting_record.hpp"
#include "snapt/ledger/record_sums.hpp"
#include "snapt/ledger/usage.hpp"
#include "snapt/store/database.hpp"

#include <array>
#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace continuo::snapt::ledger {

using RecordDigest = std::array<uint8_t, 32>;

// The fields in the order of UsageRecord, joined by '|': integers decimal, session_id in lower-case
// hex, unknown values empty; account_id only with record_flag::kHasAccount; undelivered only where
// known; tun_up and tun_down likewise. The sinks and `verify` hash the same text.
std::string canonical_text(const flow::UsageRecord& record);
base::Result<RecordDigest> digest_of(const flow::UsageRecord& record);

class RecordStore {
  public:
    RecordStore() = default;  // useless until assigned
    // `database` must outlive it.
    static base::Result<RecordStore> open(store::Database& database);
    // Writes the record and adds it to `sums`, which have to be written before the transaction is
    // committed.
    base::Result<void> insert(const flow::UsageRecord& record, RecordSums& sums);
    base::Result<void> write(const RecordSums& sums) { return sums.write(add_sum_); }
    // Writes the record with its sums.
    base::Result<void> insert(const flow::UsageRecord& record);

  private:
    RecordStore(store::Statement insert, store::Statement add_sum)
        : insert_(std::move(insert)), add_sum_(std::move(add_sum)) {}
    store::Statement insert_;
    store::Statement add_sum_;
};

// All records of an epoch in the order of seq, with their digests checked (Malformed when one
// differs).
base::Result<std::vector<flow::UsageRecord>> read_records(store::Database& database, int64_t epoch);

// All records in the order of their keys, and whether each digest is right.
base::Result<void>
visit_records(store::Database& database,
              const std::function<void(const flow::UsageRecord& record, bool is_genuine)>& visit);

// A position in the order of record keys; by default before the first.
struct RecordPlace {
    std::string snapt_id;
    int64_t epoch = std::numeric_limits<int64_t>::min();
    int64_t seq = 0;
};

// Records of a query after `after`, at most `limit`, in the order of their keys, until `visit`
// returns false. Reads them in batches before visiting, so that the database's log is not blocked.
inline constexpr size_t kRecordPage = 2'000;
base::Result<void>
visit_records_of(store::Database& database,
                 const UsageQuery& query,
                 size_t limit,
                 const std::function<bool(const flow::UsageRecord& record)>& visit,
                 const RecordPlace& after = {});

}  // namespace continuo::snapt::ledger
