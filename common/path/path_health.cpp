// Path: whether it answers (docs/PROTOCOL.md section 5.1). The node judges its paths by Liveness.
// SNAPT leaves out paths that it spreads over in the same way, and asks for a sign of life over
// control when the return path is silent.
#include "common/path/path.hpp"

#include <algorithm>

namespace continuo::path {

using base::TimePoint;
using base::TrafficClass;

// SNAPT's challenges ask for an address.
void Path::expect_answer(TimePoint now) {
    if (parts_.is_node()) {
        parts_.note_asked(now);
    } else {
        parts_.liveness.note_sent(now);
    }
}

// An answer proves both ways.
void Path::confirm(TimePoint now) {
    parts_.liveness.on_progress(parts_.feedback.unacknowledged_bytes(), parts_.feedback.has_pings(),
                                now);
}

// Whether probe time-outs apply: to a SNAPT's paths that carry packets, and to all of a node. A
// dead path is probed by announcements.
bool Path::is_judged() const {
    const bool carries_packets = parts_.feedback.delivery() != nullptr && !parts_.is_tcp();
    return is_live(state()) && (parts_.is_node() || carries_packets);
}

TimePoint Path::health_deadline(bool is_active) const {
    if (!is_judged()) {
        return base::kNever;
    }
    return std::min({parts_.liveness.deadline(parts_.feedback.probe_timeout()),
                     parts_.feedback.loss_deadline(), ping_deadline(is_active)});
}

// When thin traffic has gone without an answer. On the return path SNAPT asks over control.
TimePoint Path::ping_deadline(bool is_active) const {
    return parts_.is_node() || !is_active
               ? parts_.liveness.ask_at(parts_.feedback.rtt().probe_timeout())
               : base::kNever;
}

bool Path::on_time(bool is_active, TimePoint now) {
    const bool was_doubtful = state() == PathState::Doubtful;
    if (health_deadline(is_active) <= now) {
        on_health_due(is_active, now);
    }
    if (asks_by_class()) {
        parts_.feedback.class_ways()->on_time(parts_.feedback.class_times(), parts_.context.random,
                                              now);
    }
    NodePath* const node = as_node();
    return node != nullptr ? node->follow_health(was_doubtful, is_active, now)
                           : snapt().on_time(is_active, now);
}

void Path::on_health_due(bool is_active, TimePoint now) {
    parts_.feedback.on_time(now);
    const bool has_timed_out = parts_.liveness.on_time(parts_.feedback.probe_timeout(), now);
    // A path that has never answered is asked by challenges alone.
    const bool may_answer = !parts_.is_node() || parts_.validation.has_answered();
    if ((has_timed_out && may_answer) || ping_deadline(is_active) <= now) {
        parts_.note_asked(now);
        parts_.is_ping_due = true;
    }
    // Answers to these pass where a network drops the DSCP (section 5.1).
    const bool is_asked = parts_.validation.lt_ld().challenge().is_open();
    if (parts_.is_node() && has_timed_out && !is_asked && !parts_.is_tcp()) {
        parts_.validation.challenge(TrafficClass::LtLd, PathValidation::Asks::Question, now);
    }
}

}  // namespace continuo::path
