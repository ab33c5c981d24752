// Position of cnapt's policy rules among others. A rule added without a priority (as by wg-quick)
// comes before all existing ones except that of the table local: the kernel gives it the lowest
// priority minus one. A rule that takes all programs' traffic would leave nothing to those of
// cnapt, which therefore move before it.
#pragma once

#include "common/base/result.hpp"
#include "common/netlink/netlink_route.hpp"

#include <span>

namespace continuo::cnapt::capture {

// First priority of the capture unless such a rule precedes it.
inline constexpr uint32_t kUsualRulePriority = 9347;
// From this priority on, the kernel may have put a rule before those of cnapt; a lower one was
// chosen on purpose, and stays first. A choice: each move takes 18, and a VPN that starts causes
// two to four. Without room cnapt stays where it is.
inline constexpr uint32_t kLowestRulePriority = kUsualRulePriority - 1024;

// True for a rule of others that takes all remaining packets: it matches no source, destination or
// protocol, and no mark except one on its own packets (`not fwmark`).
bool takes_all(const netlink::RuleEntry& rule);

// The first priority of the capture; the rules of source_routes.hpp directly precede it. `rules`
// has both versions, which share one place. kUsualRulePriority if there is no room. Pure.
uint32_t rule_place(std::span<const netlink::RuleEntry> rules);
base::Result<uint32_t> rule_place(netlink::RouteClient& routes);

}  // namespace continuo::cnapt::capture
