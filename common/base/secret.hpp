// Secret: the bytes of a key, which are overwritten when the object dies. Each copy is one. Text
// that holds a key is wiped by its owner.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>
#include <vector>

namespace continuo::base {

// Not left out by the compiler, though nobody reads the bytes again.
inline void wipe(void* bytes, size_t count) {
    ::explicit_bzero(bytes, count);
}
inline void wipe(std::string& text) {
    wipe(text.data(), text.size());
}
inline void wipe(std::vector<uint8_t>& bytes) {
    wipe(bytes.data(), bytes.size());
}

// While it lives, and a text that is a local variable of it.
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
    Secret() : std::array<uint8_t, kBytes>{} {}
    // The first octets; the others are zero.
    Secret(std::initializer_list<uint8_t> first) : Secret() {
        std::copy_n(first.begin(), std::min(first.size(), kBytes), this->begin());
    }
    Secret(const Secret&) = default;
    Secret& operator=(const Secret&) = default;
    ~Secret() { wipe(this->data(), kBytes); }
};

}  // namespace continuo::base
