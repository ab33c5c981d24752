// Seeds of tests in virtual time. A build with sanitizers is ten times as slow, so it takes a part
// of the seeds, one of CONTINUO_SEED_SHARE (default 16; `./test --soak` takes 4), and others: both
// builds together try more.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <vector>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CTN_HAS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define CTN_HAS_SANITIZER 1
#endif
#endif
#if !defined(CTN_HAS_SANITIZER)
#define CTN_HAS_SANITIZER 0
#endif

namespace continuo::tests {

inline constexpr bool kHasSanitizer = CTN_HAS_SANITIZER != 0;
inline constexpr uint64_t kFirstSanitizedSeed = 1'000'001;

inline uint64_t first_seed() {
    return kHasSanitizer ? kFirstSanitizedSeed : 1;
}

inline uint64_t seed_count(uint64_t count) {
    if (!kHasSanitizer) {
        return count;
    }
    const char* text = std::getenv("CONTINUO_SEED_SHARE");
    const uint64_t share = text != nullptr ? std::strtoull(text, nullptr, 10) : 16;
    return share == 0 ? count : (count + share - 1) / share;
}

inline std::vector<uint64_t> seeds(uint64_t count) {
    std::vector<uint64_t> list(seed_count(count));
    std::iota(list.begin(), list.end(), first_seed());
    return list;
}

}  // namespace continuo::tests
