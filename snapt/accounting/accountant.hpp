// Accountant: the ledger with its thread, and the desk that answers questions about it. Data and
// control loops hand it commands through a bounded queue and never wait for the disk. Callbacks run
// on the ledger's thread, those of usage on the desk's. Counting itself needs no command: it
// happens in the slots.
#pragma once

#include "snapt/accounting/app_names.hpp"
#include "snapt/accounting/credit_watch.hpp"
#include "snapt/accounting/usage_desk.hpp"
#include "snapt/ledger/ledger.hpp"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <optional>
#include <thread>

namespace continuo::snapt::accounting {

// Most queued commands. A further one is refused and counted; the caller tries again later or
// refuses the session.
inline constexpr size_t kMaxLedgerCommands = 16'384;
// Sessions that share a commit: the first of them waits until the last is read. A choice.
inline constexpr size_t kMostOpenings = 64;
// The ledger's thread has a lower priority than data (nice(2)); logins wait for it.
inline constexpr int kAccountantNiceness = 5;

// Delay of the next write after a failed one, if nothing else writes. A choice, not measured.
inline constexpr int64_t kWriteProbeUs = 10'000'000;

class Accountant {
  public:
    using Committed = std::function<void(base::Result<uint32_t>)>;
    using UsageDone = UsageDesk::Done;

    static base::Result<std::unique_ptr<Accountant>>
    start(const ledger::LedgerOptions& options, int64_t now_us, uint32_t retention_days = 0);
    Accountant(const Accountant&) = delete;
    Accountant& operator=(const Accountant&) = delete;
    // Without stop() nothing more is sealed: the next start recovers it.
    ~Accountant();

    // Valid until destruction; destroy flow tables first.
    flow::SlotSource& slots() { return ledger_->live(); }
    int64_t epoch() const { return epoch_; }

    // Opens a session, whose number its flows' slots use. Traffic may flow once `committed` was
    // called with it. A meter, which has counted nothing, has its quota and credit by then, and is
    // watched; if they cannot be read, there is no session.
    std::optional<uint32_t> open_session(const ledger::SessionIdentity& identity,
                                         Committed committed,
                                         std::shared_ptr<UserMeter> meter = nullptr);
    bool close_session(uint32_t number, const ledger::SessionOverhead& overhead, int64_t now_us);
    // Takes the new entries of `names`, some time later.
    bool name_apps(uint32_t session_number, std::shared_ptr<AppNames> names);
    // Call each second. Replaces a tick that was not served yet.
    void tick(int64_t now_us);
    // Seals, then sums. False: too many questions wait.
    bool usage(const ledger::UsageQuery& query, int64_t now_us, UsageDone done);

    // A grant of credit is used up (UserMeter): looks at credits as soon as it can.
    void look_soon();
    // Called on the ledger's thread when credit has changed the state of a meter. Set it before
    // sessions are opened.
    void set_on_credit(std::function<void()> on_credit);

    // Waits until all earlier commands and ticks are done.
    void flush();
    // Serves the queue, seals everything and ends the thread. Nobody may count afterwards. Call
    // once.
    base::Result<size_t> stop(int64_t now_us, flow::Cause cause = flow::Cause::Admin);

    // Any thread. Result of a database write: an error, or nothing.
    void note_write(const std::optional<base::Error>& error);
    ledger::LedgerStatus status() const;
    uint64_t refused_commands() const { return refused_.load(std::memory_order_relaxed); }
    uint64_t pruned_records() const { return desk_->pruned_records(); }

  private:
    struct Opening {
        ledger::SessionOpening session;
        Committed committed;
        std::shared_ptr<UserMeter> meter;
    };
    struct Question {
        ledger::UsageQuery query;
        int64_t at_us = 0;
        UsageDone done;
    };
    struct Command {
        std::optional<Opening> opening;
        std::optional<Question> question;
        std::function<void(ledger::Ledger&)> action;
    };

    using Clock = std::chrono::steady_clock;

    Accountant(std::unique_ptr<ledger::Ledger> ledger, std::unique_ptr<UsageDesk> desk);
    bool push(Command command);
    void run();
    void serve(std::deque<Command> commands);
    void commit(std::vector<Opening>& openings);
    base::Result<void> prepare(const Opening& opening);
    void look_at_credits(int64_t now_us);
    std::optional<Clock::time_point> next_look(bool is_asked) const;
    void answer(const std::vector<Question>& questions);
    UsageDone priced(UsageDone done) const;
    void note(const base::Result<size_t>& sealed);
    void on_tick(int64_t now_us);
    void seal_for_quotas(int64_t now_us);
    void end_thread();

    std::unique_ptr<ledger::Ledger> ledger_;  // the thread's while it runs, but for live()
    std::unique_ptr<UsageDesk> desk_;
    int64_t epoch_;
    std::atomic<uint32_t> next_session_number_{1};
    std::atomic<uint64_t> refused_{0};
    bool was_failing_ = false;
    int64_t probed_at_us_ = 0;
    CreditWatch credits_;    // the thread's, as the four below
    bool must_tell_ = true;  // the next failure to read credits is logged
    Clock::time_point looked_at_{};
    Clock::time_point ticked_at_{};
    int64_t last_tick_us_ = 0;

    mutable std::mutex mutex_;  // guards what follows
    std::condition_variable wake_;
    std::deque<Command> commands_;
    std::optional<int64_t> tick_us_;
    std::vector<std::promise<void>*> waiting_;  // flush() calls
    bool is_ending_ = false;
    bool is_look_asked_ = false;
    std::function<void()> on_credit_;
    ledger::LedgerStatus status_;
    std::optional<base::Error> write_error_;  // the latest write's; nothing: it went well
    int64_t write_error_since_us_ = 0;

    std::thread thread_;
};

}  // namespace continuo::snapt::accounting
