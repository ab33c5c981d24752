// LossWindow: whether the path in use loses so much that another way may carry more, as behind a
// box that lets only little UDP pass. Senders that heed losses soon lose little behind such a box,
// but stay slow. Neither tells such a box from a bad link: so it is only a reason to try. Pure.
#pragma once

#include "policy/path_views.hpp"

#include <array>

namespace continuo::policy {

class LossWindow {
  public:
    static constexpr base::Duration kWindow = base::milliseconds(1500);
    // Most parts must be bad: a pause of the link falls into one.
    static constexpr size_t kParts = 3;
    static constexpr double kHeavyLoss = 0.2;
    static constexpr int64_t kFewestLost = 50;  // in some window since the loss began
    // The share of the former rate that a sender has left after it halved its rate twice (RFC 5681,
    // 3.1): with less it does not only heed a loss.
    static constexpr double kCollapse = 0.25;

    void reset() { *this = {}; }
    void on_time(const PathView& path, base::TimePoint now);
    // When the part that is under way ends.
    base::TimePoint next_at() const { return part_began_ + kPart; }
    bool is_heavy() const { return episodes_[0].is_heavy() || episodes_[1].is_heavy(); }
    // Both ways since the heavy loss began: what was delivered before says nothing.
    double delivered_bytes_per_s() const;

  private:
    static constexpr base::Duration kPart = kWindow / kParts;
    // One direction in one part, or longer.
    struct Traffic {
        int64_t arrived = 0;
        int64_t lost = 0;
        uint64_t delivered_bytes = 0;
        bool is_heavy() const;
    };
    // One direction since it began to lose, as long as it goes on to lose a fifth, however little
    // is sent. A window in time would forget the beginning, when a fast sender lost most.
    class Episode {
      public:
        // `delivered_bytes`: both ways.
        void on_part(const Traffic& part, uint64_t delivered_bytes, base::Duration span);
        bool is_heavy() const;
        double delivered_bytes_per_s() const;

      private:
        struct Part {
            int64_t lost = 0;
            bool is_bad = false;
        };
        void note(const Part& part);
        bool is_bad(const Traffic& part, double previous_bytes_per_s) const;

        // After the first part:
        Traffic since_;
        uint64_t delivered_bytes_ = 0;  // both ways
        base::Duration span_{};

        double former_bytes_per_s_ = 0;  // before the loss
        double newest_bytes_per_s_ = 0;
        std::array<Part, kParts> newest_{};  // the oldest first
        bool has_begun_ = false;
        bool has_lost_many_ = false;
    };

    bool begins_anew(const PathView& path) const;

    std::array<Episode, 2> episodes_;  // up, down
    bool has_begun_ = false;
    base::TimePoint part_began_{};
    PathView before_;
    PathView latest_;
};

}  // namespace continuo::policy
