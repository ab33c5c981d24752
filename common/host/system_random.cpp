#include "common/host/system_random.hpp"

#include "common/base/assert.hpp"

#include <cerrno>

#include <sys/random.h>

namespace continuo::host {

void SystemRandom::fill(base::MutableByteView bytes) {
    while (!bytes.empty()) {
        const ssize_t got = ::getrandom(bytes.data(), bytes.size(), 0);
        // Without randomness there is no security: nothing sensible can follow.
        CTN_ASSERT(got > 0 || errno == EINTR);
        if (got > 0) {
            bytes = bytes.subspan(static_cast<size_t>(got));
        }
    }
}

}  // namespace continuo::host
