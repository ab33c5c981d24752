// HMAC-SHA256 over the low-level SHA-256 calls. OpenSSL 3.0 deprecates them in favour of EVP, whose
// context copy allocates twice and costs 60 to 130 ns more a datagram.
#include "common/crypto/cipher_backends.hpp"
#include "common/crypto/hmac_sha256.hpp"
#include "common/crypto/nonce.hpp"

#include <algorithm>
#include <iterator>

#include <openssl/crypto.h>
#include <openssl/sha.h>

namespace continuo::crypto {

using base::ByteView;

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace {

constexpr uint8_t kInnerPad = 0x36;
constexpr uint8_t kOuterPad = 0x5C;

// Makes `hash` one that has taken a block (the padded key) and stands at `value`.
template <typename Value>
void resume(SHA256_CTX& hash, const Value& value) {
    std::copy(value.begin(), value.end(), std::begin(hash.h));
    hash.Nl = HmacSha256::kBlockBytes * 8;
    hash.Nh = 0;
    hash.num = 0;
    hash.md_len = SHA256_DIGEST_LENGTH;
}

template <typename Value>
Value absorb_key(ByteView key, uint8_t pad) {
    std::array<uint8_t, HmacSha256::kBlockBytes> block{};
    std::copy(key.begin(), key.end(), block.begin());
    for (uint8_t& byte : block) {
        byte ^= pad;
    }
    SHA256_CTX hash;
    SHA256_Init(&hash);
    SHA256_Transform(&hash, block.data());
    Value value{};
    std::copy_n(std::begin(hash.h), value.size(), value.begin());
    OPENSSL_cleanse(&hash, sizeof hash);
    OPENSSL_cleanse(block.data(), block.size());
    return value;
}

}  // namespace

HmacSha256::HmacSha256(ByteView key) {
    CTN_ASSERT(key.size() <= kBlockBytes);
    inner_ = absorb_key<ChainingValue>(key, kInnerPad);
    outer_ = absorb_key<ChainingValue>(key, kOuterPad);
}

HmacSha256::~HmacSha256() {
    OPENSSL_cleanse(inner_.data(), sizeof inner_);
    OPENSSL_cleanse(outer_.data(), sizeof outer_);
}

HmacSha256::Digest HmacSha256::digest(ByteView prefix, ByteView message) const {
    Digest result;
    SHA256_CTX hash;
    resume(hash, inner_);
    SHA256_Update(&hash, prefix.data(), prefix.size());
    SHA256_Update(&hash, message.data(), message.size());
    SHA256_Final(result.data(), &hash);
    resume(hash, outer_);
    SHA256_Update(&hash, result.data(), result.size());
    SHA256_Final(result.data(), &hash);
    return result;
}

#pragma GCC diagnostic pop

namespace {

class HmacCipher final : public DatagramCipher {
  public:
    HmacCipher(const KeyMaterial& keys, size_t tag_bytes)
        : hmac_(keys.key), tag_bytes_(tag_bytes) {}

    size_t tag_bytes() const override { return tag_bytes_; }
    void seal(std::span<SealedUnit> units) override {
        for (const SealedUnit& unit : units) {
            CTN_ASSERT(unit.datagram.size() >= unit.header_bytes + tag_bytes_);
            const HmacSha256::Digest digest = digest_of(unit);
            std::copy_n(digest.begin(), tag_bytes_, unit.datagram.last(tag_bytes_).begin());
        }
    }
    void open(std::span<SealedUnit> units) override {
        for (SealedUnit& unit : units) {
            unit.authentic = unit.datagram.size() >= unit.header_bytes + tag_bytes_ &&
                             CRYPTO_memcmp(digest_of(unit).data(),
                                           unit.datagram.last(tag_bytes_).data(), tag_bytes_) == 0;
        }
    }

  private:
    HmacSha256::Digest digest_of(const SealedUnit& unit) const {
        return hmac_.digest(sequence_prefix(unit.space, unit.sequence),
                            unit.datagram.first(unit.datagram.size() - tag_bytes_));
    }

    HmacSha256 hmac_;
    size_t tag_bytes_;
};

}  // namespace

std::unique_ptr<DatagramCipher> make_hmac_cipher(const KeyMaterial& keys, size_t tag_bytes) {
    return std::make_unique<HmacCipher>(keys, tag_bytes);
}

}  // namespace continuo::crypto
