// The rows of open_flow. SealedFlows: what of each flow's counters is in records, and a checkpoint
// of the rest: the live file survives a crash of the process, but not of the machine. MergedFlows:
// flows that share a record, because their user has used up its records of the interval or the disk
// is nearly full.
//
// Both change in a transaction through a Change, which take() applies after the commit.
#pragma once

#include "snapt/ledger/ledger_store.hpp"
#include "snapt/ledger/live_file.hpp"

#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace continuo::snapt::ledger {

// First id of merged images.
inline constexpr uint64_t kMergedFlowIdBase = kSharedFlowIdBase + (uint64_t{1} << 61);

// Sums, and the greater delay_us_max.
void add_counters(flow::CounterValues& sum, const flow::CounterValues& delta);

struct SealedFlow {
    flow::CounterValues values;
    int64_t until_us = 0;
};

class SealedFlows {
  public:
    struct Change {
        std::unordered_map<uint64_t, SealedFlow> sealed;
        std::vector<uint64_t> freed;  // closed; their rows are removed by the next commit
    };

    // Both must outlive it.
    SealedFlows(LedgerStore& store, const LedgerOptions& options)
        : store_(store), options_(options) {}
    base::Result<void> prepare(int64_t now_us);
    // Replaces what is known of the sealed values.
    base::Result<void> load();
    base::Result<std::vector<SlotImage>> load_checkpoints();

    const SealedFlow* find(uint64_t flow_id) const;  // null: nothing is sealed
    // Counted by the flow since.
    flow::CounterValues unsealed(const SlotImage& image) const;
    // After the wall clock was set.
    void continue_from(int64_t now_us);

    base::Result<void> delete_freed();
    bool has_freed() const { return !freed_.empty(); }
    base::Result<void>
    write(const SlotImage& image, int64_t until_us, bool is_over, Change& change);
    void take(Change& change);

    // When due, commits open flows that have counted anything since they were last sealed or saved.
    // Returns whether there were any.
    base::Result<bool> checkpoint(const LiveFile& live, int64_t now_us);

  private:
    std::vector<SlotImage> unsaved(const LiveFile& live) const;
    base::Result<void> save(const std::vector<SlotImage>& flows);

    LedgerStore& store_;
    const LedgerOptions& options_;
    std::unordered_map<uint64_t, SealedFlow> sealed_;  // by flow id; as committed
    std::unordered_map<uint64_t, uint64_t> saved_;     // sums of the counters of checkpoints
    std::vector<uint64_t> freed_;
    int64_t saved_at_us_ = 0;
    store::Statement select_;
    store::Statement upsert_;
    store::Statement upsert_checkpoint_;
    store::Statement delete_;
};

class MergedFlows {
  public:
    using Key = std::pair<uint32_t, uint8_t>;  // session number, class
    using Images = std::map<Key, SlotImage>;
    struct Change {
        Images images;                                         // changed ones
        bool is_end = false;                                   // their records were written
        std::unordered_map<std::string, uint32_t> records_of;  // new values of changed users
        uint64_t flows = 0;
    };

    // Both must outlive it.
    MergedFlows(LedgerStore& store, const LedgerOptions& options)
        : store_(store), options_(options) {}
    base::Result<void> prepare();
    base::Result<void> load();

    const Images& images() const { return images_; }  // as committed, of this interval
    uint64_t flows() const { return flows_; }         // counts that were merged
    // Users have their number of records again.
    void begin_interval() { records_of_.clear(); }

    // Whether a flow of the user may have another record of its own, which is then counted.
    bool may_have_record(const std::string& user, Change& change) const;
    void add(const SlotImage& image,
             const flow::CounterValues& delta,
             int64_t boundary_us,
             Change& change);
    // The images stay, and their sessions have flows.
    base::Result<void> write(const Change& change, std::unordered_set<uint32_t>& with_flows);
    // `record` is called for each image, which is then gone.
    base::Result<void> end(Change& change,
                           const std::function<base::Result<void>(const SlotImage&)>& record);
    void take(const Change& change);

  private:
    LedgerStore& store_;
    const LedgerOptions& options_;
    Images images_;
    uint64_t next_id_ = kMergedFlowIdBase;
    uint64_t flows_ = 0;
    std::unordered_map<std::string, uint32_t> records_of_;  // users, in this interval
    store::Statement select_;
    store::Statement upsert_;
    store::Statement delete_;
};

}  // namespace continuo::snapt::ledger
