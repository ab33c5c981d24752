// Quotas and credits of users, and how much of them is used: payload of the current period, in the
// account's zone, and balances.
#pragma once

#include "snapt/store/account.hpp"
#include "snapt/store/database.hpp"
#include "snapt/store/user_store.hpp"

#include <optional>
#include <string>
#include <vector>

namespace continuo::snapt::accounting {

// Slowest rate of Exhaustion: enough for DNS and mail.
inline constexpr uint64_t kLeastThrottle = 8'000;
inline constexpr uint64_t kMostThrottle = 1'000'000'000'000;

// "notify", "stop" or "throttle=1mbit".
std::optional<store::Exhaustion> parse_exhaustion(std::string_view text);
std::string to_string(const store::Exhaustion& exhaustion);
inline constexpr std::string_view kExhaustionForm =
    "notify, stop or throttle=RATE, such as throttle=1mbit";

// Quota and credit of an account.
struct AccountTerms {
    store::Account account;
    std::optional<store::Quota> quota;
    std::string zone;
    int64_t from_us = 0;   // start of the quota's period
    int64_t until_us = 0;  // its end
    std::optional<int64_t> credit_limit_ud;
    int64_t balance_ud = 0;
    store::Exhaustion then;
};
// Accounts of users with a quota or a credit, by name; with `user` only that user's.
base::Result<std::vector<AccountTerms>>
account_terms(store::Database& database, const std::optional<std::string>& user, int64_t now_us);
// Where the records of a seal end: later ones of the same run do not belong to it.
struct SealEnd {
    int64_t epoch = -1;
    int64_t next_seq = 0;
};
// Payload of the account's records that ended after `from_us`; with `until` only up to that seal.
base::Result<int64_t> used_since(store::Database& database,
                                 const store::Account& account,
                                 int64_t from_us,
                                 const SealEnd& until = {});

// The same, of all records, from the sums that are kept beside them: quick, however many there are.
base::Result<int64_t>
used_by_sums(store::Database& database, const store::Account& account, int64_t from_us);

struct QuotaUse {
    AccountTerms terms;
    int64_t used_bytes = 0;  // 0 without a quota
};

// Users with a quota or a credit, by name; with `user` only that one. Excludes counts since the
// last records.
base::Result<std::vector<QuotaUse>>
quota_uses(store::Database& database, const std::optional<std::string>& user, int64_t now_us);

// A change of an account's terms: missing fields stay.
struct TermsChange {
    std::optional<std::optional<store::Quota>> quota;  // nothing inside: no quota from now on
    std::optional<std::optional<int64_t>> credit_limit_ud;
    std::optional<std::string> zone;
    std::optional<store::Exhaustion> then;
};
// Commits. NotFound: no such user or zone; InvalidConfig: invalid quota or credit.
base::Result<void>
change_terms(store::Database& database, const std::string& user, const TermsChange& change);

}  // namespace continuo::snapt::accounting
