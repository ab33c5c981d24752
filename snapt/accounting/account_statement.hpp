// AccountStatement: usage and bookings of an account in a month of a time zone, between two
// balances. Its lines add up: opening, usage, discount and bookings give closing.
#pragma once

#include "snapt/ledger/charges.hpp"
#include "snapt/store/money.hpp"

#include <string>
#include <vector>

namespace continuo::snapt::accounting {

// Most bookings with their own line; further ones are given as a sum.
inline constexpr size_t kMaxStatementBookings = 1000;

struct StatementUsage {
    int64_t cls = 0;          // value of base::TrafficClass
    ledger::ChargeSums sums;  // as charged first
};

struct AccountStatement {
    store::Account account;
    std::string month;  // "2026-11"
    std::string zone;
    int64_t from_us = 0;
    int64_t to_us = 0;
    int64_t opening_ud = 0;
    std::vector<StatementUsage> usage;  // by class
    ledger::ChargeSums total;
    int64_t usage_ud = 0;                     // entries, below zero
    int64_t discount_ud = 0;                  // entries
    int64_t late_ud = 0;                      // usage booked in the month, late
    ledger::ChargeSums late;                  // late usage; in no row of `usage`
    int64_t rerated_ud = 0;                   // differences from re-rating
    std::vector<store::MoneyEntry> bookings;  // payments, corrections, refunds, rewards
    int64_t further_bookings = 0;             // beyond kMaxStatementBookings
    int64_t further_ud = 0;
    int64_t closing_ud = 0;
};

// `month` as "2026-11"; without `zone` the account's. InvalidConfig for an invalid month, NotFound
// for an unknown zone or account.
base::Result<AccountStatement> account_statement(store::Database& database,
                                                 int64_t account_id,
                                                 const std::string& month,
                                                 const std::string& zone);

}  // namespace continuo::snapt::accounting
