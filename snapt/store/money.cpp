#include "snapt/store/money.hpp"

#include "snapt/store/user_store.hpp"

#include <algorithm>

#include <openssl/evp.h>

namespace continuo::snapt::store {
namespace {

using base::Errc;
using base::Error;
using base::Result;
using Digest = std::array<uint8_t, 32>;

constexpr std::array<std::string_view, 6> kKinds = {"usage",  "discount", "topup",
                                                    "adjust", "refund",   "reward"};
constexpr int64_t kUdPerDenarius = 1'000'000;
constexpr size_t kDecimals = 6;

// The query for entries; `rest` is its condition and order.
std::string select_entries(std::string_view rest) {
    std::string sql =
        "SELECT entry_id,account_id,user_id,kind,amount_ud,ref,at,note,actor,sha FROM ledger ";
    sql += rest;
    return sql;
}

bool is_line(std::string_view text, size_t most_bytes) {
    return text.size() <= most_bytes && std::none_of(text.begin(), text.end(), [](char c) {
               return static_cast<unsigned char>(c) < ' ' || c == '\x7f';
           });
}

// Digest over the previous one and every field with its length, so that no two entries give the
// same text.
Result<Digest> entry_digest(const Digest& before, const MoneyEntry& entry) {
    std::string text(before.begin(), before.end());
    for (const std::string& field :
         {std::to_string(entry.entry_id), std::to_string(entry.account_id), entry.user_id,
          std::string(to_string(entry.kind)), std::to_string(entry.amount_ud), entry.ref,
          std::to_string(entry.at_us), entry.note, entry.actor}) {
        text += std::to_string(field.size()) + ":" + field;
    }
    Digest digest{};
    if (EVP_Digest(text.data(), text.size(), digest.data(), nullptr, EVP_sha256(), nullptr) != 1) {
        return Error{Errc::System, "SHA-256 is not available", 0};
    }
    return digest;
}

Result<MoneyEntry> entry_of(const Statement& row) {
    const auto kind = std::find(kKinds.begin(), kKinds.end(), row.text(3));
    if (kind == kKinds.end()) {
        return Error{Errc::Malformed, "ledger.db has an entry of an unknown kind", 0};
    }
    MoneyEntry entry;
    entry.entry_id = row.integer(0);
    entry.account_id = row.integer(1);
    entry.user_id = row.text(2);
    entry.kind = static_cast<EntryKind>(kind - kKinds.begin());
    entry.amount_ud = row.integer(4);
    entry.ref = row.text(5);
    entry.at_us = row.integer(6);
    entry.note = row.text(7);
    entry.actor = row.text(8);
    return entry;
}

Result<std::optional<MoneyEntry>> entry_with(Database& database, std::string_view ref) {
    Statement select = CTN_TRY(database.prepare(select_entries("WHERE ref=?").c_str()));
    select.bind(1, ref);
    if (!CTN_TRY(select.step())) {
        return std::optional<MoneyEntry>();
    }
    return std::optional(CTN_TRY(entry_of(select)));
}

Result<void> check_texts(const MoneyEntry& wanted) {
    if (wanted.ref.empty() || !is_line(wanted.ref, kMaxRefBytes)) {
        return Error{Errc::InvalidConfig, "the reference has to have 1 to 64 bytes, in one line",
                     0};
    }
    if (!is_line(wanted.note, kMaxNoteBytes)) {
        return Error{Errc::InvalidConfig, "the note has at most 256 bytes, in one line", 0};
    }
    return {};
}

Result<void> check_amount(int64_t balance_ud, int64_t amount_ud) {
    const bool is_too_large = amount_ud > kMaxBalanceUd || amount_ud < -kMaxBalanceUd;
    if (is_too_large || balance_ud + amount_ud > kMaxBalanceUd ||
        balance_ud + amount_ud < -kMaxBalanceUd) {
        return Error{Errc::LimitReached, "no balance goes beyond 10^12 denarii", 0};
    }
    return {};
}

// The account meant: the named one, which must have had the name, otherwise the current user's.
Result<int64_t> account_meant(Database& database, const MoneyEntry& wanted) {
    Statement select = CTN_TRY(database.prepare(
        wanted.account_id == kNoAccount
            ? "SELECT account_id FROM user WHERE user_id=?1"
            : "SELECT account_id FROM account WHERE user_id=?1 AND account_id=?2"));
    select.bind(1, std::string_view(wanted.user_id));
    if (wanted.account_id != kNoAccount) {
        select.bind(2, wanted.account_id);
    }
    if (!CTN_TRY(select.step())) {
        return wanted.account_id == kNoAccount
                   ? Error{Errc::NotFound, "no such user", 0}
                   : Error{Errc::NotFound, "no such account of this user", 0};
    }
    return select.integer(0);
}

Result<void> insert_entry(Database& database, const MoneyEntry& entry, const Digest& digest) {
    Statement insert = CTN_TRY(database.prepare(
        "INSERT INTO ledger(entry_id,account_id,user_id,kind,amount_ud,ref,at,note,actor,sha) "
        "VALUES(?,?,?,?,?,?,?,?,?,?)"));
    return insert.bind(1, entry.entry_id)
        .bind(2, entry.account_id)
        .bind(3, std::string_view(entry.user_id))
        .bind(4, to_string(entry.kind))
        .bind(5, entry.amount_ud)
        .bind(6, std::string_view(entry.ref))
        .bind(7, entry.at_us)
        .bind(8, std::string_view(entry.note))
        .bind(9, std::string_view(entry.actor))
        .bind(10, base::ByteView(digest))
        .run();
}

// The query for balances; `where` is the condition on the account.
std::string select_balances(std::string_view where) {
    std::string sql =
        "SELECT a.account_id,a.user_id,a.removed,coalesce(b.balance_ud,0),coalesce(b.entries,0) "
        "FROM account a LEFT JOIN balance b ON b.account_id=a.account_id WHERE ";
    sql += where;
    return sql;
}

Balance balance_in(const Statement& row) {
    Balance balance;
    balance.account = {row.integer(0), row.text(1)};
    if (!row.is_null(2)) {
        balance.removed_us = row.integer(2);
    }
    balance.balance_ud = row.integer(3);
    balance.entries = row.integer(4);
    return balance;
}

}  // namespace

std::string_view to_string(EntryKind kind) {
    return kKinds[static_cast<size_t>(kind)];
}

bool MoneyEntry::is_same_as(const MoneyEntry& other) const {
    const bool is_same_account = account_id == kNoAccount || other.account_id == kNoAccount ||
                                 account_id == other.account_id;
    return is_same_account && user_id == other.user_id && kind == other.kind &&
           amount_ud == other.amount_ud && ref == other.ref && note == other.note;
}

std::optional<int64_t> parse_denarii(std::string_view text) {
    constexpr size_t kMostDigits = 13;
    const size_t point = std::min(text.find('.'), text.size());
    const std::string_view whole = text.substr(0, point);
    const std::string_view rest = point == text.size() ? "" : text.substr(point + 1);
    const auto are_digits = [](std::string_view digits) {
        return std::all_of(digits.begin(), digits.end(),
                           [](char c) { return c >= '0' && c <= '9'; });
    };
    if (whole.empty() || whole.size() > kMostDigits || rest.size() > kDecimals ||
        (point != text.size() && rest.empty()) || !are_digits(whole) || !are_digits(rest)) {
        return std::nullopt;
    }
    const std::string padded = std::string(rest) + std::string(kDecimals - rest.size(), '0');
    const int64_t denarii = std::stoll(std::string(whole));
    if (denarii > kMaxBalanceUd / kUdPerDenarius) {
        return std::nullopt;
    }
    const int64_t amount_ud = denarii * kUdPerDenarius + std::stoll(padded);
    return amount_ud <= kMaxBalanceUd ? std::optional(amount_ud) : std::nullopt;
}

Result<EntryWriter> EntryWriter::begin(Database& database) {
    EntryWriter writer(database);
    Statement select =
        CTN_TRY(database.prepare("SELECT entry_id,sha FROM ledger ORDER BY entry_id DESC LIMIT 1"));
    if (CTN_TRY(select.step())) {
        writer.last_id_ = select.integer(0);
        const base::ByteView sha = select.blob(1);
        std::copy_n(sha.begin(), std::min(sha.size(), writer.last_digest_.size()),
                    writer.last_digest_.begin());
    }
    return writer;
}

Result<int64_t> EntryWriter::add(const MoneyEntry& wanted) {
    auto balance = balances_.find(wanted.account_id);
    if (balance == balances_.end()) {
        const int64_t sum_ud = CTN_TRY(balance_of(database_, wanted.account_id)).balance_ud;
        balance = balances_.emplace(wanted.account_id, sum_ud).first;
    }
    CTN_TRY(check_amount(balance->second, wanted.amount_ud));
    MoneyEntry entry = wanted;
    entry.entry_id = last_id_ + 1;
    const Digest digest = CTN_TRY(entry_digest(last_digest_, entry));
    CTN_TRY(insert_entry(database_, entry, digest));
    last_id_ = entry.entry_id;
    last_digest_ = digest;
    balance->second += entry.amount_ud;
    return last_id_;
}

Result<BookedEntry> book(Database& database, const MoneyEntry& wanted) {
    CTN_TRY(check_texts(wanted));
    Transaction transaction = CTN_TRY(Transaction::begin(database));
    const auto before = CTN_TRY(entry_with(database, wanted.ref));
    MoneyEntry entry = wanted;
    const auto account_id = account_meant(database, wanted);
    if (account_id) {
        entry.account_id = *account_id;
    } else if (!before || account_id.error().code != Errc::NotFound) {
        return account_id.error();  // a user removed since has the name of its bookings
    }
    if (before) {
        if (!before->is_same_as(entry)) {
            return Error{Errc::InvalidState, "another entry has this reference already", 0};
        }
        return BookedEntry{*before, false};
    }
    EntryWriter writer = CTN_TRY(EntryWriter::begin(database));
    entry.entry_id = CTN_TRY(writer.add(entry));
    CTN_TRY(transaction.commit());
    return BookedEntry{std::move(entry), true};
}

Result<Balance> balance_of(Database& database, int64_t account_id) {
    Statement select = CTN_TRY(database.prepare(select_balances("a.account_id=?1").c_str()));
    if (!CTN_TRY(select.bind(1, account_id).step())) {
        return Error{Errc::NotFound, "no such account", 0};
    }
    return balance_in(select);
}

Result<std::vector<Balance>> balances(Database& database, const std::optional<std::string>& user) {
    std::string sql = select_balances(user ? "a.user_id=?1" : "?1 IS NULL");
    sql += " AND (a.removed IS NULL OR b.entries>0) ORDER BY a.user_id,a.account_id";
    Statement select = CTN_TRY(database.prepare(sql.c_str()));
    select.bind(1, user);
    std::vector<Balance> all;
    while (CTN_TRY(select.step())) {
        all.push_back(balance_in(select));
    }
    return all;
}

Result<void>
visit_entries(Database& database,
              const std::function<void(const MoneyEntry& entry, bool is_genuine)>& visit) {
    Statement select = CTN_TRY(database.prepare(select_entries("ORDER BY entry_id").c_str()));
    Digest before{};
    while (CTN_TRY(select.step())) {
        const MoneyEntry entry = CTN_TRY(entry_of(select));
        const Digest wanted = CTN_TRY(entry_digest(before, entry));
        const base::ByteView stored = select.blob(9);
        visit(entry, std::equal(wanted.begin(), wanted.end(), stored.begin(), stored.end()));
        // Uses the stored digest, so that one changed entry is reported once.
        before = {};
        std::copy_n(stored.begin(), std::min(stored.size(), before.size()), before.begin());
    }
    return {};
}

Result<void> visit_entries_of(Database& database,
                              int64_t account_id,
                              const std::function<void(MoneyEntry entry)>& visit) {
    Statement select =
        CTN_TRY(database.prepare(select_entries("WHERE account_id=? ORDER BY entry_id").c_str()));
    select.bind(1, account_id);
    while (CTN_TRY(select.step())) {
        visit(CTN_TRY(entry_of(select)));
    }
    return {};
}

}  // namespace continuo::snapt::store
