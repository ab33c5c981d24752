#include "common/control/identity.hpp"

#include <algorithm>
#include <cstring>
#include <memory>

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>

namespace continuo::control {

namespace {

constexpr std::string_view kPskSalt = "continuo psk 1";
constexpr std::string_view kIdentityAad = "continuo identity 1";
constexpr uint8_t kPlainMarker = 0x01;
constexpr uint8_t kSealedMarker = 0x02;
constexpr size_t kNonceBytes = 12;
constexpr size_t kTagBytes = 16;
constexpr size_t kPadBytes = 32;
constexpr size_t kMaxTextBytesPadded = kMaxWireIdentityBytes - 1 - kNonceBytes - kTagBytes;
static_assert(kMaxUserBytes + 1 + kMaxKeyIdBytes <= kMaxTextBytesPadded);
static_assert(kMaxTextBytesPadded % kPadBytes == 0);

struct CipherContextDeleter {
    void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
};
using CipherContext = std::unique_ptr<EVP_CIPHER_CTX, CipherContextDeleter>;

const uint8_t* as_bytes(std::string_view text) {
    return static_cast<const uint8_t*>(static_cast<const void*>(text.data()));
}

void* unconst(const void* bytes) {
    return const_cast<void*>(bytes);
}

// One call of ChaCha20-Poly1305 over at most 128 bytes; lengths fit int.
bool start_cipher(EVP_CIPHER_CTX* context,
                  const IdentityKey& key,
                  const uint8_t* nonce,
                  int encrypt) {
    int unused = 0;
    return context != nullptr &&
           EVP_CipherInit_ex(context, EVP_chacha20_poly1305(), nullptr, key.data(), nonce,
                             encrypt) == 1 &&
           EVP_CipherUpdate(context, nullptr, &unused, as_bytes(kIdentityAad),
                            static_cast<int>(kIdentityAad.size())) == 1;
}

bool seal_in_place(base::MutableByteView text,
                   uint8_t* tag,
                   const IdentityKey& key,
                   const uint8_t* nonce) {
    const CipherContext context(EVP_CIPHER_CTX_new());
    int length = 0;
    return start_cipher(context.get(), key, nonce, 1) &&
           EVP_CipherUpdate(context.get(), text.data(), &length, text.data(),
                            static_cast<int>(text.size())) == 1 &&
           EVP_CipherFinal_ex(context.get(), text.data() + length, &length) == 1 &&
           EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_AEAD_GET_TAG, static_cast<int>(kTagBytes),
                               tag) == 1;
}

bool open_in_place(base::MutableByteView text,
                   const uint8_t* tag,
                   const IdentityKey& key,
                   const uint8_t* nonce) {
    const CipherContext context(EVP_CIPHER_CTX_new());
    int length = 0;
    return start_cipher(context.get(), key, nonce, 0) &&
           EVP_CipherUpdate(context.get(), text.data(), &length, text.data(),
                            static_cast<int>(text.size())) == 1 &&
           EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_AEAD_SET_TAG, static_cast<int>(kTagBytes),
                               unconst(tag)) == 1 &&
           EVP_CipherFinal_ex(context.get(), text.data() + length, &length) == 1;
}

bool is_valid_part(std::string_view part, size_t max_bytes) {
    return !part.empty() && part.size() <= max_bytes &&
           std::all_of(part.begin(), part.end(), [](char c) {
               const auto byte = static_cast<uint8_t>(c);
               return byte > 0x20 && byte != 0x7F && c != '/';
           });
}

base::Result<Identity> split_identity(base::ByteView text) {
    const auto slash = std::find(text.begin(), text.end(), uint8_t{'/'});
    if (slash == text.end()) {
        return base::Error{base::Errc::Malformed, "identity without '/'"};
    }
    Identity identity{std::string(text.begin(), slash), std::string(slash + 1, text.end())};
    if (!is_valid_identity(identity)) {
        return base::Error{base::Errc::Malformed, "identity"};
    }
    return identity;
}

