// Money: what was booked for accounts, as entries that are only ever added; a balance is their sum,
// which the database keeps as entries are added.
// Amounts are in micro-denarii (ud), positive where the user gains. Each entry carries a SHA-256
// over itself and the one before, so that a change, or a removal but of the last ones, is noticed.
#pragma once

#include "snapt/accounting/account.hpp"
#include "snapt/accounting/database.hpp"

#include <array>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace continuo::snapt {

// Limits of a reference and of a note, which are one line each.
inline constexpr size_t kMaxRefBytes = 64;
inline constexpr size_t kMaxNoteBytes = 256;
// No entry and no balance goes beyond, up or down: 10^12 denarii.
inline constexpr int64_t kMaxBalanceUd = 1'000'000'000'000'000'000;

enum class EntryKind : uint8_t { Usage, Discount, Topup, Adjust, Refund, Reward };
std::string_view to_string(EntryKind kind);

struct MoneyEntry {
    int64_t entry_id = 0;  // 1, 2, 3, … without holes; book() gives it
    int64_t account_id = kNoAccount;
    std::string user_id;  // the name that the account had
    EntryKind kind = EntryKind::Adjust;
    int64_t amount_ud = 0;
    std::string ref;  // of whoever books it, no other entry has it
    int64_t at_us = 0;
    std::string note;
    std::string actor;  // who booked it

    // Whether it says the same, whenever and by whomever it was booked; without an account in one
    // of them, of any.
    bool is_same_as(const MoneyEntry& other) const;
};

// "50", "0.25", "12.345678"; nothing for what is none, below zero, finer than a micro-denarius or
// beyond kMaxBalanceUd.
std::optional<int64_t> parse_denarii(std::string_view text);

// Adds entries in a transaction of the caller's, which checks references and notes.
class EntryWriter {
  public:
    static base::Result<EntryWriter> begin(Database& database);
    // Gives its entry_id. LimitReached beyond kMaxBalanceUd, as in NotFound without an account
    // nothing is added.
    base::Result<int64_t> add(const MoneyEntry& wanted);

  private:
    explicit EntryWriter(Database& database) : database_(database) {}
    Database& database_;
    int64_t last_id_ = 0;
    std::array<uint8_t, 32> last_digest_{};
    std::map<int64_t, int64_t> balances_;  // of accounts that have got entries
};

struct BookedEntry {
    MoneyEntry entry;
    bool is_new = false;  // false: it was booked before, and is not booked again
};

// Commits. Without an account in `wanted` it is the user's that is there. NotFound when there is
// none; InvalidState when another entry has the reference; InvalidConfig for a reference or note
// that is none; LimitReached beyond kMaxBalanceUd.
base::Result<BookedEntry> book(Database& database, const MoneyEntry& wanted);

struct Balance {
    Account account;
    std::optional<int64_t> removed_us;  // empty: it is there
    int64_t balance_ud = 0;
    int64_t entries = 0;
};

// Zero for an account without entries. NotFound when there is no such account.
base::Result<Balance> balance_of(Database& database, int64_t account_id);
// Balances of all accounts that are a user's or have entries, by name and age; with `user` only of
// accounts of that name.
base::Result<std::vector<Balance>> balances(Database& database,
                                            const std::optional<std::string>& user = {});

// All entries in their order, each with whether its digest is right.
base::Result<void>
visit_entries(Database& database,
              const std::function<void(const MoneyEntry& entry, bool is_genuine)>& visit);

// Those of an account, in their order; digests are not looked at.
base::Result<void> visit_entries_of(Database& database,
                                    int64_t account_id,
                                    const std::function<void(MoneyEntry entry)>& visit);

}  // namespace continuo::snapt
