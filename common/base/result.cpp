#include "common/base/result.hpp"

#include <array>

namespace continuo::base {

std::string_view to_string(Errc code) {
    static constexpr std::array<std::string_view, 12> kNames = {
        "truncated", "malformed",     "unsupported",    "unauthentic",
        "replayed",  "unknown_key",   "limit_reached",  "would_block",
        "system",    "invalid_state", "invalid_config", "not_found"};
    static_assert(kNames.size() == static_cast<size_t>(Errc::NotFound) + 1);
    return kNames.at(static_cast<size_t>(code));
}

}  // namespace continuo::base
