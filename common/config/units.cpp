#include "common/config/units.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <span>
#include <string>

namespace continuo::config {
namespace {

struct Unit {
    std::string_view name;
    uint64_t factor;
};

constexpr uint64_t kNsPerS = 1'000'000'000;
constexpr std::array<Unit, 10> kDurationUnits = {{{"ns", 1},
                                                  {"us", 1'000},
                                                  {"ms", 1'000'000},
                                                  {"s", kNsPerS},
                                                  {"m", 60 * kNsPerS},
                                                  {"min", 60 * kNsPerS},
                                                  {"h", 3600 * kNsPerS},
                                                  {"d", 86'400 * kNsPerS},
                                                  {"w", 604'800 * kNsPerS}}};
constexpr std::array<Unit, 11> kSizeUnits = {{{"", 1},
                                              {"B", 1},
                                              {"kB", 1'000},
                                              {"KB", 1'000},
                                              {"MB", 1'000'000},
                                              {"GB", 1'000'000'000},
                                              {"TB", 1'000'000'000'000},
                                              {"KiB", 1ULL << 10U},
                                              {"MiB", 1ULL << 20U},
                                              {"GiB", 1ULL << 30U},
                                              {"TiB", 1ULL << 40U}}};
constexpr std::array<Unit, 5> kRateUnits = {
    {{"", 1}, {"bit", 1}, {"kbit", 1'000}, {"mbit", 1'000'000}, {"gbit", 1'000'000'000}}};
constexpr std::array<std::string_view, 5> kPeriods = {"total", "day", "week", "month", "year"};

struct Decimal {
    uint64_t whole = 0;
    uint64_t fraction = 0;
    uint64_t fraction_scale = 1;  // power of ten that divides `fraction`
    std::string_view unit;
};

bool is_digit(char character) {
    return character >= '0' && character <= '9';
}

std::string_view without_blanks(std::string_view text) {
    while (!text.empty() && text.front() == ' ') {
        text.remove_prefix(1);
    }
    while (!text.empty() && text.back() == ' ') {
        text.remove_suffix(1);
    }
    return text;
}

std::optional<Decimal> split(std::string_view text) {
    Decimal decimal;
    const auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), decimal.whole);
    if (error != std::errc{}) {
        return std::nullopt;
    }
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    if (!text.empty() && text.front() == '.') {
        constexpr uint64_t kMaxScale = 1'000'000'000;
        size_t digits = 0;
        for (text.remove_prefix(1); !text.empty() && is_digit(text.front());
             text.remove_prefix(1)) {
            ++digits;
            if (decimal.fraction_scale < kMaxScale) {
                decimal.fraction =
                    decimal.fraction * 10 + static_cast<uint64_t>(text.front() - '0');
                decimal.fraction_scale *= 10;
            }
        }
        if (digits == 0) {
            return std::nullopt;
        }
    }
    decimal.unit = without_blanks(text);
    return decimal;
}

std::optional<uint64_t> scaled(const Decimal& decimal, uint64_t factor) {
    uint64_t value = 0;
    uint64_t part = 0;
    if (__builtin_mul_overflow(decimal.whole, factor, &value)) {
        return std::nullopt;
    }
    // The factor's multiple of the scale is exact; the rest is below the scale squared and cannot
    // overflow.
    if (__builtin_mul_overflow(factor / decimal.fraction_scale, decimal.fraction, &part)) {
        return std::nullopt;
    }
    part += factor % decimal.fraction_scale * decimal.fraction / decimal.fraction_scale;
    if (__builtin_add_overflow(value, part, &value)) {
        return std::nullopt;
    }
    return value;
}

std::optional<uint64_t> parse_quantity(std::string_view text, std::span<const Unit> units) {
    const auto decimal = split(without_blanks(text));
    if (!decimal) {
        return std::nullopt;
    }
    for (const Unit& unit : units) {
        if (unit.factor != 0 && unit.name == decimal->unit) {
            return scaled(*decimal, unit.factor);
        }
    }
    return std::nullopt;
}

std::string lower(std::string_view text) {
    std::string result(text);
    std::transform(result.begin(), result.end(), result.begin(), [](char character) {
        return character >= 'A' && character <= 'Z' ? static_cast<char>(character + ('a' - 'A'))
                                                    : character;
    });
    return result;
}

std::optional<uint8_t> small_digit(char character, int minimum, int maximum) {
    const int value = character - '0';
    if (value < minimum || value > maximum) {
        return std::nullopt;
    }
    return static_cast<uint8_t>(value);
}

}  // namespace

std::optional<base::Duration> parse_duration(std::string_view text) {
    const auto nanoseconds = parse_quantity(text, kDurationUnits);
    constexpr auto kLargest = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    if (!nanoseconds || *nanoseconds > kLargest) {
        return std::nullopt;
    }
    return base::Duration(static_cast<int64_t>(*nanoseconds));
}

std::optional<uint64_t> parse_size_bytes(std::string_view text) {
    return parse_quantity(text, kSizeUnits);
}

std::optional<uint64_t> parse_rate_bits_per_s(std::string_view text) {
    std::string lowered = lower(without_blanks(text));
    if (lowered.ends_with("bit/s")) {
        lowered.resize(lowered.size() - 2);
    }
    return parse_quantity(lowered, kRateUnits);
}

std::optional<uint8_t> parse_percent(std::string_view text) {
    if (!text.ends_with('%')) {
        return std::nullopt;
    }
    const auto value = parse_unsigned(text.substr(0, text.size() - 1), 100);
    if (!value || *value == 0) {
        return std::nullopt;
    }
    return static_cast<uint8_t>(*value);
}

std::optional<QuotaPeriod> parse_quota_period(std::string_view text) {
    for (size_t i = 1; i < kPeriods.size(); ++i) {
        if (kPeriods[i] == text) {
            return static_cast<QuotaPeriod>(i);
        }
    }
    return std::nullopt;
}

std::string_view to_string(QuotaPeriod period) {
    return kPeriods[static_cast<size_t>(period)];
}

std::optional<Quota> parse_quota(std::string_view text) {
    const size_t slash = text.find('/');
    const auto bytes = parse_size_bytes(text.substr(0, slash));
    if (!bytes) {
        return std::nullopt;
    }
    if (slash == std::string_view::npos) {
        return Quota{*bytes, QuotaPeriod::Total};
    }
    const auto period = parse_quota_period(text.substr(slash + 1));
    if (!period) {
        return std::nullopt;
    }
    return Quota{*bytes, *period};
}

std::optional<uint8_t> parse_dscp(std::string_view text) {
    const std::string name = lower(text);
    if (name == "be" || name == "default") {
        return uint8_t{0};
    }
    if (name == "ef") {
        return uint8_t{46};
    }
    if (name == "va") {
        return uint8_t{44};
    }
    if (name == "le") {
        return uint8_t{1};
    }
    if (name.size() == 3 && name.starts_with("cs")) {
        const auto selector = small_digit(name[2], 0, 7);
        return selector ? std::optional<uint8_t>(static_cast<uint8_t>(*selector * 8))
                        : std::nullopt;
    }
    if (name.size() == 4 && name.starts_with("af")) {
        const auto queue = small_digit(name[2], 1, 4);
        const auto precedence = small_digit(name[3], 1, 3);
        return queue && precedence
                   ? std::optional<uint8_t>(static_cast<uint8_t>(*queue * 8 + *precedence * 2))
                   : std::nullopt;
    }
    const auto number = parse_unsigned(name, 63);
    return number ? std::optional<uint8_t>(static_cast<uint8_t>(*number)) : std::nullopt;
}

std::optional<uint64_t> parse_unsigned(std::string_view text, uint64_t maximum) {
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || value > maximum) {
        return std::nullopt;
    }
    return value;
}

}  // namespace continuo::config
