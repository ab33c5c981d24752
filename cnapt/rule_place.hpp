// Place of cnapt's policy rules among those of others. A rule that is given without a priority (as
// wg-quick does) comes before all that are there, but for that of the table local: the kernel gives
// it the lowest priority less one. One that takes all programs' traffic would leave nothing to
// those of cnapt, which therefore go before it.
#pragma once

#include "common/base/result.hpp"
#include "common/io/netlink_route.hpp"

#include <span>

namespace continuo::cnapt {

// The first priority of the capture, while no such rule stands before it.
inline constexpr uint32_t kUsualRulePriority = 9347;
// Rules from here on may have been put before those of cnapt by the kernel; one below was put there
// on purpose, and stays first. A choice: each move takes 18, and a VPN
// that comes makes two to four. Where there is no room left cnapt stays where it is.
inline constexpr uint32_t kLowestRulePriority = kUsualRulePriority - 1024;

// Of somebody else, and takes whatever others leave: no source, destination or protocol is asked
// for, and no mark but one that its own packets have (`not fwmark`).
bool takes_all(const io::RuleEntry& rule);

// Pure. The first priority of the capture; directly before it stand those of source_routes.hpp.
// Both versions in `rules`: they have one place. kUsualRulePriority where there is no room left.
uint32_t rule_place(std::span<const io::RuleEntry> rules);
base::Result<uint32_t> rule_place(io::RouteClient& routes);

}  // namespace continuo::cnapt
