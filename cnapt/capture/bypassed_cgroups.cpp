#include "cnapt/capture/bypassed_cgroups.hpp"

#include "common/base/log.hpp"
#include "common/daemon/startup.hpp"

#include <algorithm>

namespace continuo::cnapt::capture {

void BypassedCgroups::mark(const std::vector<std::string>& cgroups, uint32_t mark) {
    for (const std::string& cgroup : cgroups) {
        auto marker = process::SocketMarker::attach(cgroup, mark);
        if (!marker) {
            base::log(base::LogLevel::Warning, "policy: cgroup %s is not bypassed: %s",
                      cgroup.c_str(), daemon::describe(marker.error()).c_str());
        }
        markers_.emplace(cgroup, marker ? std::optional(std::move(*marker)) : std::nullopt);
    }
}

bool BypassedCgroups::keep_only(const std::vector<std::string>& wanted) {
    std::erase_if(markers_, [&](const auto& entry) {
        return !std::binary_search(wanted.begin(), wanted.end(), entry.first);
    });
    return markers_.size() < wanted.size();
}

}  // namespace continuo::cnapt::capture
