// A parsed TOML document as a plain tree, in the order of the file, with the place of every key and
// value. Only toml_reader.cpp makes one; everything else reads it through Section.
#pragma once

#include "common/config/diagnostic.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace continuo::config {

enum class NodeKind : uint8_t { Boolean, Integer, Real, Text, Time, List, Table };

struct Member;

struct Node {
    NodeKind kind = NodeKind::Table;
    Place place;         // the value's; for a table with a [header] the header's
    std::string source;  // as written, for numbers and booleans
    bool boolean = false;
    bool overflow = false;  // an integer that does not fit 64 bits
    int64_t integer = 0;
    double real = 0;
    std::string text;
    std::vector<Node> items;
    std::vector<Member> members;

    const Member* find(std::string_view key) const;
    // Description for a message: the value of a scalar, "a list" or "a table".
    std::string describe() const;
};

struct Member {
    std::string key;
    Place key_place;
    Node value;
};

// Limits of what is parsed; beyond them the file is refused.
inline constexpr size_t kMaxDocumentBytes = 256U << 10U;
inline constexpr size_t kMaxLineBytes = 4096;
inline constexpr size_t kMaxNesting = 32;         // brackets and braces in each other
inline constexpr size_t kMaxDottedKeyParts = 16;  // in one key

// Parses `text`. On a syntax error there is no tree and `sink` has the reason.
std::optional<Node> parse_toml(std::string_view text, DiagnosticSink& sink);

}  // namespace continuo::config
