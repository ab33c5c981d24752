// is_incompressible: tells TLS, media and SSH payload from text and the like without compressing
// it, by counting how many of up to 192 sampled bytes have a value that was sampled before.
// Uniformly random bytes collide least; clearly more collisions mean that compression pays.
#pragma once

#include "common/base/bytes.hpp"

namespace continuo::compress {

inline constexpr size_t kMaxSampledBytes = 192;
// Shorter payloads give no result and count as compressible.
inline constexpr size_t kMinSampledBytes = 16;

// Samples runs of 8 bytes spread evenly, so that fields of a fixed width are seen whole.
bool is_incompressible(base::ByteView payload);

}  // namespace continuo::compress
