// DatagramCipher: protects datagrams in batches, in place. One object is one key (session, epoch,
// direction); contexts are prepared once. A back end with vector instructions or multi-buffer
// hashing fits behind the same calls. docs/PROTOCOL.md section 2; RFC 5116, RFC 8439, RFC 2104.
#pragma once

#include "common/base/bytes.hpp"
#include "common/base/result.hpp"
#include "common/base/secret.hpp"

#include <array>
#include <memory>

namespace continuo::crypto {

enum class Protection : uint8_t {
    Aes256Gcm,
    ChaCha20Poly1305,
    HmacSha256,  // readable payload
};

inline constexpr size_t kKeyBytes = 32;
inline constexpr size_t kIvBytes = 12;
inline constexpr size_t kMaxTagBytes = 16;

struct KeyMaterial {
    base::Secret<kKeyBytes> key;
    base::Secret<kIvBytes> iv;  // unused by HmacSha256
};

// One datagram: header, body, then room for the tag (seal) or the tag (open).
struct SealedUnit {
    base::MutableByteView datagram;
    uint8_t header_bytes = 0;  // associated data: the header as sent
    uint16_t space = 0;        // 0^7 class path lane
    uint64_t sequence = 0;     // full
    bool authentic = false;    // result of open
};

class DatagramCipher {
  public:
    DatagramCipher() = default;
    DatagramCipher(const DatagramCipher&) = delete;
    DatagramCipher& operator=(const DatagramCipher&) = delete;
    virtual ~DatagramCipher() = default;

    virtual size_t tag_bytes() const = 0;
    virtual void seal(std::span<SealedUnit> units) = 0;
    // Sets `authentic` of each; the body is plaintext only where it is true.
    virtual void open(std::span<SealedUnit> units) = 0;
};

// `tag_bytes` is 16, or 10 with HmacSha256. Errors: Unsupported, System.
base::Result<std::unique_ptr<DatagramCipher>>
make_cipher(Protection protection, const KeyMaterial& keys, size_t tag_bytes);

// True where AES instructions make AES-256-GCM the faster choice.
bool has_fast_aes();

}  // namespace continuo::crypto
