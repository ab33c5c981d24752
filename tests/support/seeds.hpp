// Seeds of tests in virtual time. A build with sanitizers is ten times as slow and looks for other
// faults, which one schedule shows as well as the next: it takes a sixteenth of the seeds, and
// others, so that both builds together try more.
#pragma once

#include <cstdint>
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
    return kHasSanitizer ? (count + 15) / 16 : count;
}

inline std::vector<uint64_t> seeds(uint64_t count) {
    std::vector<uint64_t> list(seed_count(count));
    std::iota(list.begin(), list.end(), first_seed());
    return list;
}

}  // namespace continuo::tests
