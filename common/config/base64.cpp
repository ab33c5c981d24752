#include "common/config/base64.hpp"

namespace continuo::config {
namespace {

constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr unsigned kBitsPerCharacter = 6;

}  // namespace

std::string to_base64(base::ByteView bytes) {
    std::string text;
    uint32_t pending = 0;
    unsigned bits = 0;
    for (const uint8_t byte : bytes) {
        pending = (pending << 8U | byte) & 0x3FFFU;
        bits += 8;
        while (bits >= kBitsPerCharacter) {
            bits -= kBitsPerCharacter;
            text += kAlphabet[(pending >> bits) & 0x3FU];
        }
    }
    if (bits > 0) {
        text += kAlphabet[(pending << (kBitsPerCharacter - bits)) & 0x3FU];
    }
    while (text.size() % 4 != 0) {
        text += '=';
    }
    return text;
}

std::optional<std::vector<uint8_t>> from_base64(std::string_view text) {
    if (text.size() % 4 != 0) {
        return std::nullopt;
    }
    for (int padding = 0; padding < 2 && text.ends_with('='); ++padding) {
        text.remove_suffix(1);
    }
    std::vector<uint8_t> bytes;
    uint32_t pending = 0;
    unsigned bits = 0;
    for (const char character : text) {
        const size_t value = kAlphabet.find(character);
        if (value == std::string_view::npos) {
            return std::nullopt;
        }
        pending = (pending << kBitsPerCharacter | static_cast<uint32_t>(value)) & 0x3FFFU;
        bits += kBitsPerCharacter;
        if (bits >= 8) {
            bits -= 8;
            bytes.push_back(static_cast<uint8_t>(pending >> bits));
        }
    }
    if (bits == kBitsPerCharacter || (pending & ((1U << bits) - 1U)) != 0) {
        return std::nullopt;
    }
    return bytes;
}

}  // namespace continuo::config
