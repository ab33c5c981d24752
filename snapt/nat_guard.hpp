// The guard: no packet of a node leaves with a lease's address while somebody has removed the
// relay's rules (`nft flush ruleset`). A routing rule gives a way out only to those packets from
// the device that the relay's own chain has marked. A table that others cannot flush keeps the
// kernel translating the connections that it has. Values and text, pure.
#pragma once

#include "common/io/route_entry.hpp"
#include "snapt/nat.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace continuo::snapt {

// A bit of the packet's mark, set before routing and cleared behind it; the others are left alone.
inline constexpr uint32_t kPassMark = 0x0800'0000;
// Before what other programs set: none of their rules gives an unmarked packet a way out.
inline constexpr uint32_t kGuardPriority = 934;

// One for each IP version.
std::vector<io::RuleEntry> guard_rules(std::string_view device);

// nftables text that sets the bit, and that clears it.
std::string set_pass_mark();
std::string clear_pass_mark();

// "inet snapt_guard_<device>", as relay_table().
std::string guard_table(std::string_view device);
// For io::OwnedTable. It translates no connection that begins.
std::string build_guard_ruleset(const RelayOptions& options);

}  // namespace continuo::snapt
