// Offset deltas and zigzag (docs/PROTOCOL.md section 6.3). A k-byte offset delta carries the low 8k
// bits of a value that lies in [reference - 2^(8k-2), reference + 3 * 2^(8k-2)), modulo the field's
// width.
#pragma once

#include <concepts>
#include <cstdint>

namespace continuo::elision {

// `bytes` is less than the width of T.
template <std::unsigned_integral T>
constexpr bool fits_offset(T value, T reference, unsigned bytes) {
    const uint32_t back = 1U << (8 * bytes - 2);
    return static_cast<T>(value - reference + back) < (uint32_t{1} << (8 * bytes));
}

template <std::unsigned_integral T>
constexpr T from_offset(uint32_t low, T reference, unsigned bytes) {
    const uint32_t base = uint32_t{reference} - (1U << (8 * bytes - 2));
    const uint32_t mask = (uint32_t{1} << (8 * bytes)) - 1;
    return static_cast<T>(base + ((low - base) & mask));
}

// Distance of two points on the circle of T.
template <std::unsigned_integral T>
constexpr uint32_t distance(T value, T reference) {
    const T forward = static_cast<T>(value - reference);
    const T backward = static_cast<T>(reference - value);
    return forward < backward ? forward : backward;
}

constexpr uint32_t zigzag(int32_t value) {
    return (static_cast<uint32_t>(value) << 1) ^ static_cast<uint32_t>(value >> 31);
}
constexpr uint32_t from_zigzag(uint32_t coded) {
    return (coded >> 1) ^ (0U - (coded & 1U));
}

}  // namespace continuo::elision
