#include "cnapt/capture/rule_place.hpp"

#include "cnapt/capture/routes.hpp"

#include <algorithm>
#include <vector>

namespace continuo::cnapt::capture {

bool takes_all(const netlink::RuleEntry& rule) {
    constexpr uint32_t kLocalTable = 255;
    return rule.protocol != netlink::kRouteProtocol && rule.action == netlink::RuleAction::Lookup &&
           rule.table != kLocalTable && !rule.from && !rule.to && rule.input_interface.empty() &&
           !rule.ip_protocol && !rule.source_ports && !rule.destination_ports && !rule.users &&
           !rule.has_other_selector && (!rule.fwmark || rule.is_inverted);
}

uint32_t rule_place(std::span<const netlink::RuleEntry> rules) {
    uint32_t first = kUsualRulePriority;
    for (const netlink::RuleEntry& rule : rules) {
        if (takes_all(rule) && rule.priority >= kLowestRulePriority) {
            first = std::min(first, rule.priority);
        }
    }
    constexpr uint32_t kNeeded = kRulePriorities + 1;  // and that of the sources
    const bool has_room = first >= kLowestRulePriority + kNeeded;
    return first == kUsualRulePriority || !has_room ? kUsualRulePriority : first - kRulePriorities;
}

base::Result<uint32_t> rule_place(netlink::RouteClient& routes) {
    std::vector<netlink::RuleEntry> rules = CTN_TRY(routes.rules(base::IpVersion::V4));
    const std::vector<netlink::RuleEntry> of_v6 = CTN_TRY(routes.rules(base::IpVersion::V6));
    rules.insert(rules.end(), of_v6.begin(), of_v6.end());
    return rule_place(rules);
}

}  // namespace continuo::cnapt::capture
