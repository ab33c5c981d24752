// The 12 bytes that make every sealing under one key unique: 0^16, space16, sequence64
// (docs/PROTOCOL.md section 3.2). AEAD ciphers xor them with the IV, HMAC hashes them first.
#pragma once

#include "common/crypto/datagram_cipher.hpp"

namespace continuo::crypto {

using SequencePrefix = std::array<uint8_t, kIvBytes>;

inline SequencePrefix sequence_prefix(uint16_t space, uint64_t sequence) {
    SequencePrefix prefix{};
    base::store_big_endian(prefix.data() + 2, space);
    base::store_big_endian(prefix.data() + 4, sequence);
    return prefix;
}

inline SequencePrefix nonce_of(const std::array<uint8_t, kIvBytes>& iv, const SealedUnit& unit) {
    SequencePrefix nonce = sequence_prefix(unit.space, unit.sequence);
    for (size_t i = 0; i < nonce.size(); ++i) {
        nonce[i] ^= iv[i];
    }
    return nonce;
}

}  // namespace continuo::crypto
