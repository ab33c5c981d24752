// Secret: the bytes of a key, overwritten when the object is destroyed. Copies do the same. Text
// that contains a key is wiped by its owner.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <vector>

namespace continuo::base {

// The compiler must not remove this, though nobody reads the bytes again.
inline void wipe(void* bytes, size_t count) {
    ::explicit_bzero(bytes, count);
}
inline void wipe(std::string& text) {
    wipe(text.data(), text.size());
}
inline void wipe(std::vector<uint8_t>& bytes) {
    wipe(bytes.data(), bytes.size());
}

// Wipes a local text variable at the end of its scope.
class WipedAtEnd {
  public:
    explicit WipedAtEnd(std::string& text) : text_(text) {}
    WipedAtEnd(const WipedAtEnd&) = delete;
    WipedAtEnd& operator=(const WipedAtEnd&) = delete;
    ~WipedAtEnd() { wipe(text_); }

  private:
    std::string& text_;
};

template <size_t kBytes>
struct Secret : std::array<uint8_t, kBytes> {
    constexpr Secret() : std::array<uint8_t, kBytes>{} {}
    constexpr Secret(const std::array<uint8_t, kBytes>& bytes)
        : std::array<uint8_t, kBytes>(bytes) {}
    // The first bytes; the others are zero.
    constexpr Secret(std::initializer_list<uint8_t> bytes) : Secret() {
        std::copy_n(bytes.begin(), std::min(bytes.size(), kBytes), this->begin());
    }
    constexpr Secret(const Secret&) = default;
    constexpr Secret& operator=(const Secret&) = default;
    constexpr ~Secret() {
        if (!std::is_constant_evaluated()) {
            wipe(this->data(), kBytes);
        }
    }
};

}  // namespace continuo::base
