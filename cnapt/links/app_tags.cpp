#include "cnapt/links/app_tags.hpp"

namespace continuo::cnapt::links {

uint16_t AppTags::tag_of(std::string_view name, base::PathMode mode, const Tell& tell) {
    if (name.empty()) {
        if (std::exchange(default_mode_, mode) != mode) {
            tell(0, {}, mode);
        }
        return 0;
    }
    const std::pair key(mode, std::string(name));
    const auto known = tags_.find(key);
    if (known != tags_.end()) {
        return known->second;
    }
    if (tags_.size() >= kMaxApps) {
        return 0;
    }
    const auto tag = static_cast<uint16_t>(tags_.size() + 1);
    tags_.emplace(key, tag);
    tell(tag, key.second, mode);
    return tag;
}

void AppTags::tell_all(const Tell& tell) const {
    for (const auto& [key, tag] : tags_) {
        tell(tag, key.second, key.first);
    }
    if (default_mode_ != base::PathMode::Handover) {
        tell(0, {}, default_mode_);
    }
}

}  // namespace continuo::cnapt::links
