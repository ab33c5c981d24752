#include "common/session/upkeep.hpp"

#include <utility>

namespace continuo::session {

using base::Duration;
using base::TimePoint;
using path::Path;
using path::Role;

namespace {

// Interval at which reserve paths are refreshed, so that their mappings do not expire.
constexpr Duration kKeepReady = base::seconds(15);
// For this long after the last packet; an idle node asks nothing.
constexpr Duration kReadyFor = base::seconds(60);

}  // namespace

void Upkeep::note_use(TimePoint now) {
    is_newly_used_ = is_newly_used_ || !is_used(now);
    packets_at_ = now;
}

bool Upkeep::is_used(TimePoint now) const {
    return now - packets_at_ <= kReadyFor;
}

void Upkeep::request_keepalive(TimePoint now) {
    if (settings_.role == Role::Snapt || !paths_.node().on_request(kept_alive_at_, now)) {
        is_keepalive_due_ = true;
    }
}

void Upkeep::on_keepalive(TimePoint now) {
    is_keepalive_due_ = false;
    Path* const path = paths_.active_path();
    if (path != nullptr && settings_.role == Role::Node) {
        path->node().on_keepalive(kept_alive_at_, now);
    }
}

TimePoint Upkeep::keepalive_at() const {
    const bool is_wanted = keeps_idle_alive_ || flows_.count() != 0;
    const Path* const path = paths_.active_path();
    return settings_.role == Role::Node && is_wanted && !is_keepalive_due_ && path != nullptr
               ? kept_alive_at_ + path->node().keepalive().interval(settings_.keepalive)
               : base::kNever;
}

void Upkeep::on_poll(TimePoint now) {
    const bool is_newly_used = std::exchange(is_newly_used_, false);
    if (flows_.take_mode_change() || is_newly_used) {
        keep_paths_ready(now);
    }
}

void Upkeep::on_timeout(TimePoint now) {
    is_keepalive_due_ = is_keepalive_due_ || keepalive_at() <= now;
}

void Upkeep::tend_paths(TimePoint now) {
    if (is_used(now) || flows_.in_mode(base::PathMode::Redundant) > 0) {
        keep_paths_ready(now);
    }
}

void Upkeep::keep_paths_ready(TimePoint now) {
    if (settings_.role == Role::Node && flows_.uses_several_paths()) {
        paths_.node().keep_ready(kKeepReady, now);
    }
}

}  // namespace continuo::session
