// CaptureControl: parts that stay in the kernel while cnapt restarts. The device carries a mark as
// its alias (`ip -d link show cnapt0`), so that the mark goes with it. The next run of the same
// configuration finds the mark and keeps device, routes, rules and table until begin() replaces
// them.
#include "cnapt/capture/capture_control.hpp"
#include "cnapt/capture/source_routes.hpp"
#include "common/netfilter/netfilter.hpp"
#include "common/netlink/netlink_route.hpp"

#include <algorithm>
#include <type_traits>

namespace continuo::cnapt::capture {

namespace {

constexpr std::string_view kMarkStart = "cnapt restarts, ";
// Version of the layout of rules and routes: one with another number cannot take over.
constexpr std::string_view kLayout = "layout 3, ";

template <typename T>
std::string list_text(const std::vector<T>& list) {
    std::string text;
    for (const auto& one : list) {
        if constexpr (std::is_same_v<T, std::string>) {
            text += one + ",";
        } else {
            text += one.to_string() + ",";
        }
    }
    return text + ";";
}

uint64_t digest(std::string_view text) {  // FNV-1a
    uint64_t hash = 0xCBF29CE484222325;
    for (const char letter : text) {
        hash = (hash ^ static_cast<uint8_t>(letter)) * 0x100000001B3;
    }
    return hash;
}

// Prefix of the marks of this cnapt, whatever its other settings: each cnapt has its own routing
// table.
std::string mark_start(const settings::CaptureConfig& config) {
    std::string start(kMarkStart);
    start += "table ";
    start += std::to_string(config.routing_table);
    start += ", ";
    return start;
}

// The mark covers the settings that a restart must not change. The policy is not among them:
// begin() replaces its rules.
std::string mark_of(const settings::CaptureConfig& config) {
    const std::string text = config.device + ";" + std::to_string(config.routing_table) + ";" +
                             std::to_string(config.fwmark) + ";" + (config.ipv4 ? "4" : "") +
                             (config.ipv6 ? "6" : "") + (config.kill_switch ? "k;" : ";") +
                             list_text(config.exclude) + list_text(config.near) +
                             list_text(config.gateway_interfaces);
    std::string mark = mark_start(config);
    mark += kLayout;
    mark += std::to_string(digest(text));
    return mark;
}

base::Result<void> set_alias(netlink::RouteClient& routes, uint32_t index, std::string alias) {
    netlink::LinkSettings settings;
    settings.alias = std::move(alias);
    return routes.set_link(index, settings);
}

}  // namespace

base::Result<void> CaptureControl::leave(std::string& failure) {
    CTN_TRY(let_in(false, failure));
    failure = "cannot leave " + config_.device + " for the next run";
    auto routes = CTN_TRY(netlink::RouteClient::open());
    const uint32_t index = CTN_TRY(routes.interface_index(config_.device));
    CTN_TRY(set_alias(routes, index, mark_of(config_)));
    failure.clear();
    return {};
}

base::Result<void> CaptureControl::take_over() {
    auto routes = CTN_TRY(netlink::RouteClient::open());
    for (const netlink::LinkEntry& link : CTN_TRY(routes.links())) {
        const bool is_marked = link.alias.starts_with(kMarkStart);
        if (link.name == config_.device && link.alias == mark_of(config_)) {
            has_taken_over_ = true;
        } else if (is_marked &&
                   (link.name == config_.device || link.alias.starts_with(mark_start(config_)))) {
            CTN_TRY(routes.delete_link(link.index));  // another configuration's
        }
    }
    return has_taken_over_ ? adopt_rules(routes) : base::Result<void>{};
}

// Takes over the rules of the previous run, wherever they are. Rules of a captive portal are
// removed: this run knows no portal. let_in() handles the capture rules.
base::Result<void> CaptureControl::adopt_rules(netlink::RouteClient& routes) {
    std::vector<netlink::RuleEntry> ours;
    for (const base::IpVersion version : {base::IpVersion::V4, base::IpVersion::V6}) {
        for (netlink::RuleEntry& rule : CTN_TRY(routes.rules(version))) {
            if (rule.protocol == netlink::kRouteProtocol && rule.priority >= kLowestRulePriority &&
                rule.priority < kUsualRulePriority + kRulePriorities && !is_source_rule(rule)) {
                rule_priority_ = std::min(rule_priority_, rule.priority);
                ours.push_back(std::move(rule));
            }
        }
    }
    const CapturePlan left = build_capture_plan(options(nullptr));
    plan_.first_priority = left.first_priority;
    plan_.last_priority = left.last_priority;
    const uint32_t of_portal = portal_table(config_.routing_table);
    for (netlink::RuleEntry& rule : ours) {
        const bool is_of_capture = std::find(left.capture_rules.begin(), left.capture_rules.end(),
                                             rule) != left.capture_rules.end();
        if (rule.table == of_portal) {
            CTN_TRY(routes.remove_rule(rule));
        } else if (is_of_capture) {
            plan_.capture_rules.push_back(std::move(rule));
        } else {
            plan_.rules.push_back(std::move(rule));
        }
    }
    CTN_TRY(routes.remove_own_routes(of_portal));
    return {};
}

base::Result<void> CaptureControl::forget_mark(netlink::RouteClient& routes, uint32_t index) {
    return has_taken_over_ ? set_alias(routes, index, "") : base::Result<void>{};
}

}  // namespace continuo::cnapt::capture
