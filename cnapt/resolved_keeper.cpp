#include "cnapt/resolved_keeper.hpp"

#include <algorithm>
#include <utility>

namespace continuo::cnapt {

base::Result<void> ResolvedKeeper::tell(const std::vector<base::IpAddress>& servers) {
    is_told_ = false;
    if (!link_.is_there()) {
        return {};
    }
    auto set = link_.set(servers);
    is_told_ = set.has_value();
    if (!set) {
        clear();
    }
    return set;
}

// The settings also go with the device.
void ResolvedKeeper::undo() {
    if (std::exchange(is_told_, false)) {
        static_cast<void>(link_.revert().has_value());
    }
}

void ResolvedKeeper::clear() {
    if (link_.is_there()) {
        static_cast<void>(link_.revert().has_value());
    }
}

base::Result<bool> ResolvedKeeper::look(const std::vector<base::IpAddress>& servers,
                                        Clock::time_point now) {
    if (!link_.is_there()) {
        is_told_ = false;
        return false;
    }
    if (now - looked_at_ < kResolvedLookInterval) {
        return false;
    }
    looked_at_ = now;
    const auto since = now - repaired_at_;
    const bool has_them = is_told_ && CTN_TRY(link_.is_set(servers));
    if (has_them || since < rest_) {
        return false;
    }
    rest_ = since < 2 * kLongestResolvedRest ? std::min(2 * rest_, kLongestResolvedRest)
                                             : kResolvedLookInterval;
    repaired_at_ = now;
    CTN_TRY(tell(servers));
    return true;
}

}  // namespace continuo::cnapt
