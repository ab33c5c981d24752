// Rows that charges are read from and written to, for those who book, rate again and verify.
#pragma once

#include "snapt/accounting/charges.hpp"

#include <functional>
#include <string>
#include <string_view>

namespace continuo::snapt {

// The question for such records; `rest` says for which, and in what order.
std::string select_charged(std::string_view rest, std::string_view index = {});
ChargedRecord charged_record(const Statement& row);

// Adds what the record costs; null for no plan. A record of no class is damage, which verify tells
// of, and costs nothing.
void add_record(ChargeSums& sums, const ChargedRecord& record, const rating::Plan* plan);

// The question for charges `c`.
std::string select_charges(std::string_view rest, std::string_view index = {});
Charge charge_of(const Statement& row);
base::Result<void> insert_charge(Database& database, const Charge& charge);
// Of charges `c` that no other one stands for.
inline constexpr std::string_view kIsCurrent =
    "NOT EXISTS(SELECT 1 FROM charge r WHERE r.replaces=c.charge_id)";

}  // namespace continuo::snapt
