// Admission: an operator empties this SNAPT. Nodes learn it as they learn that it does not forward.
#include "common/base/log.hpp"
#include "common/daemon/startup.hpp"
#include "snapt/users/admission.hpp"

#include <chrono>

namespace continuo::snapt::users {

using base::log;
using base::LogLevel;

bool Admission::begin_drain(std::optional<base::Duration> most) {
    const bool begins = !drain_;
    if (begins) {
        drain_.emplace().since_utc_s = daemon::utc_us() / store::kUsPerSecond;
        log(LogLevel::Info, "draining: no new sessions and flows, %zu sessions with %zu flows",
            relay_->sessions().size(), relay_->running_flows());
        renew_directory();
        tell_directories();
        drain_silent_nodes();
    }
    if (most) {
        drain_->ends_at = parts_.loop.now() + *most;
        drain_->ends_utc_s = (daemon::utc_us() + base::to_us(*most)) / store::kUsPerSecond;
    }
    return begins;
}

bool Admission::end_drain() {
    if (!drain_) {
        return false;
    }
    drain_.reset();
    log(LogLevel::Info, "draining is over: new sessions and flows are taken");
    for (const auto& session : relay_->sessions()) {
        relay_->drain(session->wire_id, base::kNever);
    }
    renew_directory();
    tell_directories();
    return true;
}

// Those without a control link are told once they have one again.
void Admission::drain_silent_nodes() {
    for (const auto& session : relay_->sessions()) {
        if (!session->has_link) {
            relay_->drain(session->wire_id, parts_.loop.now() + kDrainNotice);
        }
    }
}

void Admission::finish_drain() {
    if (drain_) {
        drain_silent_nodes();  // a link may have ended before it was told
    }
    if (!drain_ || parts_.loop.now() < drain_->ends_at) {
        return;
    }
    drain_->ends_at = base::kNever;
    log(LogLevel::Info, "draining: the time is over, %zu sessions with %zu flows end",
        relay_->sessions().size(), relay_->running_flows());
    end_all([](const relay::SessionGrant& /*grant*/) { return true; }, relay::SessionEnd::Drained,
            kDrainingText);
}

}  // namespace continuo::snapt::users
