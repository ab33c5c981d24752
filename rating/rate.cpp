#include "rating/rate.hpp"

#include <algorithm>
#include <cmath>

namespace continuo::rating {
namespace {

constexpr double kMicro = 1e6;

// In the unit of the discount: bytes of the basis, never less than none.
double basis_bytes(const Discount& discount, const Usage& usage) {
    const int64_t bytes = discount.basis == DiscountBasis::Saved
                              ? usage.pre_bytes - usage.post_bytes
                              : usage.pre_bytes;
    return static_cast<double>(std::max<int64_t>(bytes, 0));
}

}  // namespace

Charge rate(const Plan& plan, const Usage& usage, double multiplier) {
    const ClassTerms& terms = plan.classes[base::index_of(usage.traffic_class)];
    Charge charge;
    const double kbit = static_cast<double>(usage.payload_bytes) * 8 / 1000;
    charge.x_kbps = kbit / std::max(static_cast<double>(usage.active_us) / kMicro, kMinActiveS);
    charge.is_delay_assumed = !usage.delay_us.has_value();
    charge.d_ms = charge.is_delay_assumed ? plan.delay_unknown_ms
                                          : static_cast<double>(*usage.delay_us) / 1000;
    const Slopes slopes = terms.utility.slopes_at(charge.x_kbps, charge.d_ms);
    charge.price =
        std::clamp(slopes.du_dx * terms.k_x + slopes.du_dd * terms.k_d, plan.p_min, plan.p_max);
    charge.vu = kbit / terms.k_x;

    // To the nearest, of two equally near to the even one: so rounds nearbyint() by default.
    const double gross = std::nearbyint(charge.price * charge.vu * kMicro * multiplier);
    constexpr auto kMost = static_cast<double>(kMaxChargeUd);
    charge.is_limited = gross > kMost;
    const double charged = std::min(gross, kMost);
    // A denarius for a MB is a micro-denarius for a byte.
    const double earned = plan.discount.rho_denarii_per_mb * basis_bytes(plan.discount, usage);
    charge.gross_ud = static_cast<int64_t>(charged);
    charge.discount_ud =
        static_cast<int64_t>(std::min(std::floor(plan.discount.cap * charged), std::floor(earned)));
    charge.net_ud = charge.gross_ud - charge.discount_ud;
    if (usage.has_sharer) {
        const double reward = std::floor(plan.discount.sharer_share * earned);
        charge.reward_ud =
            static_cast<int64_t>(std::min(reward, static_cast<double>(charge.net_ud)));
    }
    return charge;
}

}  // namespace continuo::rating
