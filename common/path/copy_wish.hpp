// CopyWish: for how long a node wants copies on a path. It repeats its wish at intervals that
// double, so that each is good for as long again as there has been one. Pure.
#pragma once

#include "common/base/time.hpp"

#include <algorithm>

namespace continuo::path {

class CopyWish {
  public:
    // After a single wish, when the path then answers.
    static constexpr base::Duration kShortest = base::milliseconds(200);

    void repeat(base::Duration longest, base::TimePoint now) {
        if (until_ < now) {
            since_ = now;
        }
        until_ = now + std::min<base::Duration>(kShortest + (now - since_) * 2, longest);
    }
    void end() { until_ = {}; }
    bool is_on(base::TimePoint now) const { return until_ > now; }

    bool operator==(const CopyWish&) const = default;

  private:
    base::TimePoint until_{};
    base::TimePoint since_{};
};

}  // namespace continuo::path
