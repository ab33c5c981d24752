// Target: path and query of a request (RFC 9112 section 3.2), decoded. Pure; the bytes are
// untrusted.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace continuo::rest {

// Choices, not measured: the longest target of the interface has some 300 bytes.
inline constexpr size_t kMaxTargetBytes = 2048;
inline constexpr size_t kMaxPathSegments = 8;
inline constexpr size_t kMaxParameters = 16;

struct Target {
    std::vector<std::string> path;  // "/v1/users/alice" is {"v1", "users", "alice"}; "/" is empty
    std::vector<std::pair<std::string, std::string>> query;  // each name once

    std::optional<std::string> value(std::string_view name) const;
};

// Nothing for a target that is not in origin-form, exceeds the limits, is badly encoded, or has a
// control character or a repeated parameter.
std::optional<Target> parse_target(std::string_view text);

}  // namespace continuo::rest
