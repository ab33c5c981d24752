#include "common/base/printable.hpp"

#include "common/base/utf8.hpp"

#include <algorithm>

namespace continuo::base {

namespace {

constexpr std::string_view kHexDigits = "0123456789abcdef";
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

bool is_hidden_code_point(uint32_t code) {
    const auto is_in = [code](uint32_t first, uint32_t last) {
        return code >= first && code <= last;
    };
    return code < 0x20 || is_in(0x7F, 0x9F) || code == 0x061C || is_in(0x200E, 0x200F) ||
           is_in(0x202A, 0x202E) || is_in(0x2066, 0x2069);
}

uint32_t decode(std::string_view sequence) {
    // The first byte has as many bits less as the sequence has bytes.
    const auto first = static_cast<uint8_t>(sequence[0]);
    uint32_t code = sequence.size() == 1 ? first : first & (0x7FU >> sequence.size());
    for (const char byte : sequence.substr(1)) {
        code = code << 6U | (static_cast<uint8_t>(byte) & 0x3FU);
    }
    return code;
}

template <typename Write>
std::string rewrite(std::string_view text, Write write) {
    std::string result;
    result.reserve(text.size());
    while (!text.empty()) {
        const FrontCharacter front = front_character(text);
        const std::string_view bytes = text.substr(0, front.bytes);
        if (front.is_hidden) {
            write(result, front, bytes);
        } else {
            result += bytes;
        }
        text.remove_prefix(front.bytes);
    }
    return result;
}

void append_hex(std::string& to, uint32_t value, unsigned digits) {
    for (unsigned shift = 4 * digits; shift > 0; shift -= 4) {
        to += kHexDigits[value >> (shift - 4) & 0xFU];
    }
}

}  // namespace

FrontCharacter front_character(std::string_view text) {
    const size_t length = utf8_length(text);
    if (length == 0) {
        return {1, static_cast<uint8_t>(text[0]), false, true};
    }
    const uint32_t code = decode(text.substr(0, length));
    return {length, code, true, is_hidden_code_point(code)};
}

std::string printable(std::string_view text) {
    return rewrite(text, [](std::string& to, const FrontCharacter&, std::string_view bytes) {
        for (const char byte : bytes) {
            to += "\\x";
            append_hex(to, static_cast<uint8_t>(byte), 2);
        }
    });
}

std::string printable_json(std::string_view text, std::string_view kept) {
    const auto write = [kept](std::string& to, const FrontCharacter& front,
                              std::string_view bytes) {
        if (!front.is_utf8) {
            to += kReplacement;
        } else if (bytes.size() == 1 && kept.find(bytes[0]) != std::string_view::npos) {
            to += bytes;
        } else {
            to += "\\u";
            append_hex(to, front.code_point, 4);
        }
    };
    return rewrite(text, write);
}

std::string replace_hidden(std::string_view text, char mark) {
    return rewrite(
        text, [mark](std::string& to, const FrontCharacter&, std::string_view) { to += mark; });
}

}  // namespace continuo::base
