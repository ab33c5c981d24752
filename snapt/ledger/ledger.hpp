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
// When the wall clock is set, all that was counted before is sealed at the time that it would have
// shown; of a clock that is set again and again, only at the first steps of an interval. No record
// crosses a quarter of an hour.
#pragma once

#include "common/flow/accounting_record.hpp"
#include "common/host/clock_sync.hpp"
#include "snapt/ledger/disk_reserve.hpp"
#include "snapt/ledger/live_file.hpp"
#include "snapt/ledger/record_store.hpp"
#include "snapt/settings/destinations.hpp"
#include "snapt/store/account.hpp"
#include "snapt/store/database.hpp"
#include "snapt/store/folder_lock.hpp"

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace continuo::snapt::ledger {

inline constexpr const char* kLiveFileName = "live";
inline constexpr const char* kReserveFileName = "reserve";
// Enough for the records of some hundred thousand flows. A choice, not measured.
inline constexpr uint64_t kReserveBytes = uint64_t{32} << 20;
// Most application names per session; further ones are dropped.
inline constexpr size_t kMaxAppsPerSession = 256;
// Names that wait for the next pass; further ones must be sent again.
inline constexpr size_t kMaxPendingApps = 16384;
inline constexpr size_t kMaxAppNameBytes = 64;
// First id of merged images.
inline constexpr uint64_t kMergedFlowIdBase = kSharedFlowIdBase + (uint64_t{1} << 61);

std::optional<uint64_t> free_disk_bytes(const std::string& folder);

struct LedgerOptions {
    std::string state_directory;
    std::string snapt_id;
    std::string boot_id;        // empty: the kernel's
    uint32_t interval_s = 60;   // 1 to 900, divides 900
    uint32_t checkpoint_s = 5;  // between checkpoints; 0: there are none
    uint32_t live_slots = kDefaultLiveSlots;
    settings::Destinations destinations = settings::Destinations::None;
    // Most records of a user in an interval, beside one for each session and class; 0: any number.
    uint32_t user_records = 1000;
    bool is_aggregate = false;       // only merged records
    uint32_t user_slots = 0;         // as LiveFileOptions
    uint64_t min_free_bytes = 0;     // below this flows are merged; 0: never
    uint32_t price_permille = 1000;  // share of the plan's prices, for the records of this run
    // Disk space held back for when the disk is full; 0: none.
    uint64_t reserve_bytes = 0;
    // Free bytes of the disk that holds a folder; nothing: unknown.
    std::function<std::optional<uint64_t>(const std::string& folder)> free_bytes = free_disk_bytes;
    // Whether the wall clock is synchronised; asked until it is. Records before that, and those of
    // that interval, are marked.
    std::function<bool()> is_clock_synchronised{};  // empty: always
    // Asked at each tick. Empty: only a wall clock that goes back is noticed.
    std::function<std::optional<host::Clocks>()> clocks{};
};

struct SessionIdentity {
    flow::SessionKey session_id{};
    std::string user_id;
    int64_t account_id = store::kNoAccount;
    std::string cnapt_id;
    std::string sharer_id;
    int64_t opened_at_us = 0;
};
struct SessionOpening {
    uint32_t number = 0;  // unique in the epoch
    SessionIdentity identity;
};
// Bytes of a session outside its flows.
struct SessionOverhead {
    uint64_t tun_up = 0;
    uint64_t tun_down = 0;
};

// Steps of the wall clock in an interval at each of which all is sealed. A choice: about one in
// four seconds of a minute, more than anybody sets by hand, fewer than of a clock that jumps each
// second.
inline constexpr int64_t kMostSealedSteps = 16;
// Each open flow that has counted anything gets its own record.
inline constexpr int64_t kUserSealIntervalUs = 100'000;

// Upper ends of the buckets that durations of commits are counted in. A choice.
inline constexpr std::array kCommitBucketsS = {0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0};
struct CommitTimes {
    std::array<uint64_t, kCommitBucketsS.size()> within{};  // this long or shorter
    uint64_t count = 0;
    double sum_s = 0;
};
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
    ~Ledger();

    LiveFile& live() { return *live_; }
    store::Database& database() { return database_; }

    // Whether the database can be written: commits a test event.
    base::Result<void> probe_write(int64_t now_us);
    // Commits; traffic may flow when this has returned without error.
    base::Result<void> open_sessions(std::span<const SessionOpening> openings);
    // Release the session's flows first. Its row is removed after the last of them is sealed.
    void close_session(uint32_t number, const SessionOverhead& overhead, int64_t now_us);
    void name_app(uint32_t session_number, uint16_t tag, std::string_view name);

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
    struct Session {
        SessionIdentity identity;
        std::map<uint16_t, std::string> apps;
        bool is_closed = false;
        int64_t closed_at_us = 0;
        SessionOverhead overhead;
    };
    struct Sealed {
        flow::CounterValues values;
        int64_t until_us = 0;
    };
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
    using MergeKey = std::pair<uint32_t, uint8_t>;  // session number, class
    struct Statements;
    struct Sealing;

    Ledger(LedgerOptions options, store::Database database, store::FolderLock lock);
    base::Result<void> start(int64_t now_us);
    base::Result<void> recover(int64_t now_us);
    base::Result<void> recover_flows(int64_t now_us, int64_t epoch, int64_t& next_seq);
    base::Result<void> load_sessions();
    base::Result<std::unordered_map<uint64_t, Sealed>> load_sealed();

    bool is_of(const std::set<std::string>* users, uint32_t session_number) const;
    base::Result<size_t> seal(const Pass& pass);
    base::Result<size_t> try_seal(const Pass& pass);
    base::Result<void> commit(store::Transaction& transaction);
    base::Result<void> seal_slots(const Pass& pass, Sealing& sealing);
    base::Result<void> seal_slot(const Pass& pass, const SlotImage& image, Sealing& sealing);
    base::Result<int64_t> write_flow(const Pass& pass,
                                     const SlotImage& image,
                                     const flow::CounterValues& delta,
                                     const Sealed& base,
                                     Sealing& sealing);
    bool may_have_record(uint32_t session_number, Sealing& sealing) const;
    void merge(const SlotImage& image, const flow::CounterValues& delta, Sealing& sealing);
    // The images, or with `ends_merged` the records.
    base::Result<void> write_merged(const Pass& pass, Sealing& sealing);
    base::Result<void>
    write_merged_record(const Pass& pass, const SlotImage& image, Sealing& sealing);
    void take_merged(Sealing& sealing);
    void take_counted(const Sealing& sealing);
    void note_watched(const flow::UsageRecord& record, Sealing& sealing) const;
    void end_merged(flow::UsageRecord& record, const SlotImage& image, int64_t end_us) const;
    void look_at_disk(int64_t now_us);
    // After a failed write: true when another try is worthwhile.
    base::Result<void> write_probe(int64_t now_us);
    bool give_up_reserve(const base::Error& error, int64_t now_us);
    base::Result<void> write_openings(std::span<const SessionOpening> openings);
    static uint64_t sum_of(const flow::CounterValues& values);
    std::vector<SlotImage> unsaved_flows() const;
    base::Result<void> checkpoint(int64_t now_us);
    base::Result<void> save(std::span<const SlotImage> flows);
    base::Result<void> write_sessions(const Pass& pass, Sealing& sealing);
    base::Result<void> write_session_record(uint32_t number, const Session& session, int64_t epoch);
    base::Result<void> write_state(int64_t epoch, int64_t next_seq);
    flow::UsageRecord make_record(const SlotImage& image, const flow::CounterValues& delta) const;
    int64_t boundary_before(int64_t now_us) const;
    base::Result<size_t> follow_clock(int64_t& now_us);
    base::Result<size_t> seal_step(const Pass& pass, std::optional<int64_t> boot_us);
    base::Result<void> write_event(int64_t at_us, std::string_view kind, const std::string& detail);
    void look_at_clock() {
        is_unsynchronised_ = options_.is_clock_synchronised && !options_.is_clock_synchronised();
    }

    LedgerOptions options_;
    store::Database database_;
    store::FolderLock lock_;
    DiskReserve reserve_;
    std::unique_ptr<Statements> statements_;
    std::unique_ptr<LiveFile> live_;
    std::unordered_map<uint32_t, Session> sessions_;
    std::map<std::string, int64_t> sealed_for_us_;  // for whom lately
    std::unordered_map<uint64_t, Sealed> sealed_;   // by flow id; as committed
    std::unordered_map<uint64_t, uint64_t> saved_;  // sums of what open_flow has, by flow id
    int64_t checkpointed_at_us_ = 0;
    std::vector<uint64_t> freed_flows_;  // their rows are removed by the next commit
    std::map<std::pair<uint32_t, uint16_t>, std::string> pending_apps_;  // by session and tag
    std::map<MergeKey, SlotImage> merged_;  // as committed, of this interval
    uint64_t next_merged_id_ = kMergedFlowIdBase;
    std::unordered_map<std::string, uint32_t> records_of_;  // users, in this interval
    std::set<int64_t> watched_;                             // accounts
    std::vector<flow::UsageRecord> watched_records_;
    bool must_reload_ = false;  // after a failed commit only the database knows what is sealed
    int64_t last_tick_us_ = 0;
    std::optional<int64_t> clock_offset_us_{};     // wall clock less clock since boot
    std::optional<int64_t> first_step_boot_us_{};  // since when steps are counted
    int64_t sealed_steps_ = 0;
    bool has_unsealed_step_ = false;  // in this interval
    int64_t boundary_us_ = 0;
    bool is_unsynchronised_ = false;  // the wall clock, since the start
    ClassCounts ended_{};             // counted in slots that were freed
    mutable LedgerStatus status_;
};

}  // namespace continuo::snapt::ledger
