#include "snapt/accounting/app_names.hpp"

#include <utility>

namespace continuo::snapt::accounting {

bool AppNames::add(std::span<const control::App> apps) {
    const std::scoped_lock lock(mutex_);
    for (const control::App& app : apps) {
        if (app.tag > UINT16_MAX) {
            continue;  // flows carry 16 bits of it
        }
        const auto tag = static_cast<uint16_t>(app.tag);
        const auto known = names_.find(tag);
        if (known == names_.end() ? names_.size() >= kMaxAppNames : known->second == app.name) {
            continue;
        }
        names_[tag] = app.name;
        new_.insert(tag);
    }
    return !new_.empty() && !std::exchange(is_asked_, true);
}

void AppNames::on_refused() {
    const std::scoped_lock lock(mutex_);
    is_asked_ = false;
}

std::vector<std::pair<uint16_t, std::string>> AppNames::take_new() {
    const std::scoped_lock lock(mutex_);
    is_asked_ = false;
    std::vector<std::pair<uint16_t, std::string>> taken;
    taken.reserve(new_.size());
    for (const uint16_t tag : new_) {
        taken.emplace_back(tag, names_[tag]);
    }
    new_.clear();
    return taken;
}

std::optional<std::string> AppNames::find(uint32_t tag) const {
    const std::scoped_lock lock(mutex_);
    const auto known = tag <= UINT16_MAX ? names_.find(static_cast<uint16_t>(tag)) : names_.end();
    return known == names_.end() ? std::nullopt : std::optional(known->second);
}

}  // namespace continuo::snapt::accounting
