// SizePredictor: how long a section will be once compressed, from those before it (one object a
// class), so that an aggregate is filled to its compressed size without trial compression. Predicts
// high: the mean ratio plus twice its mean deviation, as RFC 6298 does for round trips.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace continuo::compress {

class SizePredictor {
  public:
    // Until the first update every section is expected to stay as long as it is.
    double ratio() const {
        return std::clamp(mean_ + kDeviationWeight * deviation_, kMinRatio, kMaxRatio);
    }
    size_t predict(size_t plain_bytes) const {
        return static_cast<size_t>(std::ceil(static_cast<double>(plain_bytes) * ratio()));
    }
    // Plain bytes that are predicted to fill `target_bytes`.
    size_t plain_for(size_t target_bytes) const {
        return static_cast<size_t>(static_cast<double>(target_bytes) / ratio());
    }
    // What a section turned out to be; raw ones have `wire_bytes` = `plain_bytes`. Empty ones are
    // ignored.
    void update(size_t plain_bytes, size_t wire_bytes) {
        if (plain_bytes == 0) {
            return;
        }
        const double sample = static_cast<double>(wire_bytes) / static_cast<double>(plain_bytes);
        if (!has_sample_) {
            has_sample_ = true;
            mean_ = sample;
            deviation_ = sample / 8;
            return;
        }
        deviation_ += (std::abs(sample - mean_) - deviation_) * kDeviationGain;
        mean_ += (sample - mean_) * kMeanGain;
    }

  private:
    static constexpr double kMeanGain = 1.0 / 8;
    static constexpr double kDeviationGain = 1.0 / 8;
    static constexpr double kDeviationWeight = 2.0;
    static constexpr double kMinRatio = 1.0 / 64;
    static constexpr double kMaxRatio = 1.0;

    double mean_ = 1.0;
    double deviation_ = 0.0;
    bool has_sample_ = false;
};

}  // namespace continuo::compress
