// Ledger: turns the cumulative counters of the live file into usage records, each exactly once,
// across restarts and crashes. One thread; blocks on the disk: never call it from a data loop (see
// Accountant). Time is UTC microseconds, passed as an argument.
//
// An epoch is one run of the process. Its records have seq 0, 1, 2, … without gaps. A record is the
// increase of a flow's counters since its last record. It is written together with the new sealed
// values, so that a crash before or after the commit neither loses nor repeats anything. A closed
// slot is released only after that commit.
//
// After a crash of the process the live file has all counts. After a crash of the machine the
// records and the last checkpoint have them: less than `checkpoint_s` and a commit are lost, and
// nothing is counted twice.
//
// The records of a user per interval are bounded. Further flows are merged by session and class
// into an image in open_flow without a slot, from which one record is made when the interval ends.
// All flows are merged so while the disk is nearly full.
//
// No record crosses a quarter of an hour.
#pragma once

#include "common/flow/accounting_record.hpp"
#include "snapt/ledger/ledger_clock.hpp"
#include "snapt/ledger/ledger_options.hpp"
#include "snapt/ledger/ledger_store.hpp"
#include "snapt/ledger/live_file.hpp"
#include "snapt/ledger/open_flows.hpp"
#include "snapt/ledger/open_sessions.hpp"

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace continuo::snapt::ledger {

// Each open flow that has counted anything gets its own record.
inline constexpr int64_t kUserSealIntervalUs = 100'000;

using ClassCounts = std::array<flow::CounterValues, base::kTrafficClasses>;  // by base::index_of

struct LedgerStatus {
    int64_t epoch = 0;
    int64_t next_seq = 0;
    uint64_t records = 0;            // written in this epoch
    uint64_t recovered_records = 0;  // written at the start, for the previous epoch
    uint64_t failed_seals = 0;
    uint64_t orphan_records = 0;  // their session was never opened
    int64_t last_commit_at_us = 0;
    uint64_t clock_steps = 0;  // times that the wall clock was set, in this epoch
    CommitTimes commits;
    ClassCounts counted{};   // by the slots of this epoch, until the latest tick
    int64_t charged_ud = 0;  // booked by this process, before discounts
    uint32_t live_slots = 0;
    uint32_t live_slots_in_use = 0;
    uint64_t shared_flows = 0;  // flows without a slot of their own
    uint64_t merged_flows = 0;  // merged counts; a flow may have several
    bool is_coarse = false;     // all flows are merged because the disk is nearly full
    std::optional<uint64_t> free_bytes{};
    std::optional<std::string> write_error{};  // the latest write's, if it failed
    int64_t write_error_since_us = 0;
    bool is_disk_full = false;    // the reason of write_error
    std::string booking_error{};  // why usage is not (completely) booked; empty: it is
};

class Ledger {
  public:
    // Opens or creates the database, recovers what the last run left, starts the next epoch and a
    // new live file. InvalidState when another process uses the folder.
    static base::Result<std::unique_ptr<Ledger>> open(const LedgerOptions& options, int64_t now_us);
    Ledger(const Ledger&) = delete;
    Ledger& operator=(const Ledger&) = delete;

    LiveFile& live() { return *live_; }
    store::Database& database() { return store_.database(); }

    // Whether the database can be written: commits a test event.
    base::Result<void> probe_write(int64_t now_us) { return store_.probe_write(now_us); }
    // Commits; traffic may flow when this has returned without error.
    base::Result<void> open_sessions(std::span<const SessionOpening> openings);
    // Release the session's flows first. Its row is removed after the last of them is sealed.
    void close_session(uint32_t number, const SessionOverhead& overhead, int64_t now_us) {
        sessions_.close(number, overhead, now_us);
    }
    void name_app(uint32_t session_number, uint16_t tag, std::string_view name) {
        sessions_.name_app(session_number, tag, name);
    }

    // Call each second. Seals every flow when a boundary has passed, otherwise the closed ones, and
    // writes a checkpoint of the others when due. Returns the number of records written.
    base::Result<size_t> tick(int64_t now_us);
    // Seals every flow up to now, so that a query sees all counts; or those of `users`, at most
    // every kUserSealIntervalUs. Merged flows are excluded: their records come when the interval
    // ends.
    base::Result<size_t> seal_now(int64_t now_us);
    base::Result<size_t> seal_for(const std::set<std::string>& users, int64_t now_us);
    // Payload of the account, both ways, merged in this interval.
    int64_t merged_payload(int64_t account_id) const;
    // From now on keeps a copy of each record of these accounts that is committed, until it is
    // taken. Their number is that of `user_records`: take them often.
    void watch(std::set<int64_t> accounts) { watched_ = std::move(accounts); }
    void watch_also(int64_t account) { watched_.insert(account); }
    std::vector<flow::UsageRecord> take_watched_records() {
        return std::exchange(watched_records_, {});
    }
    // Visits what the watched accounts have counted since their last records, as records that end
    // now. Stops at an error.
    base::Result<void>
    visit_unsealed(int64_t now_us,
                   const std::function<base::Result<void>(const flow::UsageRecord&)>& visit) const;
    // Last seal of all flows and sessions. Nobody may count afterwards.
    base::Result<size_t> stop(int64_t now_us, flow::Cause cause);

    LedgerStatus status() const;
    const LedgerOptions& options() const { return options_; }

  private:
    struct Pass {
        int64_t now_us = 0;
        int64_t end_us = 0;  // where the records of open flows end
        bool open_too = false;
        const std::set<std::string>* users = nullptr;  // open flows of theirs only; null: all
        bool is_final = false;
        flow::Cause cause = flow::Cause::Interval;
        uint32_t flags = 0;
        int64_t clock_step_us = 0;  // step by which the wall clock was set; 0: it was not
    };
    struct Sealing;

    Ledger(LedgerOptions options, store::Database database, store::FolderLock lock);
    base::Result<void> start(int64_t now_us);
    base::Result<size_t> follow_clock(int64_t& now_us);
    base::Result<size_t> seal(const Pass& pass);
    base::Result<size_t> try_seal(const Pass& pass);
    base::Result<void> seal_slots(const Pass& pass, Sealing& sealing);
    base::Result<void> seal_slot(const Pass& pass, const SlotImage& image, Sealing& sealing);
    base::Result<int64_t> write_flow(const Pass& pass,
                                     const SlotImage& image,
                                     const flow::CounterValues& delta,
                                     Sealing& sealing);
    base::Result<void> write_merged(const Pass& pass, Sealing& sealing);
    void end_merged(flow::UsageRecord& record, const SlotImage& image, int64_t end_us) const;
    base::Result<void>
    add_record(flow::UsageRecord& record, uint32_t session_number, Sealing& sealing);
    void take(Sealing& sealing);

    LedgerOptions options_;
    LedgerStore store_;
    LedgerClock clock_;
    OpenSessions sessions_;
    SealedFlows sealed_;
    MergedFlows merged_;
    std::unique_ptr<LiveFile> live_;
    bool must_reload_ = false;  // after a failed commit only the database knows what is sealed
    std::map<std::string, int64_t> sealed_for_us_;  // for whom lately
    std::set<int64_t> watched_;                     // accounts
    std::vector<flow::UsageRecord> watched_records_;
    ClassCounts ended_{};  // counted in slots that were freed
    LedgerStatus status_;
};

}  // namespace continuo::snapt::ledger
