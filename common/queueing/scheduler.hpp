// Scheduler: which class sends next. Static priority in the order of the classes, but a class that
// has been ready and unserved for its patience gets one datagram first, so that none is starved
// beyond its own delay bound (Vanini et al. 2015, section V). Without competition that rule never
// applies. Pure.
#pragma once

#include "common/base/time.hpp"
#include "common/base/traffic_class.hpp"

#include <array>
#include <optional>

namespace continuo::queueing {

class Scheduler {
  public:
    // Half of the smallest delay bound in Table I for the class.
    static constexpr std::array<base::Duration, base::kTrafficClasses> kPatience = {
        base::milliseconds(100), base::milliseconds(100), base::seconds(5),
        base::milliseconds(2500)};

    // `ready_since[c]` is kNever for a class with nothing to send now.
    std::optional<base::TrafficClass>
    pick(const std::array<base::TimePoint, base::kTrafficClasses>& ready_since,
         base::TimePoint now) {
        std::optional<base::TrafficClass> chosen;
        for (const base::TrafficClass candidate : base::kAllTrafficClasses) {
            const size_t index = base::index_of(candidate);
            if (ready_since[index] == base::kNever) {
                continue;
            }
            const base::TimePoint unserved_since = std::max(ready_since[index], served_at_[index]);
            if (!chosen || now - unserved_since > kPatience[index]) {
                chosen = candidate;
            }
        }
        if (chosen) {
            served_at_[base::index_of(*chosen)] = now;
        }
        return chosen;
    }

  private:
    std::array<base::TimePoint, base::kTrafficClasses> served_at_{};
};

}  // namespace continuo::queueing
