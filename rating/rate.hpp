// rate(): the charge for one usage record under a plan. Pure: equal records cost the same, in any
// order and any number of times. docs/man/plan.toml.5 has the formulas.
#pragma once

#include "rating/plan.hpp"

#include <cstdint>
#include <optional>

namespace continuo::rating {

// Up to this a double represents every micro-denarius: 9 * 10^9 denarii for one record. Higher
// charges are cut to it.
inline constexpr int64_t kMaxChargeUd = int64_t{1} << 53U;
// Shortest time over which a throughput is taken.
inline constexpr double kMinActiveS = 0.001;

struct Usage {
    base::TrafficClass traffic_class = base::TrafficClass::LtLd;
    uint64_t payload_bytes = 0;  // up and down, what the user sent and got
    int64_t active_us = 0;
    std::optional<int64_t> delay_us;  // unknown: the plan's
    int64_t pre_bytes = 0;            // zero or more, as the next
    int64_t post_bytes = 0;
    bool has_sharer = false;  // another node carried it
};

struct Charge {
    double x_kbps = 0;
    double d_ms = 0;
    double price = 0;  // denarii/vu, within the plan's bounds
    double vu = 0;
    int64_t gross_ud = 0;
    int64_t discount_ud = 0;  // at most the plan's cap of gross
    int64_t net_ud = 0;       // gross - discount
    int64_t reward_ud = 0;    // the sharer's, out of net: nobody gains by paying himself
    bool is_delay_assumed = false;
    bool is_limited = false;  // gross would be above kMaxChargeUd
};

// `multiplier` is the SNAPT's, zero or more: its operator may charge more or less than the plan.
Charge rate(const Plan& plan, const Usage& usage, double multiplier = 1);

}  // namespace continuo::rating
