// Plan: the terms of charging, in a separate file (docs/man/plan.toml.5). Money is in denarii, the
// virtual currency; charges in micro-denarii (ud), 10^6 to a denarius. Prices are per virtual unit
// (vu): the table of a class gives the worth of a bit and a millisecond, and k_x and k_d how many
// of them a unit buys.
#pragma once

#include "common/base/traffic_class.hpp"
#include "common/config/diagnostic.hpp"
#include "rating/utility_table.hpp"

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace continuo::rating {

// Ranges of the values of a plan. Wide enough for any plan, narrow enough that nothing overflows.
inline constexpr double kMaxRateKbps = 1e9;
inline constexpr double kMaxDelayMs = 3.6e6;
inline constexpr double kMinKnotStep = 1e-3;  // from one knot to the next
inline constexpr double kMaxUtility = 1e6;    // denarii/s, and as much below zero
inline constexpr double kMinKx = 1e-6;        // kbit/vu
inline constexpr double kMaxK = 1e9;          // kbit/vu; ms per vu/s, below zero
inline constexpr double kMaxPrice = 1e6;      // denarii/vu; rho: denarii/MB

// The quantity that a discount is given for.
enum class DiscountBasis : uint8_t {
    Saved,  // bytes that aggregation and compression saved
    Pre,    // bytes that were served, as they were before
};
std::string_view to_string(DiscountBasis basis);

struct Discount {
    DiscountBasis basis = DiscountBasis::Saved;
    double rho_denarii_per_mb = 0;  // MB of the basis, 10^6 bytes
    double cap = 0;                 // share of the gross charge, 0 to 1
    double sharer_share = 0;  // share of the basis, at the rate rho, to whom shares access; 0 to 1
};

struct ClassTerms {
    UtilityTable utility;
    double k_x = 1;  // kbit/vu, above zero
    double k_d = 0;  // ms per vu/s, zero or below
};

struct Plan {
    std::string name;
    bool is_calibrated = false;   // false: k_x and k_d are guesses
    double delay_unknown_ms = 0;  // for records whose delay was not measured
    double p_min = 0;             // denarii/vu
    double p_max = 0;
    Discount discount;
    std::array<ClassTerms, base::kTrafficClasses> classes;  // by base::index_of
};

struct ParsedPlan {
    std::shared_ptr<const Plan> plan;  // null when there is an error
    std::vector<config::Diagnostic> diagnostics;
};
// In a new plan also keys without effect are errors; a stored one goes on as it was added.
enum class PlanUse : uint8_t { Stored, New };
// Names all errors.
ParsedPlan parse_plan(std::string_view text, const std::string& filename, PlanUse use);

// A letter, then letters, digits and . _ -, so that no name is a number.
bool is_plan_name(std::string_view text);

}  // namespace continuo::rating
