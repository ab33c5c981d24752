// RestBooks: answers of the REST interface from the ledger's database: records, balances,
// statements, quotas, bookings. Blocking; belongs to one thread.
#pragma once

#include "snapt/ledger/usage.hpp"
#include "snapt/rest/api.hpp"
#include "snapt/store/database.hpp"

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace continuo::snapt {

// Limits of the time for an answer: to users about themselves, and to others.
inline constexpr std::chrono::seconds kSelfBooksTime{2};
inline constexpr std::chrono::seconds kBooksTime{20};
// Default number of records in an answer.
inline constexpr size_t kMaxRestRecords = 10'000;
inline constexpr size_t kRestRecords = 1'000;

// A database error as an answer. Details for the log only go there.
rest::Outcome outcome_of(const base::Error& error);

// Parameters of usage and records. Nothing, with the reason in `failure`, when one is wrong.
std::optional<ledger::UsageQuery> rest_usage_query(const rest::Call& call, std::string& failure);

class RestBooks {
  public:
    explicit RestBooks(std::string ledger_path) : path_(std::move(ledger_path)) {}

    // Whether the account of a token of scope Self is still its user's.
    base::Result<bool> is_there(const rest::Token& token);
    // Records, Accounts, Balance, Statement, Quota, SetQuota, Topup, Adjust.
    rest::Outcome answer(const rest::Call& call, int64_t now_us);
    // Any thread: aborts the current answer, and all later ones.
    void end() { is_ending_ = true; }

  private:
    base::Result<store::Database*> reader();
    base::Result<std::string> ask(const rest::Call& call, int64_t now_us, std::string& type);
    base::Result<std::string>
    records(store::Database& database, const rest::Call& call, std::string& type);
    base::Result<std::string>
    statement(store::Database& database, const rest::Call& call, std::string& type);
    base::Result<std::string>
    quota(store::Database& database, const rest::Call& call, int64_t now_us);
    rest::Outcome set_quota_of(const rest::Call& call, int64_t now_us);
    rest::Outcome book_for(const rest::Call& call, int64_t now_us);

    std::string path_;
    std::optional<store::Database> reader_;
    std::atomic<bool> is_ending_{false};
};

}  // namespace continuo::snapt
