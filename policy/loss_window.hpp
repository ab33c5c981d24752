// LossWindow: whether the path in use loses so much that another way may carry more, as behind a
// box that lets only little UDP pass. Heavy loss alone does not tell such a box from a bad link: so
// it is only a reason to try. Pure.
#pragma once

#include "policy/path_views.hpp"

#include <array>

namespace continuo::policy {

class LossWindow {
  public:
    static constexpr base::Duration kWindow = base::milliseconds(1500);
    // The loss must be heavy in most parts: a pause of the link falls into one.
    static constexpr size_t kParts = 3;
    static constexpr double kHeavyLoss = 0.2;
    static constexpr int64_t kFewestLost = 50;  // in the window, at first

    void reset() { *this = {}; }
    void on_time(const PathView& path, base::TimePoint now);
    // When the part that is under way ends.
    base::TimePoint next_at() const { return part_began_ + kPart; }
    bool is_heavy() const { return is_heavy_[0] || is_heavy_[1]; }
    // Since the loss began: what was delivered before says nothing.
    double delivered_bytes_per_s() const;

  private:
    static constexpr base::Duration kPart = kWindow / kParts;
    struct Traffic {
        int64_t arrived = 0;
        int64_t lost = 0;
        uint64_t delivered_bytes = 0;
        bool has_begun = false;  // to lose something
        bool is_heavy() const;
    };
    struct Part {
        base::Duration span{};
        std::array<Traffic, 2> ways;  // up, down
    };

    bool begins_anew(const PathView& path) const;
    Traffic traffic_of(const PathTraffic& now, const PathTraffic& before, size_t way) const;
    bool looks_heavy(size_t way) const;

    std::array<Part, kParts> parts_{};  // the oldest first
    std::array<bool, 2> is_heavy_{};    // up, down
    size_t filled_ = 0;
    bool has_begun_ = false;
    base::TimePoint part_began_{};
    PathView before_;
    PathView latest_;
};

}  // namespace continuo::policy
