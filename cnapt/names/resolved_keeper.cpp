#include "cnapt/names/resolved_keeper.hpp"

#include "cnapt/names/name_lookup.hpp"

#include <algorithm>
#include <utility>

namespace continuo::cnapt::names {

namespace {

constexpr uint32_t kStubAddress = 0x7F000035U;  // 127.0.0.53
constexpr uint16_t kStubPort = 53;

}  // namespace

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

void ask_stub() {
    static_cast<void>(answers_names({base::IpAddress::v4(kStubAddress), kStubPort}, 0));
}

void let_resolved_forget(ResolvFile& file, const std::function<void()>& ask) {
    if (file.hides_file_of_resolved() && !file.is_replaced() &&
        file.apply({base::IpAddress::v4(kStubAddress)})) {
        ask();
    }
}

}  // namespace continuo::cnapt::names
