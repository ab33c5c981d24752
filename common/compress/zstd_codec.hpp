// ZstdCodec: stateless compression of one section. The wire carries the content of one compressed
// zstd block (RFC 8878 section 3.1.1.2.3): the 5 bytes before it (frame header descriptor, window,
// block header) are known and rebuilt by the receiver. docs/PROTOCOL.md section 7.1.
//
// All memory is taken in the constructor (about 2 MB); calls do not allocate. Not thread-safe;
// one a loop.
#pragma once

#include "common/base/bytes.hpp"
#include "common/base/result.hpp"

#include <memory>
#include <optional>

namespace continuo::compress {

// Limit of one section, on both sides.
inline constexpr size_t kMaxPlainBytes = 65536;
// Lowest and highest level; 0 compresses nothing.
inline constexpr int kMinLevel = -7;
inline constexpr int kMaxLevel = 19;
inline constexpr int kDefaultLevel = 3;

class ZstdCodec {
  public:
    ZstdCodec();
    ZstdCodec(const ZstdCodec&) = delete;
    ZstdCodec& operator=(const ZstdCodec&) = delete;
    ~ZstdCodec();

    // Clamped to the range above. Costs nothing when the level stays.
    void set_level(int level);
    int level() const { return level_; }

    // Bytes written to `to`; nothing when the section is to be stored raw. That is: level 0, more
    // than kMaxPlainBytes, not one compressed block, no room in `to`, or less than 2 bytes saved (a
    // compressed section's head is one longer).
    std::optional<size_t> compress(base::ByteView plain, base::MutableByteView to);

    // Bytes written to `to`, whose size (at most kMaxPlainBytes of it) bounds the output: zstd
    // never writes behind it. Errors: Truncated (no content), LimitReached (content is longer than
    // any output may be), Malformed (not one compressed block, or its output is longer than the
    // bound).
    base::Result<size_t> decompress(base::ByteView content, base::MutableByteView to);

  private:
    struct Contexts;
    std::unique_ptr<Contexts> contexts_;
    int level_ = kDefaultLevel;
};

}  // namespace continuo::compress
