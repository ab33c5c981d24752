// Base 64 of RFC 4648 section 4, with padding; no line breaks, no other alphabets.
#pragma once

#include "common/base/bytes.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace continuo::config {

std::string to_base64(base::ByteView bytes);
// Nothing when a character, the length or the padding is wrong, or when unused bits are set.
std::optional<std::vector<uint8_t>> from_base64(std::string_view text);

}  // namespace continuo::config
