// UsageDesk: answers questions for usage, books usage, and removes old records, on its own thread
// and connections, so that logins do not wait. Quotas are checked on another thread, which waits
// for no question.
#pragma once

#include "snapt/accounting/quota_watch.hpp"
#include "snapt/accounting/usage_booker.hpp"
#include "snapt/ledger/usage.hpp"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace continuo::snapt::accounting {

// Most waiting or running questions: of all users together, of one, and of the operator.
inline constexpr size_t kMaxUsageQuestions = 64;
inline constexpr size_t kMaxUserQuestions = 2;
inline constexpr size_t kMaxOperatorQuestions = 16;
inline constexpr std::string_view kTooManyQuestions = "too many questions wait; ask again later";
// Limit of the time for an answer. The command waits for 30 s.
inline constexpr std::chrono::seconds kUserAnswerTime{2};
inline constexpr std::chrono::seconds kOperatorAnswerTime{20};
// A user whose question took some time waits this many times as long before its next one. So one
// user takes at most a quarter of the thread (calculated: 1 of 1 + 3).
inline constexpr int kUserPause = 3;
// The thread has a lower priority than data. A choice, not measured.
inline constexpr int kUsageDeskNiceness = 10;

// Records are removed at this interval, in transactions of this many, between which others write.
inline constexpr int64_t kPruneIntervalUs = 3'600'000'000;
inline constexpr size_t kPruneBatch = 500;

// Usage is booked when a quarter of an hour is over and its records are sealed; after a failure it
// is tried again after this.
inline constexpr int64_t kBookDelayUs = 10'000'000;
inline constexpr int64_t kBookAgainUs = 60'000'000;

// Interval of checks of accounts: a change, the end of a period, a payment.
inline constexpr int64_t kQuotaLookUs = 2'000'000;

// Removes records that ended before `before_us`, at most `limit`; returns how many. Keeps those
// still to be booked, or to be re-rated because of a Charge::fault.
base::Result<size_t> prune_records(store::Database& database, int64_t before_us, size_t limit);
// Removes sessions that ended and events that happened before `before_us` and before any record
// that is left, `limit` of each at most; gives whether there may be more.
base::Result<bool> prune_history(store::Database& database, int64_t before_us, size_t limit);

class UsageDesk {
  public:
    using Done = std::function<void(base::Result<ledger::UsageReport>)>;

    // The ledger at `path` must exist. 0 days: records are kept for ever.
    static base::Result<std::unique_ptr<UsageDesk>> start(const std::string& path,
                                                          uint32_t retention_days);
    UsageDesk(const UsageDesk&) = delete;
    UsageDesk& operator=(const UsageDesk&) = delete;
    // Waiting questions get no answer.
    ~UsageDesk();

    // Any thread. `done` runs on the desk's. False: too many wait.
    bool may_ask(const ledger::UsageQuery& query) const;
    bool ask(const ledger::UsageQuery& query, Done done);
    // Call each second. Usage is booked from the first call on. Records are removed from an hour
    // after the start, or after the wall clock was set by more than a day, so that a wrong clock is
    // noticed first.
    void tick(int64_t now_us);

    // Any thread. The user's quota acts on the meter until nobody else holds it.
    void watch(NewMeter meter);
    // Meters whose users' records must be sealed now: each once, and again after each quarter of an
    // hour. on_sealed() follows.
    std::vector<std::shared_ptr<UserMeter>> take_to_seal(int64_t now_us);
    void on_sealed(std::vector<SealedMeter> sealed);

    uint64_t booked_records() const { return booked_.load(std::memory_order_relaxed); }
    // Sum of all charges so far, before discounts.
    int64_t charged_ud() const { return charged_ud_.load(std::memory_order_relaxed); }
    // Why usage is not booked, or some is not charged; empty: no fault.
    std::string booking_trouble() const;
    uint64_t pruned_records() const { return pruned_.load(std::memory_order_relaxed); }

  private:
    struct Question {
        ledger::UsageQuery query;
        Done done;
    };

    UsageDesk(store::Database reader,
              store::Database writer,
              store::Database quota_reader,
              uint32_t retention_days);
    bool has_room_for(const ledger::UsageQuery& query) const;  // locked
    void run();
    void run_quotas();
    using Time = std::chrono::steady_clock::time_point;
    // Locked. Null: none may be answered yet.
    std::optional<Question> take_due_question();
    Time wake_at() const;
    // These functions release the lock while they work.
    void answer(const Question& question, std::unique_lock<std::mutex>& lock);
    void work_batch(std::unique_lock<std::mutex>& lock);
    // Returns true if there is more to remove or to book.
    bool prune(int64_t before_us);
    base::Result<bool> prune_batch(int64_t before_us);
    bool book(int64_t now_us);
    void look_at_quotas(std::unique_lock<std::mutex>& lock);
    void note_trouble(const std::string& trouble, bool has_failed, int64_t now_us);
    bool has_work() const { return prune_before_us_ || book_at_us_; }  // locked
    void note_prune_time(int64_t now_us);                              // locked

    store::Database reader_;  // the thread's, as the other one
    store::Database writer_;
    uint32_t retention_days_;
    UsageBooker booker_;            // the thread's, with writer_
    store::Database quota_reader_;  // the other thread's, as the two below
    QuotaWatch quotas_;
    bool must_tell_ = true;  // the next failure to read quotas is logged
    std::atomic<uint64_t> booked_{0};
    std::atomic<int64_t> charged_ud_{0};
    std::atomic<uint64_t> pruned_{0};
    std::atomic<bool> is_ending_{false};

    mutable std::mutex mutex_;  // guards what follows
    std::condition_variable wake_;
    std::condition_variable wake_quotas_;
    std::deque<Question> questions_;
    std::optional<ledger::UsageQuery> asked_;  // being answered
    int64_t last_tick_us_ = 0;
    int64_t prune_at_us_ = 0;
    std::map<std::optional<std::string>, Time> paused_until_;  // users that have asked lately
    std::optional<int64_t> prune_before_us_;                   // there is something to remove
    int64_t booked_quarter_ = -1;
    std::optional<int64_t> book_at_us_;    // there may be something to book
    std::optional<int64_t> failed_at_us_;  // booking did
    std::string booking_trouble_;
    std::optional<int64_t> look_at_us_;  // quotas are to be looked at
    int64_t looked_at_us_ = 0;
    bool has_meters_ = false;
    std::vector<NewMeter> new_meters_;
    std::vector<SealedMeter> sealed_;
    std::vector<std::shared_ptr<UserMeter>> to_seal_;  // for the first time
    std::vector<std::shared_ptr<UserMeter>> with_quota_;
    int64_t sealed_quarter_ = 0;
    Time next_batch_at_{};

    std::thread thread_;
    std::thread quota_thread_;
};

}  // namespace continuo::snapt::accounting