base::Result<Identity> open_identity(base::ByteView wire, const IdentityKey& key) {
    if (wire.size() < 1 + kNonceBytes + kPadBytes + kTagBytes) {
        return base::Error{base::Errc::Malformed, "sealed identity"};
    }
    const base::ByteView nonce = wire.subspan(1, kNonceBytes);
    const base::ByteView sealed =
        wire.subspan(1 + kNonceBytes, wire.size() - 1 - kNonceBytes - kTagBytes);
    if (sealed.size() % kPadBytes != 0) {
        return base::Error{base::Errc::Malformed, "sealed identity"};
    }
    std::array<uint8_t, kMaxTextBytesPadded> buffer{};
    const base::MutableByteView text = base::MutableByteView(buffer).first(sealed.size());
    std::copy(sealed.begin(), sealed.end(), text.begin());
    if (!open_in_place(text, wire.last(kTagBytes).data(), key, nonce.data())) {
        return base::Error{base::Errc::Unauthentic, "sealed identity"};
    }
    const auto end = std::find(text.begin(), text.end(), uint8_t{0});
    if (!std::all_of(end, text.end(), [](uint8_t byte) { return byte == 0; })) {
        return base::Error{base::Errc::Malformed, "identity padding"};
    }
    return split_identity(base::ByteView(text.begin(), end));
}

}  // namespace

base::Secret<32> derive_key(const UserKey& key, std::string_view salt, std::string_view info) {
    base::Secret<32> result;
    EVP_KDF* kdf = EVP_KDF_fetch(nullptr, "HKDF", nullptr);
    CTN_ASSERT(kdf != nullptr);
    EVP_KDF_CTX* context = EVP_KDF_CTX_new(kdf);
    EVP_KDF_free(kdf);
    CTN_ASSERT(context != nullptr);
    std::array<char, 7> digest{"SHA256"};
    const std::array<OSSL_PARAM, 5> parameters = {
        OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest.data(), 0),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, unconst(key.data()), key.size()),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SALT, unconst(salt.data()), salt.size()),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, unconst(info.data()), info.size()),
        OSSL_PARAM_construct_end()};
    const int derived = EVP_KDF_derive(context, result.data(), result.size(), parameters.data());
    EVP_KDF_CTX_free(context);
    CTN_ASSERT(derived == 1);
    return result;
}

Psk derive_psk(const UserKey& key, std::string_view realm) {
    return derive_key(key, kPskSalt, realm);
}

bool is_valid_identity(const Identity& identity) {
    return is_valid_part(identity.user, kMaxUserBytes) &&
           is_valid_part(identity.key_id, kMaxKeyIdBytes);
}

std::vector<uint8_t> encode_identity(const Identity& identity,
                                     const std::optional<IdentityKey>& key,
                                     base::Random& random) {
    CTN_ASSERT(is_valid_identity(identity));
    const std::string text = identity.user + "/" + identity.key_id;
    std::vector<uint8_t> wire;
    if (!key) {
        wire.resize(1 + text.size());
        wire[0] = kPlainMarker;
        std::copy(text.begin(), text.end(), wire.begin() + 1);
        return wire;
    }
    const size_t padded = (text.size() + kPadBytes - 1) / kPadBytes * kPadBytes;
    wire.resize(1 + kNonceBytes + padded + kTagBytes, 0);
    wire[0] = kSealedMarker;
    const base::MutableByteView view(wire);
    const base::MutableByteView nonce = view.subspan(1, kNonceBytes);
    const base::MutableByteView body = view.subspan(1 + kNonceBytes, padded);
    random.fill(nonce);
    std::copy(text.begin(), text.end(), body.begin());
    const bool sealed = seal_in_place(body, view.last(kTagBytes).data(), *key, nonce.data());
    CTN_ASSERT(sealed);
    return wire;
}

base::Result<Identity> decode_identity(base::ByteView wire, const std::optional<IdentityKey>& key) {
    if (wire.empty() || wire.size() > kMaxWireIdentityBytes) {
        return base::Error{base::Errc::Malformed, "identity length"};
    }
    switch (wire.front()) {
    case kPlainMarker:
        return split_identity(wire.subspan(1));
    case kSealedMarker:
        if (!key) {
            return base::Error{base::Errc::UnknownKey, "sealed identity"};
        }
        return open_identity(wire, *key);
    default:
        return base::Error{base::Errc::Malformed, "identity marker"};
    }
}

}  // namespace continuo::control
