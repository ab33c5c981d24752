// UtilityTable: the worth of a class of traffic to its user over throughput and delay, as a table
// of utilities at knots. Prices are made from its two derivatives (docs/man/plan.toml.5). IEEE
// doubles in a fixed order of operations, which is part of the contract: a charge is the same
// everywhere.
#pragma once

#include <cstddef>
#include <vector>

namespace continuo::rating {

inline constexpr size_t kMinKnots = 2;
inline constexpr size_t kMaxKnots = 64;  // on each side

struct UtilityKnots {
    std::vector<double> x_kbps;  // kMinKnots to kMaxKnots, strictly rising, finite
    std::vector<double> d_ms;    // the same
    std::vector<double>
        u_denarii_per_s;  // a row for each x: x_kbps.size() times d_ms.size(), finite
};

struct Slopes {
    double du_dx = 0;  // denarii/s per kbit/s
    double du_dd = 0;  // denarii/s per ms
};

class UtilityTable {
  public:
    UtilityTable() = default;  // useless until assigned
    explicit UtilityTable(UtilityKnots knots);

    const UtilityKnots& knots() const { return knots_; }
    // Bilinear between the knots; outside, the value of the nearest.
    double utility_at(double x_kbps, double d_ms) const;
    Slopes slopes_at(double x_kbps, double d_ms) const;

  private:
    UtilityKnots knots_;
    std::vector<double> du_dx_;  // at the knots, in the order of the utilities
    std::vector<double> du_dd_;
};

}  // namespace continuo::rating
