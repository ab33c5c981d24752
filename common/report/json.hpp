// JsonWriter: builds one JSON text, value after value. Integers are exact, doubles have a fixed
// number of decimals, unknown values are null, and bytes that are not UTF-8 (process names may be
// anything) become U+FFFD. Control characters of a terminal are escaped (base/printable.hpp).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace continuo::report {

// With quotes.
std::string json_string(std::string_view text);

// Objects and arrays must be closed in the order they were opened, and inside an object each value
// needs its key.
class JsonWriter {
  public:
    JsonWriter& begin_object();
    JsonWriter& end_object();
    JsonWriter& begin_array();
    JsonWriter& end_array();
    JsonWriter& key(std::string_view name);

    JsonWriter& string(std::string_view text);
    JsonWriter& integer(int64_t value);
    JsonWriter& unsigned_integer(uint64_t value);
    // At most `decimals` digits behind the point; null when not finite.
    JsonWriter& number(double value, int decimals = 6);
    JsonWriter& boolean(bool value);
    JsonWriter& null();
    // A whole JSON text, made by another writer.
    JsonWriter& raw(std::string_view json);

    template <typename T>
    JsonWriter& value(const T& from) {
        if constexpr (std::is_same_v<T, bool>) {
            return boolean(from);
        } else if constexpr (std::is_convertible_v<T, std::string_view>) {
            return string(from);
        } else if constexpr (std::is_floating_point_v<T>) {
            return number(from);
        } else if constexpr (std::is_unsigned_v<T>) {
            return unsigned_integer(from);
        } else {
            static_assert(std::is_signed_v<T>);
            return integer(from);
        }
    }
    template <typename T>
    JsonWriter& value(const std::optional<T>& from) {
        return from ? value(*from) : null();
    }
    template <typename T>
    JsonWriter& field(std::string_view name, const T& from) {
        key(name);
        return value(from);
    }
    JsonWriter& field(std::string_view name, double from, int decimals) {
        key(name);
        return number(from, decimals);
    }

    // The text so far; everything must be closed. The writer is empty afterwards.
    std::string take();

  private:
    enum class Frame : uint8_t { Object, Array };
    struct Level {
        Frame frame = Frame::Object;
        bool is_empty = true;
    };
    void before_value();

    std::string text_;
    std::vector<Level> levels_;
    bool has_key_ = false;
};

}  // namespace continuo::report
