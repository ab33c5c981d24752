#include "policy/snapt_choice.hpp"

#include <algorithm>
#include <tuple>

namespace continuo::policy {
namespace {

using base::TrafficClass;

TrafficClass degraded(TrafficClass traffic_class) {
    switch (traffic_class) {
    case TrafficClass::LtLd:
        return TrafficClass::LtHd;
    case TrafficClass::HtLd:
        return TrafficClass::HtHd;
    default:
        return traffic_class;
    }
}

struct Fit {
    bool delay_met = false;
    bool throughput_met = false;
    bool is_known = false;  // both were measured, where asked for
    uint64_t remaining_bits_per_s = 0;
    size_t preference = 0;  // position in the list; its length when absent

    bool is_met() const { return delay_met && throughput_met; }
};

Fit fit_of(const SnaptView& snapt, const FlowNeeds& needs) {
    Fit fit;
    fit.is_known = true;
    fit.delay_met = true;
    fit.throughput_met = true;
    if (needs.max_delay) {
        fit.is_known = snapt.one_way_delay.has_value();
        fit.delay_met = !snapt.one_way_delay || *snapt.one_way_delay <= *needs.max_delay;
    }
    if (snapt.throughput_bits_per_s) {
        const uint64_t total = *snapt.throughput_bits_per_s;
        fit.remaining_bits_per_s = total - std::min(total, snapt.committed_bits_per_s);
    }
    if (needs.min_bits_per_s > 0) {
        fit.throughput_met =
            !snapt.throughput_bits_per_s || fit.remaining_bits_per_s >= needs.min_bits_per_s;
    }
    const auto place = std::find(needs.preferred.begin(), needs.preferred.end(), snapt.name);
    fit.preference = static_cast<size_t>(place - needs.preferred.begin());
    return fit;
}

base::Duration delay_or_worst(const SnaptView& snapt) {
    return snapt.one_way_delay.value_or(base::Duration::max());
}

// Whether `left` is the better choice. Order: needs met, preference, known, cost; when the needs
// are not met, delay before throughput, because a later packet is useless and a slower one is not.
bool is_better(const SnaptView& left,
               const Fit& left_fit,
               const SnaptView& right,
               const Fit& right_fit) {
    const auto rank = [](const Fit& fit) {
        return std::tuple(!fit.is_met(), fit.preference, !fit.delay_met, !fit.throughput_met);
    };
    if (rank(left_fit) != rank(right_fit)) {
        return rank(left_fit) < rank(right_fit);
    }
    if (!left_fit.is_met()) {
        return std::tuple(delay_or_worst(left), right_fit.remaining_bits_per_s) <
               std::tuple(delay_or_worst(right), left_fit.remaining_bits_per_s);
    }
    return std::tuple(!left_fit.is_known, left.price, left.load, delay_or_worst(left)) <
           std::tuple(!right_fit.is_known, right.price, right.load, delay_or_worst(right));
}

std::string_view reason_of(bool any_delay_met, bool any_throughput_met) {
    if (!any_delay_met) {
        return "no SNAPT meets the delay";
    }
    return any_throughput_met ? "no SNAPT meets delay and throughput together"
                              : "no SNAPT has the throughput left";
}

}  // namespace

FlowNeeds needs_of(const classifier::Classification& classification) {
    FlowNeeds needs;
    needs.traffic_class = classification.traffic_class;
    needs.preferred = classification.snapts;
    const bool is_high = !base::is_low_throughput(needs.traffic_class);
    needs.min_bits_per_s =
        classification.min_bits_per_s.value_or(is_high ? kHighThroughputBitsPerS : 0);
    if (classification.max_delay_ms) {
        needs.max_delay = base::milliseconds(*classification.max_delay_ms);
    } else if (base::is_low_delay(needs.traffic_class)) {
        needs.max_delay = kLowDelay;
    }
    return needs;
}

Decision choose_snapt(std::span<const SnaptView> snapts,
                      const FlowNeeds& needs,
                      classifier::WhenUnmet when_unmet) {
    Decision decision;
    decision.traffic_class = needs.traffic_class;
    decision.reason = "no SNAPT is alive";
    Fit best;
    bool any_delay_met = false;
    bool any_throughput_met = false;
    for (size_t i = 0; i < snapts.size(); ++i) {
        if (!snapts[i].is_alive) {
            continue;
        }
        const Fit fit = fit_of(snapts[i], needs);
        any_delay_met = any_delay_met || fit.delay_met;
        any_throughput_met = any_throughput_met || fit.throughput_met;
        if (!decision.snapt || is_better(snapts[i], fit, snapts[*decision.snapt], best)) {
            decision.snapt = i;
            best = fit;
        }
    }
    if (!decision.snapt) {
        return decision;
    }
    decision.verdict = Verdict::Serve;
    decision.committed_bits_per_s = needs.min_bits_per_s;
    decision.are_needs_met = best.is_met();
    if (best.is_met()) {
        decision.reason = {};
        return decision;
    }
    decision.reason = reason_of(any_delay_met, any_throughput_met);
    if (when_unmet == classifier::WhenUnmet::Refuse) {
        decision.verdict = Verdict::Refuse;
        decision.snapt.reset();
        decision.committed_bits_per_s = 0;
    } else if (when_unmet == classifier::WhenUnmet::Degrade) {
        decision.verdict = Verdict::Degrade;
        decision.traffic_class = degraded(needs.traffic_class);
    }
    return decision;
}

}  // namespace continuo::policy
