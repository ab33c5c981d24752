// Secrets of 32 bytes in configuration files and commands, in base 64.
#pragma once

#include "common/base/secret.hpp"
#include "common/config/section.hpp"

#include <optional>
#include <string_view>

namespace continuo::config {

using Key = base::Secret<32>;
inline constexpr std::string_view kKeyForm = "base 64 of 32 bytes, which is 44 characters";

// Blanks and line feeds around it are allowed, as in a file that holds nothing else.
std::optional<Key> parse_key(std::string_view text);

// The value of `name`; nothing when there is none, or a wrong one, which is reported without what
// was found: that may be most of a secret.
std::optional<Key> read_key(Section& section, std::string_view name);

}  // namespace continuo::config
