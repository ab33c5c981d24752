// WindowedExtreme: the largest (std::greater) or smallest (std::less) sample in a sliding window,
// kept in three samples (Kathleen Nichols' algorithm, as in Linux lib/win_minmax.c). The window is
// in any unit that only grows: time or round trips. When the best sample is older than the window,
// the second and third best, from later parts of the window, take its place.
#pragma once

#include <array>

namespace continuo::recovery {

template <typename Value, typename Position, typename Better>
class WindowedExtreme {
  public:
    bool is_empty() const { return is_empty_; }
    // Value{} while empty.
    Value best() const { return best_[0].value; }

    void reset(Value value, Position at) {
        best_.fill({value, at});
        is_empty_ = false;
    }
    void add(Value value, Position at, Position window) {
        const Better better;
        if (is_empty_ || !better(best_[0].value, value) || at - best_[2].at > window) {
            reset(value, at);
            return;
        }
        if (!better(best_[1].value, value)) {
            best_[1] = best_[2] = {value, at};
        } else if (!better(best_[2].value, value)) {
            best_[2] = {value, at};
        }
        age({value, at}, window);
    }

  private:
    struct Sample {
        Value value{};
        Position at{};
    };

    // After a quarter of the window without a better second sample, or half without a third, the
    // newest sample is used, so that the best one always has a successor.
    void age(const Sample& newest, Position window) {
        if (newest.at - best_[0].at > window) {
            best_ = {best_[1], best_[2], newest};
            if (newest.at - best_[0].at > window) {
                best_ = {best_[1], best_[2], newest};
            }
        } else if (best_[1].at == best_[0].at && newest.at - best_[0].at > window / 4) {
            best_[1] = best_[2] = newest;
        } else if (best_[2].at == best_[1].at && newest.at - best_[0].at > window / 2) {
            best_[2] = newest;
        }
    }

    std::array<Sample, 3> best_{};
    bool is_empty_ = true;
};

}  // namespace continuo::recovery
