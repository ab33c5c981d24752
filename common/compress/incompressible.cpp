#include "common/compress/incompressible.hpp"

#include <algorithm>
#include <array>

namespace continuo::compress {

using base::ByteView;

namespace {

constexpr size_t kRunBytes = 8;
constexpr size_t kRuns = kMaxSampledBytes / kRunBytes;
constexpr double kValues = 256.0;
// Collisions of random bytes stay below mean + 4 deviations but for one payload in 30 000.
constexpr double kDeviations = 4.0;

constexpr double power(double base, size_t exponent) {
    double result = 1.0;
    for (size_t i = 0; i < exponent; ++i) {
        result *= base;
    }
    return result;
}

constexpr double square_root(double value) {
    double root = value > 1.0 ? value : 1.0;
    for (int i = 0; i < 40; ++i) {
        root = (root + value / root) / 2.0;
    }
    return root;
}

// Most collisions that n random bytes are expected to show. The number of distinct values among n
// draws of 256 has mean 256 (1 - (255/256)^n) and variance 256 (255/256)^n + 256*255 (254/256)^n -
// 256^2 (255/256)^2n.
constexpr std::array<uint8_t, kMaxSampledBytes + 1> make_thresholds() {
    std::array<uint8_t, kMaxSampledBytes + 1> thresholds{};
    for (size_t n = 1; n <= kMaxSampledBytes; ++n) {
        const double missed = power((kValues - 1) / kValues, n);
        const double missed_both = power((kValues - 2) / kValues, n);
        const double mean = static_cast<double>(n) - kValues * (1.0 - missed);
        const double variance = kValues * missed + kValues * (kValues - 1) * missed_both -
                                kValues * kValues * missed * missed;
        const double deviation = variance > 0 ? square_root(variance) : 0.0;
        thresholds[n] = static_cast<uint8_t>(mean + kDeviations * deviation);
    }
    return thresholds;
}

constexpr auto kThresholds = make_thresholds();

}  // namespace

bool is_incompressible(ByteView payload) {
    if (payload.size() < kMinSampledBytes) {
        return false;
    }
    std::array<uint8_t, 256> seen{};
    size_t sampled = 0;
    if (payload.size() <= kMaxSampledBytes) {
        for (const uint8_t byte : payload) {
            seen[byte] = 1;
        }
        sampled = payload.size();
    } else {
        const size_t last_start = payload.size() - kRunBytes;
        for (size_t run = 0; run < kRuns; ++run) {
            const uint8_t* const from = payload.data() + last_start * run / (kRuns - 1);
            for (size_t i = 0; i < kRunBytes; ++i) {
                seen[from[i]] = 1;
            }
        }
        sampled = kMaxSampledBytes;
    }
    unsigned distinct = 0;
    for (const uint8_t is_seen : seen) {
        distinct += is_seen;
    }
    return sampled - distinct <= kThresholds[sampled];
}

}  // namespace continuo::compress
