#include "snapt/accounting/account_statement.hpp"

#include "common/config/units.hpp"
#include "snapt/store/time_zone.hpp"

#include <map>

namespace continuo::snapt::accounting {
namespace {

using base::Errc;
using base::Error;
using base::Result;
using ledger::ChargeSums;
using store::Database;
using store::Statement;

constexpr Error kNoMonth{Errc::InvalidConfig, "expected a month, such as 2026-11", 0};

// The previous month; it exists for every month with a four-digit year.
Result<std::string> month_after(const std::string& month) {
    constexpr size_t kYearDigits = 4;
    constexpr size_t kMonthBytes = 7;
    constexpr uint64_t kMaxYear = 9999;
    constexpr uint64_t kMonths = 12;
    if (month.size() != kMonthBytes || month[kYearDigits] != '-') {
        return kNoMonth;
    }
    const auto year = config::parse_unsigned(month.substr(0, kYearDigits), kMaxYear);
    const auto number = config::parse_unsigned(month.substr(kYearDigits + 1), kMonths);
    if (!year || *year < 1970 || !number || *number == 0) {
        return kNoMonth;
    }
    const bool is_last = *number == kMonths;
    const uint64_t next = is_last ? 1 : *number + 1;
    return std::to_string(*year + (is_last ? 1 : 0)) + (next < 10 ? "-0" : "-") +
           std::to_string(next);
}

Result<std::string> account_zone(Database& database, int64_t account_id) {
    Statement select = CTN_TRY(database.prepare("SELECT zone FROM account WHERE account_id=?"));
    return CTN_TRY(select.bind(1, account_id).step()) ? select.text(0) : std::string("UTC");
}

Result<void> take_span(AccountStatement& statement) {
    const store::TimeZone zone = CTN_TRY(store::TimeZone::load(statement.zone));
    const auto from_us = zone.parse_time_us(statement.month);
    const auto to_us = zone.parse_time_us(CTN_TRY(month_after(statement.month)));
    if (!from_us || !to_us) {
        return kNoMonth;
    }
    statement.from_us = *from_us;
    statement.to_us = *to_us;
    return {};
}

// Charges made in the month itself: late and re-rated usage is listed separately.
Result<void> take_usage(Database& database, AccountStatement& statement) {
    Statement select = CTN_TRY(database.prepare(
        "SELECT c.cls,sum(c.records),sum(c.pay_up),sum(c.pay_down),sum(c.pre),sum(c.post),"
        "sum(c.gross_ud),sum(c.discount_ud) FROM charge c LEFT JOIN ledger e USING(entry_id) "
        "WHERE c.account_id=?1 AND c.quarter>=?2 AND c.quarter<?3 AND c.replaces IS NULL AND "
        "coalesce(e.kind,'usage')='usage' GROUP BY c.cls ORDER BY c.cls"));
    select.bind(1, statement.account.id)
        .bind(2, statement.from_us / ledger::kQuarterUs)
        .bind(3, statement.to_us / ledger::kQuarterUs);
    while (CTN_TRY(select.step())) {
        StatementUsage usage;
        usage.cls = select.integer(0);
        int column = 1;
        for (int64_t ChargeSums::*member :
             {&ChargeSums::records, &ChargeSums::pay_up, &ChargeSums::pay_down, &ChargeSums::pre,
              &ChargeSums::post, &ChargeSums::gross_ud, &ChargeSums::discount_ud}) {
            usage.sums.*member = select.integer(column++);
            statement.total.*member += usage.sums.*member;
        }
        statement.usage.push_back(usage);
    }
    return {};
}

// Corrections of charges, and whether they come from re-rating.
using ChargeEntries = std::map<int64_t, bool>;

Result<ChargeEntries> take_late(Database& database, AccountStatement& statement) {
    Statement select = CTN_TRY(database.prepare(
        "SELECT e.entry_id,c.replaces IS NOT NULL,e.at,c.records,c.pay_up,c.pay_down,c.pre,c.post,"
        "c.gross_ud,c.discount_ud FROM charge c JOIN ledger e USING(entry_id) "
        "WHERE c.account_id=?1 AND e.kind='adjust'"));
    select.bind(1, statement.account.id);
    ChargeEntries entries;
    while (CTN_TRY(select.step())) {
        const bool is_rerated = select.integer(1) != 0;
        entries[select.integer(0)] = is_rerated;
        if (is_rerated || select.integer(2) < statement.from_us ||
            select.integer(2) >= statement.to_us) {
            continue;
        }
        int column = 3;
        for (int64_t ChargeSums::*member :
             {&ChargeSums::records, &ChargeSums::pay_up, &ChargeSums::pay_down, &ChargeSums::pre,
              &ChargeSums::post, &ChargeSums::gross_ud, &ChargeSums::discount_ud}) {
            statement.late.*member += select.integer(column++);
        }
    }
    return entries;
}

void take_entry(AccountStatement& statement,
                const ChargeEntries& of_charges,
                store::MoneyEntry entry) {
    const auto of_charge = of_charges.find(entry.entry_id);
    if (entry.kind == store::EntryKind::Usage) {
        statement.usage_ud += entry.amount_ud;
    } else if (entry.kind == store::EntryKind::Discount) {
        statement.discount_ud += entry.amount_ud;
    } else if (of_charge != of_charges.end()) {
        (of_charge->second ? statement.rerated_ud : statement.late_ud) += entry.amount_ud;
    } else if (statement.bookings.size() < kMaxStatementBookings) {
        statement.bookings.push_back(std::move(entry));
    } else {
        ++statement.further_bookings;
        statement.further_ud += entry.amount_ud;
    }
}

Result<void> take_entries(Database& database, AccountStatement& statement) {
    const ChargeEntries of_charges = CTN_TRY(take_late(database, statement));
    CTN_TRY(store::visit_entries_of(database, statement.account.id, [&](store::MoneyEntry entry) {
        statement.closing_ud += entry.at_us < statement.to_us ? entry.amount_ud : 0;
        if (entry.at_us < statement.from_us) {
            statement.opening_ud += entry.amount_ud;
        } else if (entry.at_us < statement.to_us) {
            take_entry(statement, of_charges, std::move(entry));
        }
    }));
    return {};
}

}  // namespace

Result<AccountStatement> account_statement(Database& database,
                                           int64_t account_id,
                                           const std::string& month,
                                           const std::string& zone) {
    store::ReadMoment moment(database);
    CTN_TRY(moment.begin());
    AccountStatement statement;
    statement.account = CTN_TRY(store::balance_of(database, account_id)).account;
    statement.month = month;
    statement.zone = zone.empty() ? CTN_TRY(account_zone(database, account_id)) : zone;
    CTN_TRY(take_span(statement));
    CTN_TRY(take_usage(database, statement));
    CTN_TRY(take_entries(database, statement));
    return statement;
}

}  // namespace continuo::snapt::accounting
