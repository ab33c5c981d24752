// CopyRequest: SNAPT: how long the node wants copies of low-delay classes on a path
// (docs/PROTOCOL.md section 5.4). The request is repeated at doubling intervals, so it is valid for
// as long as it has existed. Pure.
#pragma once

#include "common/base/time.hpp"
#include "common/wire/frame.hpp"

#include <algorithm>

namespace continuo::path {

class CopyRequest {
  public:
    void on_announced(base::TimePoint now) {
        since_ = until_ < now ? now : since_;
        const base::Duration life = kShortest + (now - since_) * 2;
        until_ = now + std::min<base::Duration>(life, wire::kCopiesLifetime);
    }
    void end() { until_ = {}; }
    bool is_open(base::TimePoint now) const { return until_ > now; }
    base::TimePoint until() const { return until_; }

  private:
    // Lifetime of a single request, if the path then answers.
    static constexpr base::Duration kShortest = base::milliseconds(200);

    base::TimePoint until_{};
    base::TimePoint since_{};  // of announcements of this number
};

}  // namespace continuo::path
