// Views of bytes and cursors over them: big-endian, bounds-checked, with a sticky error, so that a
// parser reads all its fields and checks once at the end. `varint` is little-endian base 128
// (docs/PROTOCOL.md section 3).
#pragma once

#include "common/base/assert.hpp"

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace continuo::base {

using ByteView = std::span<const uint8_t>;
using MutableByteView = std::span<uint8_t>;

template <std::unsigned_integral T>
T load_big_endian(const uint8_t* from) {
    T value = 0;
    std::memcpy(&value, from, sizeof value);
    if constexpr (sizeof(T) == 2) {
        return __builtin_bswap16(value);
    } else if constexpr (sizeof(T) == 4) {
        return __builtin_bswap32(value);
    } else if constexpr (sizeof(T) == 8) {
        return __builtin_bswap64(value);
    } else {
        return value;
    }
}

template <std::unsigned_integral T>
void store_big_endian(uint8_t* to, T value) {
    if constexpr (sizeof(T) == 2) {
        value = __builtin_bswap16(value);
    } else if constexpr (sizeof(T) == 4) {
        value = __builtin_bswap32(value);
    } else if constexpr (sizeof(T) == 8) {
        value = __builtin_bswap64(value);
    }
    std::memcpy(to, &value, sizeof value);
}

inline constexpr size_t kMaxVarintBytes = 10;

constexpr size_t varint_bytes(uint64_t value) {
    return value == 0 ? 1 : (static_cast<size_t>(std::bit_width(value)) + 6) / 7;
}

// Reads from the front of a view that must outlive it. After a failed read all later reads return
// zero.
class ByteReader {
  public:
    explicit ByteReader(ByteView bytes) : rest_(bytes) {}

    bool ok() const { return ok_; }
    size_t remaining() const { return rest_.size(); }
    bool at_end() const { return rest_.empty(); }
    ByteView rest() const { return rest_; }
    void fail() {
        ok_ = false;
        rest_ = {};
    }

    uint8_t u8() { return integer<uint8_t>(); }
    uint16_t u16() { return integer<uint16_t>(); }
    uint32_t u32() { return integer<uint32_t>(); }
    uint64_t u64() { return integer<uint64_t>(); }
    uint32_t u24() {
        const uint32_t high = u8();
        return high << 16 | u16();
    }
    // Non-canonical forms (a last group of zero after others) and values above 2^64-1 are errors.
    uint64_t varint() {
        uint64_t value = 0;
        for (unsigned shift = 0; shift < 64; shift += 7) {
            const uint8_t group = u8();
            const uint64_t low = group & 0x7FU;
            if (!ok_ || (shift == 63 && low > 1) || (shift > 0 && group == 0)) {
                fail();
                return 0;
            }
            value |= low << shift;
            if ((group & 0x80U) == 0) {
                return value;
            }
        }
        fail();
        return 0;
    }
    ByteView bytes(size_t count) {
        if (count > rest_.size()) {
            fail();
            return {};
        }
        const ByteView taken = rest_.first(count);
        rest_ = rest_.subspan(count);
        return taken;
    }

  private:
    template <std::unsigned_integral T>
    T integer() {
        if (rest_.size() < sizeof(T)) {
            fail();
            return 0;
        }
        const T value = load_big_endian<T>(rest_.data());
        rest_ = rest_.subspan(sizeof(T));
        return value;
    }

    ByteView rest_;
    bool ok_ = true;
};

// Writes to the front of a buffer that must outlive it. A value that does not fit is not written
// and makes ok() false.
class ByteWriter {
  public:
    explicit ByteWriter(MutableByteView buffer) : buffer_(buffer) {}

    bool ok() const { return ok_; }
    size_t size() const { return used_; }
    size_t room() const { return buffer_.size() - used_; }
    MutableByteView written() const { return buffer_.first(used_); }
    // Drops everything written after `size`, and a failure with it.
    void rewind(size_t size) {
        CTN_ASSERT(size <= used_);
        used_ = size;
        ok_ = true;
    }

    void u8(uint8_t value) { integer(value); }
    void u16(uint16_t value) { integer(value); }
    void u24(uint32_t value) {
        u8(static_cast<uint8_t>(value >> 16));
        u16(static_cast<uint16_t>(value));
    }
    void u32(uint32_t value) { integer(value); }
    void u64(uint64_t value) { integer(value); }
    void varint(uint64_t value) {
        while (value > 0x7F) {
            u8(static_cast<uint8_t>(value | 0x80U));
            value >>= 7;
        }
        u8(static_cast<uint8_t>(value));
    }
    void bytes(ByteView from) {
        const MutableByteView to = reserve(from.size());
        if (to.size() == from.size() && !from.empty()) {
            std::memcpy(to.data(), from.data(), from.size());
        }
    }
    void zeros(size_t count) {
        const MutableByteView to = reserve(count);
        if (!to.empty()) {
            std::memset(to.data(), 0, to.size());
        }
    }
    // Room for `count` bytes that the caller fills; empty when they do not fit.
    MutableByteView reserve(size_t count) {
        if (!ok_ || count > room()) {
            ok_ = false;
            return {};
        }
        const MutableByteView place = buffer_.subspan(used_, count);
        used_ += count;
        return place;
    }

  private:
    template <std::unsigned_integral T>
    void integer(T value) {
        const MutableByteView to = reserve(sizeof(T));
        if (!to.empty()) {
            store_big_endian(to.data(), value);
        }
    }

    MutableByteView buffer_;
    size_t used_ = 0;
    bool ok_ = true;
};

}  // namespace continuo::base
