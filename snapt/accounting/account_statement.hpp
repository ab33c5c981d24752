// AccountStatement: what an account used and what was booked for it in a month of a time zone, from
// the balance before to the one after. Its lines add up: opening, usage, discount and bookings give
// closing.
#pragma once

#include "snapt/accounting/charges.hpp"
#include "snapt/accounting/money.hpp"

#include <string>
#include <vector>

namespace continuo::snapt {

// Bookings that have a line of their own; the sum of further ones is told.
inline constexpr size_t kMaxStatementBookings = 1000;

struct StatementUsage {
    int64_t cls = 0;  // value of base::TrafficClass
    ChargeSums sums;  // as charged first
};

struct AccountStatement {
    Account account;
    std::string month;  // "2026-11"
    std::string zone;
    int64_t from_us = 0;
    int64_t to_us = 0;
    int64_t opening_ud = 0;
    std::vector<StatementUsage> usage;  // by class
    ChargeSums total;
    int64_t usage_ud = 0;              // entries, below zero
    int64_t discount_ud = 0;           // entries
    int64_t late_ud = 0;               // usage that was booked in the month, late
    ChargeSums late;                   // of it; in no row of `usage`
    int64_t rerated_ud = 0;            // differences since usage was rated again
    std::vector<MoneyEntry> bookings;  // payments, corrections, refunds, rewards
    int64_t further_bookings = 0;      // beyond kMaxStatementBookings
    int64_t further_ud = 0;
    int64_t closing_ud = 0;
};

// `month` as "2026-11"; without `zone` that of the account. InvalidConfig for what is none,
// NotFound for an unknown zone or account.
base::Result<AccountStatement> account_statement(Database& database,
                                                 int64_t account_id,
                                                 const std::string& month,
                                                 const std::string& zone);

}  // namespace continuo::snapt
