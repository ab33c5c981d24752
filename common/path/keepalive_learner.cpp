#include "common/path/keepalive_learner.hpp"

namespace continuo::path {

using base::Duration;
using base::TimePoint;

void KeepaliveLearner::on_request(Duration idle, Duration patience, TimePoint now) {
    if (idle >= kShortest) {
        state_.idle_when_asked = idle;
        state_.lost_known_by = now + patience;
    }
}

void KeepaliveLearner::on_packets(Duration idle, Duration longest, TimePoint now) {
    if (now > state_.lost_known_by) {
        const bool is_disproved = idle >= state_.idle_when_lost;
        state_.idle_when_lost = is_disproved ? Duration{} : state_.idle_when_lost;
        return;
    }
    state_.lost_known_by = {};
    on_expired(state_.idle_when_asked, longest, now);
}

void KeepaliveLearner::on_keepalive(Duration idle, Duration patience, TimePoint now) {
    if (idle >= kShortest) {
        state_.idle_before_keepalive = idle;
        state_.remapping_known_by = now + patience;
    }
}

void KeepaliveLearner::on_remapped(Duration longest, TimePoint now) {
    if (now <= state_.remapping_known_by) {
        state_.remapping_known_by = {};
        on_expired(state_.idle_before_keepalive, longest, now);
    }
}

// A mapping expired in that idle time.
void KeepaliveLearner::on_expired(Duration idle, Duration longest, TimePoint now) {
    const bool is_first = state_.idle_when_lost == Duration{};
    if (is_first && state_.interval == Duration{}) {
        state_.idle_when_lost = idle;
        return;
    }
    const Duration shorter = is_first ? idle : std::min(state_.idle_when_lost, idle);
    state_.interval =
        std::max<Duration>(std::min<Duration>(shorter / 2, interval(longest)), kShortest);
    state_.learned_at = now;
    state_.idle_when_lost = {};
}

void KeepaliveLearner::try_longer(Duration longest, TimePoint now) {
    if (state_.interval != Duration{} && now - state_.learned_at >= kTryLongerAfter) {
        state_.interval = state_.interval < longest / 2 ? state_.interval * 2 : Duration{};
        state_.learned_at = now;
    }
}

}  // namespace continuo::path
