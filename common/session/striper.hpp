// Striper: which path the next datagram of a striped row takes, in proportion to the weights of the
// paths. Pure; one for each row.
#pragma once

#include "common/session/path_set.hpp"

#include <algorithm>
#include <array>
#include <bit>

namespace continuo::session {

// Pure acknowledgements of TCP may be striped in a row of their own (base::Striping).
enum class StripeRow : uint8_t { Data, Acks };
inline constexpr size_t kStripeRows = 2;

// What a path that is not full may take beyond what it is known to deliver.
inline constexpr double kUntriedShare = 1.25;

// Of each path, for what is shared out: the delivery rate that the peer reports. A path that was
// never sent as much as it takes could not show what it can do: it is taken for as fast as the
// fastest that has shown it; all are alike where none has.
using PathWeights = std::array<double, wire::kMaxPaths>;
inline PathWeights weights_of(const PathSet& paths, PathMask mask) {
    PathWeights weights{};
    double fastest = 0;
    for (unsigned left = mask; left != 0; left &= left - 1) {
        const auto index = static_cast<uint8_t>(std::countr_zero(left));
        const Path& path = paths.path(index);
        weights[index] = static_cast<double>(path.delivered().bytes_per_s) *
                         (path.delivered().is_full ? 1.0 : kUntriedShare);
        fastest = path.delivered().was_full ? std::max(fastest, weights[index]) : fastest;
    }
    for (unsigned left = mask; left != 0; left &= left - 1) {
        const auto index = static_cast<uint8_t>(std::countr_zero(left));
        if (fastest == 0) {
            weights[index] = 1.0;
        } else if (!paths.path(index).delivered().was_full) {
            weights[index] = std::max(weights[index], fastest);
        }
    }
    return weights;
}

class Striper {
  public:
    // Of the paths in `mask`, which is not 0, the one that is furthest behind its share.
    uint8_t next(PathMask mask) const {
        const Sent sent = joined(mask);
        auto best = static_cast<uint8_t>(std::countr_zero(mask));
        for (uint8_t index = best; index < wire::kMaxPaths; ++index) {
            if ((mask & mask_of(index)) != 0 && sent[index] < sent[best]) {
                best = index;
            }
        }
        return best;
    }
    // So many bytes left by path `index`, the next() of the paths in `shares`; 0: others chose it,
    // and shares begin anew. `mask`: all paths of the row.
    void on_sent(
        uint8_t index, PathMask shares, PathMask mask, const PathWeights& weights, size_t bytes) {
        if (shares == 0) {
            mask_ = 0;
            return;
        }
        sent_ = joined(shares);
        mask_ = shares;
        double sum = 0;
        for (uint8_t any = 0; any < wire::kMaxPaths; ++any) {
            sum += (mask & mask_of(any)) != 0 ? weights[any] : 0.0;
        }
        if (weights[index] > 0) {
            sent_[index] += static_cast<double>(bytes) * sum / weights[index];
        }
    }

  private:
    using Sent = std::array<double, wire::kMaxPaths>;

    // A path that comes in begins where the others stand, and does not make up for what it missed.
    Sent joined(PathMask mask) const {
        Sent sent = sent_;
        const auto joining = static_cast<PathMask>(mask & ~mask_);
        const auto staying = static_cast<PathMask>(mask & mask_);
        double least = 0;
        bool is_first = true;
        for (uint8_t index = 0; index < wire::kMaxPaths; ++index) {
            if ((staying & mask_of(index)) != 0) {
                least = is_first ? sent_[index] : std::min(least, sent_[index]);
                is_first = false;
            }
        }
        for (uint8_t index = 0; index < wire::kMaxPaths; ++index) {
            sent[index] = (joining & mask_of(index)) != 0 ? least : sent[index];
        }
        return sent;
    }

    Sent sent_{};  // bytes, divided by the path's share
    PathMask mask_ = 0;
};

}  // namespace continuo::session
