#include "common/report/json_value.hpp"

#include "common/report/json.hpp"

#include <algorithm>
#include <limits>

#include <nlohmann/json.hpp>

namespace continuo::report {

// The event handler of nlohmann's parser, which keeps its own stack and does not recurse.
class JsonTreeBuilder {
  public:
    explicit JsonTreeBuilder(const JsonLimits& limits) : limits_(limits) {}

    bool null() { return add({}); }
    bool boolean(bool value) {
        JsonValue leaf = of(JsonValue::Kind::Boolean);
        leaf.boolean_ = value;
        return add(std::move(leaf));
    }
    bool number_integer(int64_t value) {
        JsonValue leaf = of(JsonValue::Kind::Integer);
        leaf.integer_ = value;
        return add(std::move(leaf));
    }
    bool number_unsigned(uint64_t value) {
        JsonValue leaf = of(JsonValue::Kind::Unsigned);
        leaf.unsigned_ = value;
        return add(std::move(leaf));
    }
    bool number_float(double value, const std::string& /*source*/) {
        JsonValue leaf = of(JsonValue::Kind::Real);
        leaf.real_ = value;
        return add(std::move(leaf));
    }
    bool string(std::string& value) {
        JsonValue leaf = of(JsonValue::Kind::String);
        leaf.string_ = std::move(value);
        return add(std::move(leaf));
    }
    bool binary(std::vector<uint8_t>& /*value*/) { return false; }
    bool start_object(size_t /*elements*/) { return open(JsonValue::Kind::Object); }
    bool start_array(size_t /*elements*/) { return open(JsonValue::Kind::Array); }
    bool key(std::string& name) {
        open_.back().key = std::move(name);
        return true;
    }
    bool end_object() { return close(); }
    bool end_array() { return close(); }
    bool parse_error(size_t /*at*/,
                     const std::string& /*token*/,
                     const nlohmann::detail::exception& /*exception*/) {
        return false;
    }

    bool hit_limit() const { return hit_limit_; }
    JsonValue take() { return std::move(root_); }

  private:
    struct Open {
        JsonValue value;
        std::string key;  // key of the next member
    };

    static JsonValue of(JsonValue::Kind kind) {
        JsonValue value;
        value.kind_ = kind;
        return value;
    }
    bool open(JsonValue::Kind kind) {
        if (open_.size() >= limits_.max_depth) {
            hit_limit_ = true;
            return false;
        }
        open_.push_back({of(kind), {}});
        return true;
    }
    bool close() {
        JsonValue value = std::move(open_.back().value);
        open_.pop_back();
        return add(std::move(value));
    }
    bool add(JsonValue value) {
        if (++values_ > limits_.max_values) {
            hit_limit_ = true;
            return false;
        }
        if (open_.empty()) {
            root_ = std::move(value);
            return true;
        }
        Open& parent = open_.back();
        if (parent.value.kind_ == JsonValue::Kind::Array) {
            parent.value.items_.push_back(std::move(value));
        } else {
            parent.value.members_.emplace_back(std::move(parent.key), std::move(value));
        }
        return true;
    }

    JsonLimits limits_;
    JsonValue root_;
    std::vector<Open> open_;
    size_t values_ = 0;
    bool hit_limit_ = false;
};

base::Result<JsonValue> JsonValue::parse(std::string_view text, const JsonLimits& limits) {
    if (text.size() > limits.max_bytes) {
        return base::Error{base::Errc::LimitReached, "json"};
    }
    JsonTreeBuilder builder(limits);
    try {
        if (nlohmann::json::sax_parse(text, &builder)) {
            return builder.take();
        }
    } catch (const nlohmann::json::exception&) {
        return base::Error{base::Errc::Malformed, "json"};
    }
    return base::Error{builder.hit_limit() ? base::Errc::LimitReached : base::Errc::Malformed,
                       "json"};
}

std::optional<bool> JsonValue::boolean() const {
    return kind_ == Kind::Boolean ? std::optional(boolean_) : std::nullopt;
}

std::optional<int64_t> JsonValue::integer() const {
    constexpr auto kLargest = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    if (kind_ == Kind::Integer) {
        return integer_;
    }
    if (kind_ == Kind::Unsigned && unsigned_ <= kLargest) {
        return static_cast<int64_t>(unsigned_);
    }
    return std::nullopt;
}

std::optional<uint64_t> JsonValue::unsigned_integer() const {
    return kind_ == Kind::Unsigned ? std::optional(unsigned_) : std::nullopt;
}

std::optional<double> JsonValue::number() const {
    switch (kind_) {
    case Kind::Integer:
        return static_cast<double>(integer_);
    case Kind::Unsigned:
        return static_cast<double>(unsigned_);
    case Kind::Real:
        return real_;
    default:
        return std::nullopt;
    }
}

std::optional<std::string_view> JsonValue::string() const {
    return kind_ == Kind::String ? std::optional<std::string_view>(string_) : std::nullopt;
}

const JsonValue& JsonValue::operator[](std::string_view key) const {
    static const JsonValue nothing;
    const auto found = std::find_if(members_.rbegin(), members_.rend(),
                                    [key](const auto& member) { return member.first == key; });
    return found == members_.rend() ? nothing : found->second;
}

bool JsonValue::has(std::string_view key) const {
    return std::any_of(members_.begin(), members_.end(),
                       [key](const auto& member) { return member.first == key; });
}

std::string JsonValue::text(std::string_view key, std::string_view fallback) const {
    return std::string((*this)[key].string().value_or(fallback));
}

namespace {

// Writes a value. The recursion is as deep as JsonLimits lets a text be.
void write(JsonWriter& json, const JsonValue& value) {
    switch (value.kind()) {
    case JsonValue::Kind::Null:
        json.null();
        return;
    case JsonValue::Kind::Boolean:
        json.boolean(value.boolean().value_or(false));
        return;
    case JsonValue::Kind::Integer:
        json.integer(value.integer().value_or(0));
        return;
    case JsonValue::Kind::Unsigned:
        json.unsigned_integer(value.unsigned_integer().value_or(0));
        return;
    case JsonValue::Kind::Real:
        json.number(value.number().value_or(0));
        return;
    case JsonValue::Kind::String:
        json.string(value.string().value_or(""));
        return;
    case JsonValue::Kind::Array:
        json.begin_array();
        for (const JsonValue& item : value.items()) {
            write(json, item);
        }
        json.end_array();
        return;
    case JsonValue::Kind::Object:
        json.begin_object();
        for (const auto& [name, member] : value.members()) {
            write(json.key(name), member);
        }
        json.end_object();
        return;
    }
}

}  // namespace

std::string json_text(const JsonValue& value) {
    JsonWriter json;
    write(json, value);
    return json.take();
}

}  // namespace continuo::report
