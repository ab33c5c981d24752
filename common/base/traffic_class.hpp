// The four delay/throughput classes (docs/PROTOCOL.md section 1; Vanini et al. 2015, Table I). The
// value is the one on the wire and the order of the scheduler.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace continuo::base {

enum class TrafficClass : uint8_t {
    LtLd = 0,  // low throughput, low delay
    HtLd = 1,  // high throughput, low delay
    LtHd = 2,  // low throughput, high delay
    HtHd = 3,  // high throughput, high delay
};

inline constexpr size_t kTrafficClasses = 4;
inline constexpr std::array<TrafficClass, kTrafficClasses> kAllTrafficClasses = {
    TrafficClass::LtLd, TrafficClass::HtLd, TrafficClass::LtHd, TrafficClass::HtHd};
inline constexpr std::array<std::string_view, kTrafficClasses> kTrafficClassTokens = {
    "lt-ld", "ht-ld", "lt-hd", "ht-hd"};

constexpr size_t index_of(TrafficClass traffic_class) {
    return static_cast<size_t>(traffic_class);
}
constexpr std::string_view token(TrafficClass traffic_class) {
    return kTrafficClassTokens[index_of(traffic_class)];
}
constexpr std::optional<TrafficClass> parse_traffic_class(std::string_view text) {
    for (const TrafficClass candidate : kAllTrafficClasses) {
        if (token(candidate) == text) {
            return candidate;
        }
    }
    return std::nullopt;
}
// Low throughput is below 64 kbit/s; low delay is at most one second.
constexpr bool is_low_throughput(TrafficClass c) {
    return c == TrafficClass::LtLd || c == TrafficClass::LtHd;
}
constexpr bool is_low_delay(TrafficClass c) {
    return c == TrafficClass::LtLd || c == TrafficClass::HtLd;
}

}  // namespace continuo::base
