// Inputs of the compression tests: seeded random bytes, text made of words, and the texts of the
// shared data folder where it is present.
#pragma once

#include "common/base/random.hpp"

#include <array>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

namespace continuo::compress::test {

inline base::ByteView view_of(const std::string& text) {
    return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

inline std::vector<uint8_t> random_bytes(size_t count, uint64_t seed) {
    base::SeededRandom random(seed);
    std::vector<uint8_t> bytes(count);
    random.fill(bytes);
    return bytes;
}

inline std::string words(size_t bytes, uint64_t seed) {
    constexpr std::array<const char*, 16> kWords = {
        "the ",    "node ", "sends ", "a datagram ", "when ", "its path ", "changes, ", "and ",
        "waits\n", "for ",  "every ", "answer ",     "from ", "here ",     "to ",       "there. "};
    base::SeededRandom random(seed);
    std::string text;
    while (text.size() < bytes) {
        text += kWords[random.below(kWords.size())];
    }
    text.resize(bytes);
    return text;
}

inline std::filesystem::path shared_texts() {
    return std::filesystem::path(CONTINUO_SOURCE_DIR) / ".." / "shared" / "data" / "texts";
}

// Empty when the file is not there.
inline std::string shared_text(const char* name) {
    const std::filesystem::path path = shared_texts() / name;
    std::error_code error;
    const auto bytes = std::filesystem::file_size(path, error);
    std::string text(error ? 0 : bytes, ' ');
    std::ifstream(path, std::ios::binary)
        .read(text.data(), static_cast<std::streamsize>(text.size()));
    return text;
}

}  // namespace continuo::compress::test
