// Quantities with units as people write them: "50ms", "50GiB", "2mbit", "50GiB/month", "70%".
// Decimal fractions are allowed, blanks between number and unit too. Anything else, and whatever
// overflows, gives nothing.
#pragma once

#include "common/base/time.hpp"

#include <cstdint>
#include <optional>
#include <string_view>

namespace continuo::config {

inline constexpr uint64_t kBitsPerByte = 8;
inline constexpr int64_t kMicroseconds = 1'000'000;  // in a second

// Units ns us ms s m min h d w; a unit is required.
std::optional<base::Duration> parse_duration(std::string_view text);
// Units B (or none), kB MB GB TB (powers of 1000), KiB MiB GiB TiB (powers of 1024).
std::optional<uint64_t> parse_size_bytes(std::string_view text);
// Units bit (or none) kbit mbit gbit, powers of 1000, upper or lower case, with or without "/s".
std::optional<uint64_t> parse_rate_bits_per_s(std::string_view text);
// "1%" to "100%", whole numbers.
std::optional<uint8_t> parse_percent(std::string_view text);

enum class QuotaPeriod : uint8_t { Total, Day, Week, Month, Year };

struct Quota {
    uint64_t bytes = 0;
    QuotaPeriod period = QuotaPeriod::Total;

    bool operator==(const Quota&) const = default;
};
// A size, or a size per day, week, month or year.
std::optional<Quota> parse_quota(std::string_view text);
std::optional<QuotaPeriod> parse_quota_period(std::string_view text);
std::string_view to_string(QuotaPeriod period);

// Differentiated services code point: a name (RFC 2474, 2597, 3246, 8622: be cs0-cs7 af11-af43 ef
// va le) or 0 to 63.
std::optional<uint8_t> parse_dscp(std::string_view text);

// A number in all of `text`, decimal.
std::optional<uint64_t> parse_unsigned(std::string_view text, uint64_t maximum);

}  // namespace continuo::config
