// Database rows of charges, shared by booking, re-rating and verify.
#pragma once

#include "common/flow/accounting_record.hpp"
#include "snapt/ledger/charges.hpp"

#include <functional>
#include <string>
#include <string_view>

namespace continuo::snapt::ledger {

// The query for such records; `rest` is its condition and order.
std::string select_charged(std::string_view rest, std::string_view index = {});
ChargedRecord charged_record(const store::Statement& row);
std::string charged_snapt(const store::Statement& row);
// The same of a record that the database may not have.
ChargedRecord charged_record(const flow::UsageRecord& record);

// Adds the price of the record, that many times the plan's; null: no plan. A record without a class
// is damaged, which verify reports, and costs nothing.
void add_record(ChargeSums& sums,
                const ChargedRecord& record,
                const rating::Plan* plan,
                double multiplier);

// The query for charges `c`.
std::string select_charges(std::string_view rest, std::string_view index = {});
Charge charge_of(const store::Statement& row);
base::Result<void> insert_charge(store::Database& database, const Charge& charge);
// True for charges `c` that no other charge replaces.
inline constexpr std::string_view kIsCurrent =
    "NOT EXISTS(SELECT 1 FROM charge r WHERE r.replaces=c.charge_id)";

}  // namespace continuo::snapt::ledger
