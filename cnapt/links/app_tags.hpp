// AppTags: the tags by which one SNAPT knows the rules of the policy. Rules of the same name and
// different modes have different tags: the tag tells SNAPT the mode.
#pragma once

#include "common/base/path_mode.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace continuo::cnapt::links {

class AppTags {
  public:
    // Most names; flows of further ones have no tag.
    static constexpr size_t kMaxApps = 255;
    // Tells SNAPT a tag. Tag 0: flows without a rule name.
    using Tell = std::function<void(uint16_t tag, const std::string& name, base::PathMode mode)>;

    // `name` may be empty. `tell` is called when SNAPT does not know the tag yet.
    uint16_t tag_of(std::string_view name, base::PathMode mode, const Tell& tell);
    // SNAPT may not know them: its association is new, or the messages were lost with the
    // connection.
    void tell_all(const Tell& tell) const;

  private:
    std::map<std::pair<base::PathMode, std::string>, uint16_t> tags_;
    base::PathMode default_mode_ = base::PathMode::Handover;  // as told to SNAPT
};

}  // namespace continuo::cnapt::links
