#include "common/report/json.hpp"

#include "common/base/assert.hpp"
#include "common/base/printable.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

namespace continuo::report {
namespace {

constexpr int kMaxDecimals = 15;

void append_escaped(std::string& to, char character) {
    switch (character) {
    case '"':
        to += "\\\"";
        return;
    case '\\':
        to += "\\\\";
        return;
    case '\n':
        to += "\\n";
        return;
    case '\r':
        to += "\\r";
        return;
    case '\t':
        to += "\\t";
        return;
    default:
        to += character;
    }
}

template <typename T>
void append_integer(std::string& to, T value) {
    std::array<char, 24> digits{};
    const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), value);
    CTN_ASSERT(error == std::errc{});
    to.append(digits.data(), end);
}

}  // namespace

std::string json_string(std::string_view text) {
    std::string quoted;
    for (const char character : text) {
        append_escaped(quoted, character);
    }
    return '"' + base::printable_json(quoted) + '"';
}

void JsonWriter::before_value() {
    if (levels_.empty()) {
        CTN_ASSERT(text_.empty());
        return;
    }
    Level& level = levels_.back();
    if (level.frame == Frame::Object) {
        CTN_ASSERT(has_key_);
        has_key_ = false;
        return;
    }
    if (!level.is_empty) {
        text_ += ',';
    }
    level.is_empty = false;
}

JsonWriter& JsonWriter::key(std::string_view name) {
    CTN_ASSERT(!levels_.empty() && levels_.back().frame == Frame::Object && !has_key_);
    if (!levels_.back().is_empty) {
        text_ += ',';
    }
    levels_.back().is_empty = false;
    text_ += json_string(name);
    text_ += ':';
    has_key_ = true;
    return *this;
}

JsonWriter& JsonWriter::begin_object() {
    before_value();
    levels_.push_back({Frame::Object});
    text_ += '{';
    return *this;
}

JsonWriter& JsonWriter::end_object() {
    CTN_ASSERT(!levels_.empty() && levels_.back().frame == Frame::Object && !has_key_);
    levels_.pop_back();
    text_ += '}';
    return *this;
}

JsonWriter& JsonWriter::begin_array() {
    before_value();
    levels_.push_back({Frame::Array});
    text_ += '[';
    return *this;
}

JsonWriter& JsonWriter::end_array() {
    CTN_ASSERT(!levels_.empty() && levels_.back().frame == Frame::Array);
    levels_.pop_back();
    text_ += ']';
    return *this;
}

JsonWriter& JsonWriter::string(std::string_view text) {
    before_value();
    text_ += json_string(text);
    return *this;
}

JsonWriter& JsonWriter::integer(int64_t value) {
    before_value();
    append_integer(text_, value);
    return *this;
}

JsonWriter& JsonWriter::unsigned_integer(uint64_t value) {
    before_value();
    append_integer(text_, value);
    return *this;
}

JsonWriter& JsonWriter::number(double value, int decimals) {
    CTN_ASSERT(decimals >= 0 && decimals <= kMaxDecimals);
    if (!std::isfinite(value)) {
        return null();
    }
    before_value();
    // The largest double has 309 digits before the point.
    std::array<char, 340> digits{};
    const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), value,
                                            std::chars_format::fixed, decimals);
    CTN_ASSERT(error == std::errc{});
    std::string_view text(digits.data(), static_cast<size_t>(end - digits.data()));
    if (text.find('.') != std::string_view::npos) {
        while (text.ends_with('0')) {
            text.remove_suffix(1);
        }
        if (text.ends_with('.')) {
            text.remove_suffix(1);
        }
    }
    text_ += text == "-0" ? "0" : text;
    return *this;
}

JsonWriter& JsonWriter::boolean(bool value) {
    before_value();
    text_ += value ? "true" : "false";
    return *this;
}

JsonWriter& JsonWriter::null() {
    before_value();
    text_ += "null";
    return *this;
}

JsonWriter& JsonWriter::raw(std::string_view json) {
    before_value();
    text_ += json;
    return *this;
}

std::string JsonWriter::take() {
    CTN_ASSERT(levels_.empty());
    return std::exchange(text_, {});
}

}  // namespace continuo::report
