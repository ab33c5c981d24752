#include "common/crypto/datagram_cipher.hpp"

#include "common/crypto/cipher_backends.hpp"
#include "common/wire/constants.hpp"

#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace continuo::crypto {

using base::Errc;
using base::Error;
using base::Result;

Result<std::unique_ptr<DatagramCipher>>
make_cipher(Protection protection, const KeyMaterial& keys, size_t tag_bytes) {
    if (protection == Protection::HmacSha256) {
        if (tag_bytes != wire::kFullTagBytes && tag_bytes != wire::kShortTagBytes) {
            return Error{Errc::Unsupported, "tag length"};
        }
        return make_hmac_cipher(keys, tag_bytes);
    }
    if (tag_bytes != wire::kFullTagBytes) {
        return Error{Errc::Unsupported, "tag length"};
    }
    return make_aead_cipher(protection, keys);
}

bool has_fast_aes() {
#if defined(__x86_64__) || defined(__i386__)
    return static_cast<bool>(__builtin_cpu_supports("aes")) &&
           static_cast<bool>(__builtin_cpu_supports("pclmul"));
#elif defined(__aarch64__)
    const unsigned long features = getauxval(AT_HWCAP);
    return (features & HWCAP_AES) != 0 && (features & HWCAP_PMULL) != 0;
#else
    return false;
#endif
}

}  // namespace continuo::crypto
