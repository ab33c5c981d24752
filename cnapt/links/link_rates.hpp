// LinkRates: measured rates of one SNAPT's session and of its paths, for reports.
#pragma once

#include "common/dataplane/recent_rate.hpp"
#include "common/tunnel/session.hpp"

#include <array>
#include <optional>

namespace continuo::cnapt::links {

class LinkRates {
  public:
    // Once a second.
    void look(const tunnel::Session& session, base::TimePoint now);
    // Does nothing within a second after the last time.
    void measure_throughput(const tunnel::Session& session, base::TimePoint now);
    // Another session follows.
    void restart() { measured_bytes_ = 0; }

    const dataplane::RecentRates& inner() const { return inner_; }  // packets
    const dataplane::RecentRates& outer(uint8_t path) const { return outer_[path]; }
    // Outer bytes both ways, over about the last second; none before the first measurement.
    std::optional<uint64_t> throughput_bits_per_s() const { return throughput_bits_per_s_; }

  private:
    dataplane::RecentRates inner_;
    std::array<dataplane::RecentRates, wire::kMaxPaths> outer_;
    std::optional<uint64_t> throughput_bits_per_s_;
    uint64_t measured_bytes_ = 0;
    base::TimePoint measured_at_{};
};

}  // namespace continuo::cnapt::links
