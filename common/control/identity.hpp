// The identity of a node: the pre-shared key of the handshake, and the name sent for it. Another
// operator never learns a user's key, because the handshake uses a key derived for one realm. An
// observer never learns the user's name, because the identity is sealed with a key that the realm's
// nodes and SNAPTs share. docs/PROTOCOL.md section 4.2.
#pragma once

#include "common/base/bytes.hpp"
#include "common/base/random.hpp"
#include "common/base/result.hpp"
#include "common/base/secret.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace continuo::control {

inline constexpr size_t kUserKeyBytes = 32;
inline constexpr size_t kPskBytes = 32;
inline constexpr size_t kIdentityKeyBytes = 32;
inline constexpr size_t kMaxUserBytes = 64;
inline constexpr size_t kMaxKeyIdBytes = 32;
// Marker, nonce, padded "user/key_id", tag.
inline constexpr size_t kMaxWireIdentityBytes = 1 + 12 + 128 + 16;

using UserKey = base::Secret<kUserKeyBytes>;
using Psk = base::Secret<kPskBytes>;
using IdentityKey = base::Secret<kIdentityKeyBytes>;

struct Identity {
    std::string user;    // 1 to kMaxUserBytes bytes, no '/', no control characters
    std::string key_id;  // 1 to kMaxKeyIdBytes bytes, likewise
    bool operator==(const Identity&) const = default;
};

// HKDF-SHA256 (RFC 5869): secret `key`. Each use has a salt of its own.
base::Secret<32> derive_key(const UserKey& key, std::string_view salt, std::string_view info);
// Salt "continuo psk 1", info `realm`.
Psk derive_psk(const UserKey& key, std::string_view realm);

bool is_valid_identity(const Identity& identity);

// The bytes that go into the ClientHello. Without `key` they are readable. `identity` must be
// valid.
std::vector<uint8_t> encode_identity(const Identity& identity,
                                     const std::optional<IdentityKey>& key,
                                     base::Random& random);

// Accepts both forms; the sealed one only with the right key.
// Errors: Malformed, Unauthentic, UnknownKey (sealed, but no key here).
base::Result<Identity> decode_identity(base::ByteView wire, const std::optional<IdentityKey>& key);

}  // namespace continuo::control
