#include "cnapt/capture/lan_timeouts.hpp"

#include "common/base/log.hpp"
#include "common/daemon/startup.hpp"
#include "common/dataplane/conntrack_timeouts.hpp"

namespace continuo::cnapt::capture {

void LanTimeouts::open() {
    if (record_.empty()) {
        return;
    }
    auto guard = host::SysctlGuard::open(record_);
    if (!guard) {
        base::log(base::LogLevel::Warning, "cannot keep kernel parameters in %s: %s",
                  record_.c_str(), daemon::describe(guard.error()).c_str());
        return;
    }
    guard_ = std::move(*guard);
}

void LanTimeouts::raise() {
    if (!guard_) {
        return;
    }
    for (const host::SysctlSetting& setting : dataplane::conntrack_timeouts()) {
        const auto set = guard_->set(setting);
        if (!set && !has_warned_) {
            base::log(base::LogLevel::Warning,
                      "cannot set kernel parameter %s to %s: connections of the LAN may be "
                      "forgotten early",
                      setting.key.c_str(), setting.value.c_str());
            has_warned_ = true;
        }
    }
}

void LanTimeouts::restore() {
    if (guard_) {
        (void)guard_->restore();
    }
}

}  // namespace continuo::cnapt::capture
