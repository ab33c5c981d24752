// Names of interfaces in configuration and nftables text. Pure.
#pragma once

#include <string_view>

namespace continuo::cnapt::uplinks {

// Names that may stand in nftables text: 1 to 15 of [A-Za-z0-9_.@:-], not beginning with '-'.
bool is_safe_interface_name(std::string_view name);
// Such a name, or the first 1 to 14 characters of one and a star. nftables matches both by
// themselves, so that an interface which comes later is met with its first packet.
bool is_gateway_pattern(std::string_view text);

}  // namespace continuo::cnapt::uplinks
