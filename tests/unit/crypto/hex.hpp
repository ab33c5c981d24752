// Hexadecimal text for vectors; blanks are skipped.
#pragma once

#include "common/base/bytes.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

namespace continuo::crypto::test {

inline std::vector<uint8_t> from_hex(std::string_view text) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::vector<uint8_t> bytes;
    unsigned value = 0;
    bool has_high = false;
    for (const char c : text) {
        const size_t digit = kDigits.find(c);
        if (digit == std::string_view::npos) {
            continue;
        }
        value = value << 4 | static_cast<unsigned>(digit);
        if (has_high) {
            bytes.push_back(static_cast<uint8_t>(value));
        }
        has_high = !has_high;
    }
    return bytes;
}

// Copies hexadecimal text into a fixed array, zeros behind it.
template <size_t N>
std::array<uint8_t, N> array_from_hex(std::string_view text) {
    const std::vector<uint8_t> bytes = from_hex(text);
    std::array<uint8_t, N> result{};
    std::copy_n(bytes.begin(), std::min(bytes.size(), N), result.begin());
    return result;
}

}  // namespace continuo::crypto::test
