// UsageBooker: makes charges from usage records, and entries from charges. Records of a finished
// quarter of an hour are read and added up without a lock; then their charges, entries and the
// position of booking are written, some accounts per transaction. Neither a crash nor another
// booker loses or repeats anything.
#pragma once

#include "snapt/ledger/charges.hpp"

#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace continuo::snapt::accounting {

// 2026-01-01: no right clock shows an earlier time. Nothing is booked by the time of a host without
// its own clock that has not asked for the time yet.
inline constexpr int64_t kEarliestUs = 1'767'225'600'000'000;

struct BookLimits {
    size_t page = 5'000;  // records read at a time
    size_t bills = 100;   // accounts and quarters in a transaction
    // Accounts and quarters added up at a time. Beyond it, as after a long time without a plan,
    // some quarters get two charges for an account and class.
    size_t most_bills = 20'000;
    // Records read after those that ended before `until_us`: another such one may follow.
    size_t behind = 10'000;
};

// Records that ended later wait, unless their run of snapt is over: no others follow them.
inline constexpr int64_t kBookAll = std::numeric_limits<int64_t>::max();

struct Booked {
    size_t records = 0;
    size_t entries = 0;
    size_t faults = 0;     // charges of zero because they cannot be booked
    int64_t gross_ud = 0;  // sum of the charges
    bool has_written = false;
    bool has_more = false;  // call step() again
};

class UsageBooker {
  public:
    // `database` must outlive it.
    explicit UsageBooker(store::Database& database, const BookLimits& limits = {})
        : database_(database), limits_(limits) {}
    // Reads some records, or writes some accounts in a transaction. InvalidState before
    // kEarliestUs. An account whose charge exceeds the bounds of a balance, or whose plan cannot be
    // read, is charged nothing; Charge::fault says so until it is re-rated. Other accounts are
    // unaffected.
    base::Result<Booked> step(int64_t now_us, int64_t until_us);
    // As of the last step: no plan was ever in use, and nothing is charged.
    bool has_no_plan() const { return plans_.is_empty(); }

  private:
    // The row of `booked`: all records up to `seq` are booked; with `until_seq`, also those up to
    // it of accounts and quarters up to `done`.
    struct Cursor {
        int64_t epoch = std::numeric_limits<int64_t>::min();
        int64_t seq = -1;
        std::optional<int64_t> until_seq;
        std::pair<int64_t, int64_t> done{store::kNoAccount, 0};
        bool operator==(const Cursor&) const = default;
    };
    struct Bill {
        std::string user;
        int64_t last_us = 0;  // the last microsecond of its records
        std::map<int64_t, ledger::Charge> by_class;
        std::string fault;
    };
    // Records booked together: of one epoch, numbered without gaps.
    struct Batch {
        std::string snapt_id;
        Cursor begin;  // as it was stored
        int64_t epoch = 0;
        int64_t first_seq = 0;
        int64_t read_seq = -1;
        int64_t last_seq = -1;
        size_t records = 0;
        bool is_complete = false;  // its epoch is over, or booking had begun: no record waits
        std::vector<ledger::ChargedRecord> behind;
        std::map<std::pair<int64_t, int64_t>, Bill> bills;  // by account and quarter
    };

    base::Result<Cursor> stored_cursor(const std::string& snapt_id);
    base::Result<void> store_cursor(const std::string& snapt_id, const Cursor& cursor);
    base::Result<bool> begin_batch();  // false: there is nothing to book
    base::Result<void> read_page(int64_t now_us, int64_t until_us);
    base::Result<void> add_to_batch(const ledger::ChargedRecord& record);
    base::Result<bool> take(ledger::ChargedRecord record, int64_t now_us, int64_t until_us);
    base::Result<Booked> write_some(int64_t now_us);
    base::Result<void>
    write_bill(Bill& bill, int64_t now_us, store::EntryWriter& writer, Booked& booked);

    store::Database& database_;
    BookLimits limits_;
    store::PlanBook plans_;
    std::optional<Batch> batch_;
    bool is_read_ = false;  // the batch is to be written
    std::string after_;     // SNAPTs up to this name have nothing more
};

}  // namespace continuo::snapt::accounting
