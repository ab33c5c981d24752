// AEAD over EVP: two contexts (seal, open) hold the expanded key; a datagram costs a nonce, one
// update of associated data, one of the body, and the tag.
#include "common/crypto/cipher_backends.hpp"
#include "common/crypto/nonce.hpp"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>

namespace continuo::crypto {

using base::Errc;
using base::Error;
using base::Result;

namespace {

constexpr size_t kTagBytes = 16;

struct CipherContextDeleter {
    void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
};
using CipherContext = std::unique_ptr<EVP_CIPHER_CTX, CipherContextDeleter>;

// Fetched on first use and kept for the life of the process: a fetch takes locks and allocates.
const EVP_CIPHER* fetched_cipher(Protection protection) {
    static const EVP_CIPHER* const aes = EVP_CIPHER_fetch(nullptr, "AES-256-GCM", nullptr);
    static const EVP_CIPHER* const cha_cha =
        EVP_CIPHER_fetch(nullptr, "ChaCha20-Poly1305", nullptr);
    return protection == Protection::Aes256Gcm ? aes : cha_cha;
}

class AeadCipher final : public DatagramCipher {
  public:
    AeadCipher(CipherContext sealing, CipherContext opening, const KeyMaterial& keys)
        : sealing_(std::move(sealing)), opening_(std::move(opening)), iv_(keys.iv) {}
    AeadCipher(const AeadCipher&) = delete;
    AeadCipher& operator=(const AeadCipher&) = delete;
    // Contexts erase their key when they are freed.
    ~AeadCipher() override { OPENSSL_cleanse(iv_.data(), iv_.size()); }

    size_t tag_bytes() const override { return kTagBytes; }
    void seal(std::span<SealedUnit> units) override {
        for (const SealedUnit& unit : units) {
            CTN_ASSERT(unit.datagram.size() >= unit.header_bytes + kTagBytes);
            CTN_ASSERT(seal_one(unit));
        }
    }
    void open(std::span<SealedUnit> units) override {
        for (SealedUnit& unit : units) {
            unit.authentic =
                unit.datagram.size() >= unit.header_bytes + kTagBytes && open_one(unit);
        }
    }

  private:
    bool seal_one(const SealedUnit& unit);
    bool open_one(const SealedUnit& unit);

    CipherContext sealing_;
    CipherContext opening_;
    std::array<uint8_t, kIvBytes> iv_;
};

bool AeadCipher::seal_one(const SealedUnit& unit) {
    EVP_CIPHER_CTX* const context = sealing_.get();
    const SequencePrefix nonce = nonce_of(iv_, unit);
    uint8_t* const body = unit.datagram.data() + unit.header_bytes;
    const auto body_bytes = static_cast<int>(unit.datagram.size() - unit.header_bytes - kTagBytes);
    int written = 0;
    if (EVP_EncryptInit_ex(context, nullptr, nullptr, nullptr, nonce.data()) != 1 ||
        EVP_EncryptUpdate(context, nullptr, &written, unit.datagram.data(), unit.header_bytes) !=
            1) {
        return false;
    }
    if (body_bytes > 0 && EVP_EncryptUpdate(context, body, &written, body, body_bytes) != 1) {
        return false;
    }
    uint8_t* const tag = body + body_bytes;
    if (EVP_EncryptFinal_ex(context, tag, &written) != 1) {
        return false;
    }
    std::array<OSSL_PARAM, 2> parameters = {
        OSSL_PARAM_construct_octet_string(OSSL_CIPHER_PARAM_AEAD_TAG, tag, kTagBytes),
        OSSL_PARAM_construct_end()};
    return EVP_CIPHER_CTX_get_params(context, parameters.data()) == 1;
}

bool AeadCipher::open_one(const SealedUnit& unit) {
    EVP_CIPHER_CTX* const context = opening_.get();
    const SequencePrefix nonce = nonce_of(iv_, unit);
    uint8_t* const body = unit.datagram.data() + unit.header_bytes;
    const auto body_bytes = static_cast<int>(unit.datagram.size() - unit.header_bytes - kTagBytes);
    const std::array<OSSL_PARAM, 2> parameters = {
        OSSL_PARAM_construct_octet_string(OSSL_CIPHER_PARAM_AEAD_TAG, body + body_bytes, kTagBytes),
        OSSL_PARAM_construct_end()};
    int written = 0;
    if (EVP_DecryptInit_ex2(context, nullptr, nullptr, nonce.data(), parameters.data()) != 1 ||
        EVP_DecryptUpdate(context, nullptr, &written, unit.datagram.data(), unit.header_bytes) !=
            1) {
        return false;
    }
    if (body_bytes > 0 && EVP_DecryptUpdate(context, body, &written, body, body_bytes) != 1) {
        return false;
    }
    uint8_t unused = 0;
    return EVP_DecryptFinal_ex(context, &unused, &written) == 1;
}

}  // namespace

Result<std::unique_ptr<DatagramCipher>> make_aead_cipher(Protection protection,
                                                         const KeyMaterial& keys) {
    const EVP_CIPHER* const cipher = fetched_cipher(protection);
    if (cipher == nullptr) {
        return Error{Errc::Unsupported, "cipher"};
    }
    CipherContext sealing(EVP_CIPHER_CTX_new());
    CipherContext opening(EVP_CIPHER_CTX_new());
    if (!sealing || !opening ||
        EVP_EncryptInit_ex(sealing.get(), cipher, nullptr, keys.key.data(), nullptr) != 1 ||
        EVP_DecryptInit_ex(opening.get(), cipher, nullptr, keys.key.data(), nullptr) != 1) {
        return Error{Errc::System, "cipher context"};
    }
    return std::unique_ptr<DatagramCipher>(
        std::make_unique<AeadCipher>(std::move(sealing), std::move(opening), keys));
}

}  // namespace continuo::crypto
