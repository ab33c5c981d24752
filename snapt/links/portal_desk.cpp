#include "snapt/links/portal_desk.hpp"

#include <algorithm>

namespace continuo::snapt::links {

namespace {

constexpr base::Duration kBurst = base::seconds(1);

}  // namespace

size_t PortalDesk::refresh() {
    auto now = credentials_.keys();
    if (now == known_) {
        return 0;
    }
    known_ = std::move(now);
    keys_.clear();
    for (const control::UserKey& key : *known_) {
        keys_.push_back(control::derive_portal_key(key, realm_));
    }
    return keys_.size();
}

std::optional<std::string> PortalDesk::answer(const control::PortalRequest& request,
                                              base::Random& random,
                                              base::TimePoint now) {
    free_at_ = std::max(free_at_, now - kBurst);
    if (free_at_ > now) {
        return std::nullopt;
    }
    const size_t derived = refresh();
    free_at_ += kPortalTrialTime * (derived + keys_.size() + 1);
    // Every key is tried, whichever fits, so that the time reveals nothing.
    control::PortalKey key{};
    random.fill(key);
    for (const control::PortalKey& candidate : keys_) {
        const control::PortalTag tag =
            control::portal_tag(candidate, control::PortalSide::Node, request.nonce);
        if (control::is_same_tag(tag, request.tag)) {
            key = candidate;
        }
    }
    return control::format_portal_answer(
        control::portal_tag(key, control::PortalSide::Snapt, request.nonce));
}

}  // namespace continuo::snapt::links
