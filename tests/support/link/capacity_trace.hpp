// CapacityTrace: the capacity of a link over time as a recorded list of opportunities, in
// Mahimahi's format: each line is the millisecond at which kOpportunityBytes can be delivered,
// several equal lines are several opportunities, lines never go back, and the last line is the
// period after which the list begins anew. Pure and immutable once read.
#pragma once

#include "common/base/time.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace continuo::tests {

inline constexpr uint32_t kOpportunityBytes = 1500;
inline constexpr size_t kMaxOpportunities = 8'000'000;
inline constexpr size_t kMaxTraceBytes = size_t{96} << 20;

class CapacityTrace {
  public:
    // `name` is only for the fault. Nothing on a fault, which then says "NAME:LINE: what is wrong".
    static std::optional<CapacityTrace>
    parse(std::string_view text, std::string_view name, std::string& fault);
    static std::optional<CapacityTrace> load(const std::string& path, std::string& fault);

    // Opportunities are numbered through the repetitions, from 0 at the beginning.
    [[nodiscard]] base::Duration time_of(uint64_t opportunity) const;
    // The first opportunity later than `since_beginning`.
    [[nodiscard]] uint64_t first_after(base::Duration since_beginning) const;
    [[nodiscard]] base::Duration period() const;
    [[nodiscard]] size_t opportunities() const { return at_ms_.size(); }

  private:
    explicit CapacityTrace(std::vector<uint32_t> at_ms) : at_ms_(std::move(at_ms)) {}
    std::vector<uint32_t> at_ms_;
};

}  // namespace continuo::tests
