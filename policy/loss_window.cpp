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
    return path.uplink != latest_.uplink || path.up.delivered_bytes < latest_.up.delivered_bytes ||
           path.down.delivered_bytes < latest_.down.delivered_bytes ||
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
    part.ways = {traffic_of(path.up, before.up, 0), traffic_of(path.down, before.down, 1)};
    // A box that lets little pass delays nothing. A sender that does not heed losses overflows the
    // queue of a link that works.
    if (path.has_full_queue) {
        part.ways[0].arrived = 0;
        part.ways[0].lost = 0;
    }
    std::rotate(parts_.begin(), parts_.begin() + 1, parts_.end());
    parts_.back() = part;
    filled_ = std::min(filled_ + 1, kParts);
    for (size_t way = 0; way < is_heavy_.size(); ++way) {
        is_heavy_.at(way) = filled_ == kParts && looks_heavy(way);
    }
}

LossWindow::Traffic
LossWindow::traffic_of(const PathTraffic& now, const PathTraffic& before, size_t way) const {
    const int64_t lost = growth(now.lost, before.lost);
    return {growth(now.arrived, before.arrived), lost, now.delivered_bytes - before.delivered_bytes,
            lost > 0 && parts_.back().ways.at(way).lost <= 0};
}

// The loss may have begun in the middle of its first part: what arrived in that one does not count.
// A part in which nothing was delivered is no throttle: it is one class of which nothing passes,
// which the session mends. A sender that heeds losses soon has few to lose: so the fewest are
// needed only to begin.
bool LossWindow::looks_heavy(size_t way) const {
    Traffic sum;
    size_t heavy_parts = 0;
    for (const Part& part : parts_) {
        const Traffic& traffic = part.ways.at(way);
        sum.arrived += sum.lost > 0 ? traffic.arrived : 0;
        sum.lost += traffic.lost;
        const bool passes_some = traffic.delivered_bytes > 0 && !traffic.has_begun;
        heavy_parts += traffic.is_heavy() && passes_some ? 1U : 0U;
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
        bytes += from->ways[0].delivered_bytes + from->ways[1].delivered_bytes;
    }
    const double seconds = std::chrono::duration<double>(span).count();
    return seconds > 0 ? static_cast<double>(bytes) / seconds : 0;
}

}  // namespace continuo::policy
