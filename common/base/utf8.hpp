// Well-formed UTF-8, for text from outside that goes into parsers and reports.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace continuo::base {

// Length of the well-formed sequence at the front of `text`, which must not be empty; 0 when there
// is none (The Unicode Standard, table 3-7).
constexpr size_t utf8_length(std::string_view text) {
    const auto byte = [text](size_t at) { return static_cast<uint8_t>(text[at]); };
    const uint8_t first = byte(0);
    if (first < 0x80) {
        return 1;
    }
    if (first < 0xC2 || first > 0xF4) {
        return 0;
    }
    size_t length = 2;
    if (first >= 0xE0) {
        length = first >= 0xF0 ? 4 : 3;
    }
    if (text.size() < length) {
        return 0;
    }
    for (size_t i = 1; i < length; ++i) {
        if ((byte(i) & 0xC0U) != 0x80U) {
            return 0;
        }
    }
    const uint8_t second = byte(1);
    const bool is_bad = (first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) ||
                        (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F);
    return is_bad ? 0 : length;
}

}  // namespace continuo::base
