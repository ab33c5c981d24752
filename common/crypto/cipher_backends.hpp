// The back ends behind make_cipher. Private to this layer.
#pragma once

#include "common/crypto/datagram_cipher.hpp"

namespace continuo::crypto {

// AES-256-GCM (NIST SP 800-38D) or ChaCha20-Poly1305 (RFC 8439), 16-byte tag. Errors: Unsupported
// (the library does not offer the cipher), System.
base::Result<std::unique_ptr<DatagramCipher>> make_aead_cipher(Protection protection,
                                                               const KeyMaterial& keys);

// HMAC-SHA256 (RFC 2104), cut to `tag_bytes`.
std::unique_ptr<DatagramCipher> make_hmac_cipher(const KeyMaterial& keys, size_t tag_bytes);

}  // namespace continuo::crypto
