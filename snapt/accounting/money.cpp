#include "snapt/accounting/money.hpp"

#include "snapt/accounting/user_store.hpp"

#include <algorithm>

#include <openssl/evp.h>

namespace continuo::snapt {
namespace {

using base::Errc;
using base::Error;
using base::Result;
using Digest = std::array<uint8_t, 32>;

constexpr std::array<std::string_view, 6> kKinds = {"usage",  "discount", "topup",
                                                    "adjust", "refund",   "reward"};
constexpr int64_t kUdPerDenarius = 1'000'000;
constexpr size_t kDecimals = 6;
constexpr const char* kEntryColumns =
    "SELECT entry_id,user_id,kind,amount_ud,ref,at,note,actor,sha FROM ledger ";

bool is_line(std::string_view text, size_t most_bytes) {
    return text.size() <= most_bytes && std::none_of(text.begin(), text.end(), [](char c) {
               return static_cast<unsigned char>(c) < ' ' || c == '\x7f';
           });
}

// Over the digest before and every field with its length, so that no two entries read alike.
Result<Digest> entry_digest(const Digest& before, const MoneyEntry& entry) {
    std::string text(before.begin(), before.end());
    for (const std::string& field :
         {std::to_string(entry.entry_id), entry.user_id, std::string(to_string(entry.kind)),
          std::to_string(entry.amount_ud), entry.ref, std::to_string(entry.at_us), entry.note,
          entry.actor}) {
        text += std::to_string(field.size()) + ":" + field;
    }
    Digest digest{};
    if (EVP_Digest(text.data(), text.size(), digest.data(), nullptr, EVP_sha256(), nullptr) != 1) {
        return Error{Errc::System, "SHA-256 is not available", 0};
    }
    return digest;
}

Result<MoneyEntry> entry_of(const Statement& row) {
    const auto kind = std::find(kKinds.begin(), kKinds.end(), row.text(2));
    if (kind == kKinds.end()) {
        return Error{Errc::Malformed, "ledger.db has an entry of an unknown kind", 0};
    }
    MoneyEntry entry;
    entry.entry_id = row.integer(0);
    entry.user_id = row.text(1);
    entry.kind = static_cast<EntryKind>(kind - kKinds.begin());
    entry.amount_ud = row.integer(3);
    entry.ref = row.text(4);
    entry.at_us = row.integer(5);
    entry.note = row.text(6);
    entry.actor = row.text(7);
    return entry;
}

Result<std::optional<MoneyEntry>> entry_with(Database& database, std::string_view ref) {
    Statement select =
        CTN_TRY(database.prepare((std::string(kEntryColumns) + "WHERE ref=?").c_str()));
    select.bind(1, ref);
    if (!CTN_TRY(select.step())) {
        return std::optional<MoneyEntry>();
    }
    return std::optional(CTN_TRY(entry_of(select)));
}

// The id and the digest of the entry that was booked last.
struct Last {
    int64_t entry_id = 0;
    Digest digest{};
};

Result<Last> last_entry(Database& database) {
    Statement select =
        CTN_TRY(database.prepare("SELECT entry_id,sha FROM ledger ORDER BY entry_id DESC LIMIT 1"));
    Last last;
    if (CTN_TRY(select.step())) {
        last.entry_id = select.integer(0);
        const base::ByteView sha = select.blob(1);
        std::copy_n(sha.begin(), std::min(sha.size(), last.digest.size()), last.digest.begin());
    }
    return last;
}

Result<void> check(Database& database, const MoneyEntry& wanted) {
    if (wanted.ref.empty() || !is_line(wanted.ref, kMaxRefBytes)) {
        return Error{Errc::InvalidConfig, "the reference has to have 1 to 64 bytes, in one line",
                     0};
    }
    if (!is_line(wanted.note, kMaxNoteBytes)) {
        return Error{Errc::InvalidConfig, "the note has at most 256 bytes, in one line", 0};
    }
    const int64_t balance_ud = CTN_TRY(balance_of(database, wanted.user_id)).balance_ud;
    const bool is_too_large = wanted.amount_ud > kMaxBalanceUd || wanted.amount_ud < -kMaxBalanceUd;
    if (is_too_large || balance_ud + wanted.amount_ud > kMaxBalanceUd ||
        balance_ud + wanted.amount_ud < -kMaxBalanceUd) {
        return Error{Errc::LimitReached, "no balance goes beyond 10^12 denarii", 0};
    }
    return {};
}

}  // namespace

std::string_view to_string(EntryKind kind) {
    return kKinds[static_cast<size_t>(kind)];
}

bool MoneyEntry::is_same_as(const MoneyEntry& other) const {
    return user_id == other.user_id && kind == other.kind && amount_ud == other.amount_ud &&
           ref == other.ref && note == other.note;
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
    const int64_t amount_ud = std::stoll(std::string(whole)) * kUdPerDenarius + std::stoll(padded);
    return amount_ud <= kMaxBalanceUd ? std::optional(amount_ud) : std::nullopt;
}

Result<BookedEntry> book(Database& database, const MoneyEntry& wanted) {
    Transaction transaction = CTN_TRY(Transaction::begin(database));
    CTN_TRY(check(database, wanted));
    if (const auto before = CTN_TRY(entry_with(database, wanted.ref))) {
        if (!before->is_same_as(wanted)) {
            return Error{Errc::InvalidState, "another entry has this reference already", 0};
        }
        return BookedEntry{*before, false};
    }
    const Last last = CTN_TRY(last_entry(database));
    MoneyEntry entry = wanted;
    entry.entry_id = last.entry_id + 1;
    const Digest digest = CTN_TRY(entry_digest(last.digest, entry));
    Statement insert = CTN_TRY(database.prepare(
        "INSERT INTO ledger(entry_id,user_id,kind,amount_ud,ref,at,note,actor,sha) "
        "VALUES(?,?,?,?,?,?,?,?,?)"));
    CTN_TRY(insert.bind(1, entry.entry_id)
                .bind(2, std::string_view(entry.user_id))
                .bind(3, to_string(entry.kind))
                .bind(4, entry.amount_ud)
                .bind(5, std::string_view(entry.ref))
                .bind(6, entry.at_us)
                .bind(7, std::string_view(entry.note))
                .bind(8, std::string_view(entry.actor))
                .bind(9, base::ByteView(digest))
                .run());
    CTN_TRY(transaction.commit());
    return BookedEntry{std::move(entry), true};
}

Result<Balance> balance_of(Database& database, const std::string& user_id) {
    Statement select = CTN_TRY(database.prepare("SELECT coalesce(sum(amount_ud),0),count(*),"
                                                "(SELECT count(*) FROM user WHERE user_id=?1) "
                                                "FROM ledger WHERE user_id=?1"));
    select.bind(1, std::string_view(user_id));
    if (!CTN_TRY(select.step())) {
        return Error{Errc::Malformed, "ledger.db is damaged", 0};
    }
    if (select.integer(1) == 0 && select.integer(2) == 0) {
        return Error{Errc::NotFound, "no such user", 0};
    }
    return Balance{user_id, select.integer(0), select.integer(1)};
}

Result<std::vector<Balance>> balances(Database& database) {
    Statement select = CTN_TRY(database.prepare(
        "SELECT u.user_id,coalesce(sum(l.amount_ud),0),count(l.user_id) FROM "
        "(SELECT user_id FROM user UNION SELECT user_id FROM ledger) u "
        "LEFT JOIN ledger l ON l.user_id=u.user_id GROUP BY u.user_id ORDER BY u.user_id"));
    std::vector<Balance> all;
    while (CTN_TRY(select.step())) {
        all.push_back({select.text(0), select.integer(1), select.integer(2)});
    }
    return all;
}

Result<void>
visit_entries(Database& database,
              const std::function<void(const MoneyEntry& entry, bool is_genuine)>& visit) {
    Statement select =
        CTN_TRY(database.prepare((std::string(kEntryColumns) + "ORDER BY entry_id").c_str()));
    Digest before{};
    while (CTN_TRY(select.step())) {
        const MoneyEntry entry = CTN_TRY(entry_of(select));
        const Digest wanted = CTN_TRY(entry_digest(before, entry));
        const base::ByteView stored = select.blob(8);
        visit(entry, std::equal(wanted.begin(), wanted.end(), stored.begin(), stored.end()));
        // The stored one, so that one changed entry is told once.
        before = {};
        std::copy_n(stored.begin(), std::min(stored.size(), before.size()), before.begin());
    }
    return {};
}

}  // namespace continuo::snapt
