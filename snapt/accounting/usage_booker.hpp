// UsageBooker: makes charges of usage records, and entries of charges. Records of a quarter of an
// hour that is over are read and added up before others are locked out; then their charges,
// entries and the place up to where records are booked are written, some accounts a transaction. A
// crash, or another booker meanwhile, neither loses nor repeats anything.
#pragma once

#include "snapt/accounting/charges.hpp"

#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace continuo::snapt {

// No clock that is right shows an earlier time: 2026-01-01. What a host without a clock of its own
// shows until it has asked for the time is no time to book by.
inline constexpr int64_t kEarliestUs = 1'767'225'600'000'000;

struct BookLimits {
    size_t page = 5'000;  // records read at a time
    size_t bills = 100;   // accounts and quarters in a transaction
    // Accounts and quarters that are added up at a time. Beyond it, as after a long time without a
    // plan, some quarters have two charges of an account and class.
    size_t most_bills = 20'000;
    // Records read behind those that ended before `until_us`: such a one may still follow.
    size_t behind = 10'000;
};

// Records that ended later wait, unless their run of snapt is over: no others follow them.
inline constexpr int64_t kBookAll = std::numeric_limits<int64_t>::max();

struct Booked {
    size_t records = 0;
    size_t entries = 0;
    size_t faults = 0;  // charges that cost nothing because they cannot be booked
    bool has_written = false;
    bool has_more = false;  // step() again
};

class UsageBooker {
  public:
    // `database` must outlive it.
    explicit UsageBooker(Database& database, const BookLimits& limits = {})
        : database_(database), limits_(limits) {}
    // Reads some records, or writes some accounts in a transaction. InvalidState before
    // kEarliestUs. An account whose charge goes beyond the bounds of a balance, or whose plan
    // cannot be read, is charged nothing, which is in Charge::fault until it is rated again: others
    // go on.
    base::Result<Booked> step(int64_t now_us, int64_t until_us);
    // No plan was ever in use: nothing is charged. As of the last step.
    bool has_no_plan() const { return plans_.is_empty(); }

  private:
    // The row of `booked`: all up to `seq` are booked; with `until_seq`, those up to it of accounts
    // and quarters up to `done`, too.
    struct Cursor {
        int64_t epoch = std::numeric_limits<int64_t>::min();
        int64_t seq = -1;
        std::optional<int64_t> until_seq;
        std::pair<int64_t, int64_t> done{kNoAccount, 0};
        bool operator==(const Cursor&) const = default;
    };
    struct Bill {
        std::string user;
        int64_t last_us = 0;  // the last microsecond of its records
        std::map<int64_t, Charge> by_class;
        std::string fault;
    };
    // Records that are booked together: of one epoch, with numbers without a hole.
    struct Batch {
        std::string snapt_id;
        Cursor begin;  // as it was stored
        int64_t epoch = 0;
        int64_t first_seq = 0;
        int64_t read_seq = -1;
        int64_t last_seq = -1;
        size_t records = 0;
        bool is_complete = false;  // its epoch is over, or it was begun: no record waits
        std::vector<ChargedRecord> behind;
        std::map<std::pair<int64_t, int64_t>, Bill> bills;  // by account and quarter
    };

    base::Result<Cursor> stored_cursor(const std::string& snapt_id);
    base::Result<void> store_cursor(const std::string& snapt_id, const Cursor& cursor);
    base::Result<bool> begin_batch();  // false: there is nothing to book
    base::Result<void> read_page(int64_t now_us, int64_t until_us);
    base::Result<void> add_to_batch(const ChargedRecord& record);
    base::Result<bool> take(ChargedRecord record, int64_t now_us, int64_t until_us);
    base::Result<Booked> write_some(int64_t now_us);
    base::Result<void> write_bill(Bill& bill, int64_t now_us, EntryWriter& writer, Booked& booked);

    Database& database_;
    BookLimits limits_;
    PlanBook plans_;
    std::optional<Batch> batch_;
    bool is_read_ = false;  // the batch: it is to be written
    std::string after_;     // SNAPTs up to this name have nothing more
};

}  // namespace continuo::snapt
