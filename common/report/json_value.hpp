// JsonValue: a parsed JSON text as a small tree, for commands and their answers. Parsing is bounded
// in size, depth and number of values, because requests come from anyone who may open the socket.
#pragma once

#include "common/base/result.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace continuo::report {

struct JsonLimits {
    size_t max_bytes = 64U << 20U;
    size_t max_values = 4U << 20U;
    size_t max_depth = 64;
};

class JsonValue {
  public:
    enum class Kind : uint8_t { Null, Boolean, Integer, Unsigned, Real, String, Array, Object };
    using Members = std::vector<std::pair<std::string, JsonValue>>;

    // Errors: LimitReached, Malformed.
    static base::Result<JsonValue> parse(std::string_view text, const JsonLimits& limits = {});

    Kind kind() const { return kind_; }
    bool is_null() const { return kind_ == Kind::Null; }
    bool is_object() const { return kind_ == Kind::Object; }
    bool is_array() const { return kind_ == Kind::Array; }

    // Nothing when the value is of another kind or, for integers, does not fit.
    std::optional<bool> boolean() const;
    std::optional<int64_t> integer() const;
    std::optional<uint64_t> unsigned_integer() const;
    std::optional<double> number() const;  // any number
    std::optional<std::string_view> string() const;

    // Empty for other kinds.
    const std::vector<JsonValue>& items() const { return items_; }
    const Members& members() const { return members_; }
    // A member, or a null value that lives for ever. The last of repeated keys counts.
    const JsonValue& operator[](std::string_view key) const;
    bool has(std::string_view key) const;
    // A string member, or `fallback`.
    std::string text(std::string_view key, std::string_view fallback = {}) const;

  private:
    friend class JsonTreeBuilder;

    Kind kind_ = Kind::Null;
    bool boolean_ = false;
    int64_t integer_ = 0;
    uint64_t unsigned_ = 0;
    double real_ = 0;
    std::string string_;
    std::vector<JsonValue> items_;
    Members members_;
};

// The value as JSON, on one line. Numbers that are no integers have at most 6 decimals.
std::string json_text(const JsonValue& value);

}  // namespace continuo::report
