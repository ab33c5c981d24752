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

double rate(uint64_t bytes, Duration span) {
    const double seconds = std::chrono::duration<double>(span).count();
    return seconds > 0 ? static_cast<double>(bytes) / seconds : 0;
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

// A part that is looked at late is longer, but one part all the same.
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
    if (!std::exchange(has_begun_, true)) {
        return;
    }
    const auto growth_of = [](const PathTraffic& traffic, const PathTraffic& former) {
        return Traffic{growth(traffic.arrived, former.arrived), growth(traffic.lost, former.lost),
                       traffic.delivered_bytes - former.delivered_bytes};
    };
    Traffic up = growth_of(path.up, before.up);
    const Traffic down = growth_of(path.down, before.down);
    const uint64_t delivered_bytes = up.delivered_bytes + down.delivered_bytes;
    if (path.has_full_queue) {
        // A box that lets little pass delays nothing. A sender that does not heed losses overflows
        // the queue of a link that works.
        up = {};
    }
    episodes_[0].on_part(up, delivered_bytes, span);
    episodes_[1].on_part(down, delivered_bytes, span);
}

// The loss may have begun in the middle of its first part: what arrived in that one does not count,
// nor is it bad, nor do its losses say anything of what follows: a fast flow that ends leaves thin
// ones, whose every loss would seem to go on with it. What follows is summed up as by Page (1954):
// once less than a fifth of it is lost in all, the loss is over.
void LossWindow::Episode::on_part(const Traffic& part, uint64_t delivered_bytes, Duration span) {
    const double bytes_per_s = rate(part.delivered_bytes, span);
    const double previous_bytes_per_s = std::exchange(newest_bytes_per_s_, bytes_per_s);
    since_.arrived += part.arrived;
    since_.lost += part.lost;
    if (!has_begun_ || !since_.is_heavy()) {
        *this = {};
        has_begun_ = part.lost > 0;
        newest_bytes_per_s_ = bytes_per_s;
        former_bytes_per_s_ = std::max(previous_bytes_per_s, bytes_per_s);
        note({std::max<int64_t>(part.lost, 0), false});
        return;
    }
    delivered_bytes_ += delivered_bytes;
    span_ += span;
    note({part.lost, is_bad(part, previous_bytes_per_s)});
}

// A sender that slows down has few to lose: so the fewest are needed only once.
void LossWindow::Episode::note(const Part& part) {
    std::rotate(newest_.begin(), newest_.begin() + 1, newest_.end());
    newest_.back() = part;
    int64_t lost = 0;
    for (const Part& each : newest_) {
        lost += each.lost;
    }
    has_lost_many_ = has_lost_many_ || lost >= kFewestLost;
}

// A part in which nothing was delivered is no throttle: it is one class of which nothing passes,
// which the session mends. A sender that has found the rate of a box may lose nothing for a while:
// then it goes on at that rate, while a flow that ends becomes slower still.
bool LossWindow::Episode::is_bad(const Traffic& part, double previous_bytes_per_s) const {
    const bool has_collapsed = newest_bytes_per_s_ < kCollapse * former_bytes_per_s_;
    const bool goes_on =
        newest_.back().is_bad && newest_bytes_per_s_ >= kCollapse * previous_bytes_per_s;
    return part.delivered_bytes > 0 &&
           (part.is_heavy() || (has_collapsed && (part.lost > 0 || goes_on)));
}

bool LossWindow::Episode::is_heavy() const {
    const auto bad =
        std::count_if(newest_.begin(), newest_.end(), [](const Part& part) { return part.is_bad; });
    return has_lost_many_ && 2 * static_cast<size_t>(bad) > kParts;
}

double LossWindow::Episode::delivered_bytes_per_s() const {
    return rate(delivered_bytes_, span_);
}

double LossWindow::delivered_bytes_per_s() const {
    return episodes_[episodes_[1].is_heavy() ? 1 : 0].delivered_bytes_per_s();
}

}  // namespace continuo::policy
