// The choice of the SNAPT for a new flow, and admission: a pure function of the known state of the
// SNAPTs and the needs of the flow (Vanini et al. 2015, III-A and IV-A). The choice holds for the
// flow's life.
#pragma once

#include "classifier/ruleset.hpp"
#include "common/base/time.hpp"
#include "common/base/traffic_class.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace continuo::policy {

// The node's knowledge of one SNAPT. Borrowed for the call.
struct SnaptView {
    std::string_view name;
    std::string_view address;  // for reports
    std::optional<base::Duration> one_way_delay;
    std::optional<uint64_t> throughput_bits_per_s;  // capacity; not measured yet
    uint64_t committed_bits_per_s = 0;  // sum of the needs of the node's flows bound to it
    double load = 0;                    // 0 to 1, from the directory
    double price = 0;                   // from the directory
    bool is_alive = false;              // has a session that works
};

inline constexpr uint64_t kHighThroughputBitsPerS = 64'000;
inline constexpr base::Duration kLowDelay = base::seconds(1);

struct FlowNeeds {
    base::TrafficClass traffic_class = base::TrafficClass::LtHd;
    uint64_t min_bits_per_s = 0;
    std::optional<base::Duration> max_delay;
    std::span<const std::string> preferred;  // names, in order
};
// The needs of the rule; where it names none, those of the class: at least 64 kbit/s, at most one
// second.
FlowNeeds needs_of(const classifier::Classification& classification);

enum class Verdict : uint8_t {
    Serve,    // all needs are met, or the policy serves as well as it can
    Degrade,  // served in `traffic_class`, a high-delay class that affects no other
    Refuse,   // tell the application at once
    NoSnapt,  // none is alive: fail-open or kill switch, not a policy decision
};

struct Decision {
    Verdict verdict = Verdict::NoSnapt;
    std::optional<size_t> snapt;  // index into the views
    base::TrafficClass traffic_class = base::TrafficClass::LtHd;
    uint64_t committed_bits_per_s = 0;  // to be added to the SNAPT's while the flow lives
    bool are_needs_met = false;
    std::string_view reason;  // static text when they are not
};

// An unknown value counts as met, but a SNAPT with a known one wins. Among those that meet the
// needs the first in the preference list wins, then the lowest price, load, delay, order. If none
// does, `when_unmet` decides, and the nearest one is used.
Decision choose_snapt(std::span<const SnaptView> snapts,
                      const FlowNeeds& needs,
                      classifier::WhenUnmet when_unmet);

}  // namespace continuo::policy
