// Reads a file of tests/vectors (format: its README). A record is the lines between two empty
// lines.
#pragma once

#include "common/base/bytes.hpp"

#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace continuo::wire::test {

using Bytes = std::vector<uint8_t>;

inline Bytes from_hex(std::string_view text) {
    std::string digits;
    for (const char c : text) {
        if (c != ' ') {
            digits.push_back(c);
        }
    }
    EXPECT_EQ(digits.size() % 2, 0U) << text;
    Bytes bytes;
    for (size_t i = 0; i + 1 < digits.size(); i += 2) {
        bytes.push_back(
            static_cast<uint8_t>(std::strtoul(digits.substr(i, 2).c_str(), nullptr, 16)));
    }
    return bytes;
}

inline std::string to_hex(base::ByteView bytes) {
    static constexpr std::string_view kDigits = "0123456789abcdef";
    std::string text;
    for (const uint8_t byte : bytes) {
        text.push_back(kDigits[byte >> 4]);
        text.push_back(kDigits[byte & 15U]);
    }
    return text;
}

struct VectorRecord {
    std::string name;
    std::vector<std::pair<std::string, std::string>> fields;  // all but name, section and hex
    Bytes bytes;

    std::optional<std::string> find(std::string_view key) const {
        for (const auto& [name_of_field, value] : fields) {
            if (name_of_field == key) {
                return value;
            }
        }
        return std::nullopt;
    }
    std::string text(std::string_view key) const {
        const std::optional<std::string> value = find(key);
        EXPECT_TRUE(value) << name << " has no field " << key;
        return value.value_or("");
    }
    uint64_t hex_number(std::string_view key) const {
        return std::strtoull(text(key).c_str(), nullptr, 16);
    }
    std::vector<std::string> all(std::string_view key) const {
        std::vector<std::string> values;
        for (const auto& [name_of_field, value] : fields) {
            if (name_of_field == key) {
                values.push_back(value);
            }
        }
        return values;
    }
};

inline std::vector<VectorRecord> read_vectors(const std::string& file) {
    std::ifstream in(std::string(CONTINUO_SOURCE_DIR) + "/tests/vectors/" + file);
    EXPECT_TRUE(in) << file;
    std::vector<VectorRecord> records;
    std::string line;
    while (std::getline(in, line)) {
        const size_t colon = line.find(':');
        if (line.empty() || line[0] == '#' || colon == std::string::npos) {
            continue;
        }
        const std::string key = line.substr(0, colon);
        const std::string value = colon + 2 <= line.size() ? line.substr(colon + 2) : "";
        if (key == "name") {
            records.push_back({value, {}, {}});
        } else if (records.empty()) {
            ADD_FAILURE() << file << ": field before the first name: " << line;
        } else if (key == "hex") {
            const Bytes more = from_hex(value);
            records.back().bytes.insert(records.back().bytes.end(), more.begin(), more.end());
        } else if (key != "section") {
            records.back().fields.emplace_back(key, value);
        }
    }
    EXPECT_FALSE(records.empty()) << file;
    return records;
}

// Runs `make` against buffers of every size below what it needs: none may succeed, none may write
// outside.
template <typename Serialize>
void expect_fails_in_every_shorter_buffer(size_t full, const Serialize& serialize) {
    for (size_t room = 0; room < full; ++room) {
        Bytes buffer(room);
        base::ByteWriter writer(buffer);
        serialize(writer);
        EXPECT_FALSE(writer.ok()) << room << " of " << full;
    }
}

}  // namespace continuo::wire::test
