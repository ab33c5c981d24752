#include "policy/loss_window.hpp"

#include <algorithm>
#include <utility>

namespace continuo::policy {

using base::Duration;
using base::TimePoint;

namespace {

// Negative when lost datagrams came late.
int64_t growth(uint64_t now, uint64_t before) {
    return static_cast<int64_t>(now - before);
}

}  // namespace

bool LossWindow::Traffic::is_heavy() const {
    return lost > 0 &&
           static_cast<double>(lost) >= kHeavyLoss * static_cast<double>(lost + arrived);
}

// Another path or connection: its counters and those before have no difference.
bool LossWindow::begins_anew(const PathView& path) const {
    return path.uplink != latest_.uplink || path.delivered_bytes < latest_.delivered_bytes ||
           path.up.arrived < latest_.up.arrived || path.down.arrived < latest_.down.arrived;
}

void LossWindow::on_time(const PathView& path, TimePoint now) {
    if (has_begun_ && begins_anew(path)) {
        reset();
    }
    latest_ = path;
    if (has_begun_ && now < next_at()) {
        return;
    }
    const PathView before = std::exchange(before_, path);
    const Duration span = now - std::exchange(part_began_, now);
    if (!std::exchange(has_begun_, true) || span > 2 * kPart) {
        filled_ = 0;  // nobody looked: nothing was under way
        is_heavy_ = {};
        return;
    }
    Part part;
    part.span = span;
    part.delivered_bytes = path.delivered_bytes - before.delivered_bytes;
    // A box that lets little pass delays nothing. A sender that does not heed losses overflows the
    // queue of a link that works.
    if (!path.has_full_queue) {
        part.ways[0] = {growth(path.up.arrived, before.up.arrived),
                        growth(path.up.lost, before.up.lost)};
    }
    part.ways[1] = {growth(path.down.arrived, before.down.arrived),
                    growth(path.down.lost, before.down.lost)};
    std::rotate(parts_.begin(), parts_.begin() + 1, parts_.end());
    parts_.back() = part;
    filled_ = std::min(filled_ + 1, kParts);
    for (size_t way = 0; way < is_heavy_.size(); ++way) {
        is_heavy_.at(way) = filled_ == kParts && looks_heavy(way);
    }
}

// The loss may have begun in the middle of its first part: what arrived in that one does not count.
// A sender that heeds losses soon has few to lose: so the fewest are needed only to begin.
bool LossWindow::looks_heavy(size_t way) const {
    Traffic sum;
    size_t heavy_parts = 0;
    for (const Part& part : parts_) {
        sum.arrived += sum.lost > 0 ? part.ways.at(way).arrived : 0;
        sum.lost += part.ways.at(way).lost;
        heavy_parts += part.ways.at(way).is_heavy() ? 1U : 0U;
    }
    return 2 * heavy_parts > kParts && sum.is_heavy() &&
           (is_heavy_.at(way) || sum.lost >= kFewestLost);
}

double LossWindow::delivered_bytes_per_s() const {
    const auto is_heavy_part = [](const Part& part) {
        return part.ways[0].is_heavy() || part.ways[1].is_heavy();
    };
    // The loss may have begun in the middle of its first part.
    auto from = std::find_if(parts_.begin(), parts_.end(), is_heavy_part);
    from = from == parts_.end() || from + 1 == parts_.end() ? parts_.begin() : from + 1;
    Duration span{};
    uint64_t bytes = 0;
    for (; from != parts_.end(); ++from) {
        span += from->span;
        bytes += from->delivered_bytes;
    }
    const double seconds = std::chrono::duration<double>(span).count();
    return seconds > 0 ? static_cast<double>(bytes) / seconds : 0;
}

}  // namespace continuo::policy
