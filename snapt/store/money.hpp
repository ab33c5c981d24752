// Money: bookings of accounts, as entries that are only added; a balance is their sum, which the
// database maintains. Amounts are in micro-denarii (ud), positive in the user's favour. Each entry
// carries a SHA-256 over itself and the previous one, so that any change, or any removal except of
// the last ones, is detected.
#pragma once

#include "snapt/store/account.hpp"
#include "snapt/store/database.hpp"

#include <array>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace continuo::snapt::store {

// Length limits of a reference and a note, one line each.
inline constexpr size_t kMaxRefBytes = 64;
inline constexpr size_t kMaxNoteBytes = 256;
// Bound of every entry and balance, in both directions: 10^12 denarii.
inline constexpr int64_t kMaxBalanceUd = 1'000'000'000'000'000'000;

enum class EntryKind : uint8_t { Usage, Discount, Topup, Adjust, Refund, Reward };
std::string_view to_string(EntryKind kind);

struct MoneyEntry {
    int64_t entry_id = 0;  // 1, 2, 3, … without gaps; set by book()
    int64_t account_id = kNoAccount;
    std::string user_id;  // the account's name then
    EntryKind kind = EntryKind::Adjust;
    int64_t amount_ud = 0;
    std::string ref;  // unique; chosen by whoever books
    int64_t at_us = 0;
    std::string note;
    std::string actor;  // who booked it

    // Whether both say the same, whenever and by whomever booked; an entry without account matches
    // any.
    bool is_same_as(const MoneyEntry& other) const;
};

// "50", "0.25", "12.345678"; nothing for an invalid, negative or too large amount (kMaxBalanceUd),
// or one finer than a micro-denarius.
std::optional<int64_t> parse_denarii(std::string_view text);

// Adds entries in the caller's transaction; the caller checks references and notes.
class EntryWriter {
  public:
    static base::Result<EntryWriter> begin(Database& database);
    // Returns the entry_id. Nothing is added on LimitReached (beyond kMaxBalanceUd) or NotFound (no
    // account).
    base::Result<int64_t> add(const MoneyEntry& wanted);

  private:
    explicit EntryWriter(Database& database) : database_(database) {}
    Database& database_;
    int64_t last_id_ = 0;
    std::array<uint8_t, 32> last_digest_{};
    std::map<int64_t, int64_t> balances_;  // accounts with new entries
};

struct BookedEntry {
    MoneyEntry entry;
    bool is_new = false;  // false: it was already booked, and is not booked again
};

// Commits. Without an account in `wanted` the current user's is used. NotFound when there is none;
// InvalidState when another entry has the reference; InvalidConfig for an invalid reference or
// note; LimitReached beyond kMaxBalanceUd.
base::Result<BookedEntry> book(Database& database, const MoneyEntry& wanted);

struct Balance {
    Account account;
    std::optional<int64_t> removed_us;  // empty: it exists
    int64_t balance_ud = 0;
    int64_t entries = 0;
};

// Zero for an account without entries. NotFound when there is no such account.
base::Result<Balance> balance_of(Database& database, int64_t account_id);
// Balances of all accounts that have a user or entries, by name and age; with `user` only those of
// that name.
base::Result<std::vector<Balance>> balances(Database& database,
                                            const std::optional<std::string>& user = {});

// All entries in order, and whether each digest is right.
base::Result<void>
visit_entries(Database& database,
              const std::function<void(const MoneyEntry& entry, bool is_genuine)>& visit);

// Entries of an account, in order; digests are not checked.
base::Result<void> visit_entries_of(Database& database,
                                    int64_t account_id,
                                    const std::function<void(MoneyEntry entry)>& visit);

}  // namespace continuo::snapt::store
