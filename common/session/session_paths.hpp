// Striper: which path the next datagram of a striped row takes, in proportion to the weights of the
// paths. Pure; one per row.
#pragma once

#include "common/session/path_set.hpp"

#include <algorithm>
#include <array>
#include <bit>

namespace continuo::session {

// Pure acknowledgements of TCP may be striped in a row of their own (base::Striping).
enum class StripeRow : uint8_t { Data, Acks };
inline constexpr size_t kStripeRows = 2;

// Factor over its known delivery rate that a path which is not full may get.
inline constexpr double kUntriedShare = 1.25;

// Weights for sharing out: the delivery rate that the peer reports for each path. A path that was
// never full has not shown its rate: it counts as fast as the fastest path that has; all are equal
// where none has.
using PathWeights = std::array<double, wire::kMaxPaths>;
inline PathWeights weights_of(const PathSet& paths, PathMask mask) {
    PathWeights weights{};
    double fastest = 0;
    for (unsigned left = mask; left != 0; left &= left - 1) {
        const auto index = static_cast<uint8_t>(std::countr_zero(left));
        const Path& path = paths.path(index);
        weights[index] =
            static_cast<double>(path.delivery_bytes_per_s) * (path.is_full ? 1.0 : kUntriedShare);
        fastest = path.was_full ? std::max(fastest, weights[index]) : fastest;
    }
    for (unsigned left = mask; left != 0; left &= left - 1) {
        const auto index = static_cast<uint8_t>(std::countr_zero(left));
        if (fastest == 0) {
            weights[index] = 1.0;
        } else if (!paths.path(index).was_full) {
            weights[index] = std::max(weights[index], fastest);
        }
    }
    return weights;
}

class Striper {
  public:
    // The path of `mask`, which must not be 0, that is furthest behind its share.
    uint8_t next(PathMask mask) {
        join(mask);
        auto best = static_cast<uint8_t>(std::countr_zero(mask));
        for (uint8_t index = best; index < wire::kMaxPaths; ++index) {
            if ((mask & mask_of(index)) != 0 && sent_[index] < sent_[best]) {
                best = index;
            }
        }
        return best;
    }
    // Another rule chooses the path meanwhile: shares start anew at the next call of next().
    void begin_anew() { mask_ = 0; }
    void on_sent(uint8_t index, PathMask mask, const PathWeights& weights, size_t bytes) {
        double sum = 0;
        for (uint8_t any = 0; any < wire::kMaxPaths; ++any) {
            sum += (mask & mask_of(any)) != 0 ? weights[any] : 0.0;
        }
        if (weights[index] > 0) {
            sent_[index] += static_cast<double>(bytes) * sum / weights[index];
        }
    }

  private:
    // A path that joins starts level with the others; it does not make up for its absence.
    void join(PathMask mask) {
        const auto joining = static_cast<PathMask>(mask & ~mask_);
        const auto staying = static_cast<PathMask>(mask & mask_);
        if (joining != 0) {
            double least = 0;
            bool is_first = true;
            for (uint8_t index = 0; index < wire::kMaxPaths; ++index) {
                if ((staying & mask_of(index)) != 0) {
                    least = is_first ? sent_[index] : std::min(least, sent_[index]);
                    is_first = false;
                }
            }
            for (uint8_t index = 0; index < wire::kMaxPaths; ++index) {
                sent_[index] = (joining & mask_of(index)) != 0 ? least : sent_[index];
            }
        }
        mask_ = mask;
    }

    std::array<double, wire::kMaxPaths> sent_{};  // bytes, divided by the path's share
    PathMask mask_ = 0;
};

}  // namespace continuo::session
