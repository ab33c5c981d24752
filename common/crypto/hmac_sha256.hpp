// HmacSha256: HMAC-SHA256 (RFC 2104, RFC 6234) of a short prefix and a message, with the states
// after the inner and the outer pad computed once per key. No allocation. Secrets are erased on
// destruction.
#pragma once

#include "common/base/bytes.hpp"

#include <array>

namespace continuo::crypto {

class HmacSha256 {
  public:
    static constexpr size_t kBlockBytes = 64;
    using Digest = std::array<uint8_t, 32>;

    // `key` has at most kBlockBytes.
    explicit HmacSha256(base::ByteView key);
    HmacSha256(const HmacSha256&) = delete;
    HmacSha256& operator=(const HmacSha256&) = delete;
    ~HmacSha256();

    Digest digest(base::ByteView prefix, base::ByteView message) const;

  private:
    using ChainingValue = std::array<uint32_t, 8>;

    ChainingValue inner_{};
    ChainingValue outer_{};
};

}  // namespace continuo::crypto
