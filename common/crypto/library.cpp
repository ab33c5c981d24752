#include "common/crypto/library.hpp"

#include <openssl/crypto.h>

namespace continuo::crypto {

void begin_library() {
    // If it fails, so does everything that needs OpenSSL, and says so.
    static_cast<void>(OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr));
}

}  // namespace continuo::crypto
