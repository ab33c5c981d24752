// The guard: no packet of a node leaves with a lease's address after others have removed the
// relay's rules (`nft flush ruleset`). A routing rule lets only those packets from the device out
// that the relay's own chain has marked. A table that others cannot flush keeps the kernel
// translating existing connections. Values and text, pure.
#pragma once

#include "common/netlink/route_entry.hpp"
#include "snapt/nat/nat.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace continuo::snapt::nat {

// A bit of the packet's mark, set before routing and cleared after it; other bits are unchanged.
inline constexpr uint32_t kPassMark = 0x0800'0000;
// Precedes rules of other programs: none of them lets an unmarked packet out.
inline constexpr uint32_t kGuardPriority = 934;

// One for each IP version.
std::vector<netlink::RuleEntry> guard_rules(std::string_view device);

// nftables text that sets the bit, and text that clears it.
std::string set_pass_mark();
std::string clear_pass_mark();

// "inet snapt_guard_<device>", as relay_table().
std::string guard_table(std::string_view device);
// For netfilter::OwnedTable. It translates no new connection.
std::string build_guard_ruleset(const RelayOptions& options);

}  // namespace continuo::snapt::nat
