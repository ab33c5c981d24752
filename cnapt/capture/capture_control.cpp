#include "cnapt/capture/capture_control.hpp"

#include "cnapt/capture/capture_ruleset.hpp"
#include "cnapt/capture/source_routes.hpp"
#include "common/base/log.hpp"
#include "common/netfilter/netfilter.hpp"
#include "common/netlink/netlink_route.hpp"
#include "common/process/process_lookup.hpp"
#include "common/process/socket_destroy.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

namespace continuo::cnapt::capture {

namespace {

base::Result<void> remove_if_there(netlink::RouteClient& routes, const netlink::RuleEntry& rule) {
    const auto removed = routes.remove_rule(rule);
    return removed || removed.error().sys_errno == ENOENT ? base::Result<void>{} : removed;
}

std::vector<netlink::RuleEntry> bypass_rules(const CapturePlan& plan) {
    std::vector<netlink::RuleEntry> rules;
    std::copy_if(plan.rules.begin(), plan.rules.end(), std::back_inserter(rules),
                 [&](const auto& rule) { return rule.priority == plan.bypass_priority; });
    return rules;
}

// Without the family.
std::string bare_name(const std::string& table) {
    return table.substr(table.find(' ') + 1);
}

void warn(const char* what, const base::Error& error) {
    base::log(base::LogLevel::Warning, "%s: %.*s: %s", what, static_cast<int>(error.where.size()),
              error.where.data(), std::strerror(error.sys_errno));
}

}  // namespace

uint32_t near_group(const settings::CaptureConfig& config) {
    return config.routing_table;
}

CapturePlan CaptureControl::plan_of_guard() const {
    CaptureOptions both = options(nullptr);
    both.ipv4 = ipv4();
    both.ipv6 = ipv6();
    both.has_ipv6 = true;
    CapturePlan plan = build_capture_plan(both);
    plan.routes.clear();
    plan.rules.clear();
    plan.capture_rules.clear();
    return plan;
}

base::Result<void> CaptureControl::clean_up() {
    lan_timeouts_.open();
    plan_ = plan_of_guard();
    has_ipv6_ = !config_.ipv6 || host::ipv6_switched_off(config_.device).empty();
    CTN_TRY(take_over());
    auto netfilter = CTN_TRY(netfilter::NetfilterClient::open());
    const bool has_table = CTN_TRY(netfilter.count_rules(bare_name(plan_.table))) != 0;
    if (!has_table || (!config_.kill_switch && !has_taken_over_)) {
        CTN_TRY(nft_.apply(plan_.guard));
    }
    if (!has_taken_over_) {
        CTN_TRY(answers_.remove(plan_.answers_table));
        CTN_TRY(remove_rules());
    }
    return config_.kill_switch ? base::Result<void>{} : note_extent();
}

base::Result<void> CaptureControl::remove_rules() const {
    auto routes = CTN_TRY(netlink::RouteClient::open());
    CTN_TRY(routes.remove_own_rules(kLowestRulePriority, kSnaptRulePriority - 1));
    CTN_TRY(routes.remove_own_rules(kUsualRulePriority, kUsualRulePriority + kRulePriorities - 1));
    CTN_TRY(routes.remove_own_routes(config_.routing_table));
    CTN_TRY(routes.remove_own_routes(portal_table(config_.routing_table)));
    return set_groups({});
}

base::Result<void> CaptureControl::set_near(const uplinks::NearLinks& near, std::string& failure) {
    failure = "cannot tell uplinks and other interfaces apart";
    has_near_links_ = false;
    CTN_TRY(set_groups(near.is_counted() ? near : uplinks::NearLinks{}));
    has_near_links_ = near.is_counted();
    failure.clear();
    return {};
}

base::Result<void> CaptureControl::set_forward_links(const ForwardLinks& links,
                                                     std::string& failure) {
    forward_links_ = links;
    if (!is_active_ || !config_.kill_switch) {
        return {};
    }
    failure = "cannot update the interfaces of the kill switch";
    CTN_TRY(nft_.apply(forward_sets_text(plan_.table, forward_links_)));
    failure.clear();
    return {};
}

base::Result<void> CaptureControl::set_resolver_links(const std::vector<std::string>& links,
                                                      std::string& failure) {
    const auto user = links.empty() ? std::nullopt : process::user_id("systemd-resolve");
    if (!user) {
        resolver_table_.remove();
        return {};
    }
    failure = "cannot keep systemd-resolved off the uplinks";
    CTN_TRY(resolver_table_.make(resolver_table_text(capture_table(config_.device), *user, links)));
    failure.clear();
    return {};
}

base::Result<void> CaptureControl::set_groups(const uplinks::NearLinks& near) const {
    auto routes = CTN_TRY(netlink::RouteClient::open());
    for (const netlink::LinkEntry& link : CTN_TRY(routes.links())) {
        const bool is_near =
            std::any_of(near.links.begin(), near.links.end(),
                        [&](const auto& wanted) { return wanted.index == link.index; });
        const uint32_t group = near_group(config_);
        // An interface in another program's group is identified by that group.
        if (link.group != (is_near ? 0 : group)) {
            continue;
        }
        netlink::LinkSettings settings;
        settings.group = is_near ? group : 0;
        const auto set = routes.set_link(link.index, settings);
        if (!set && set.error().sys_errno != ENODEV) {
            return set;
        }
    }
    return {};
}

base::Result<void> CaptureControl::set_addresses(netlink::RouteClient& routes) {
    constexpr uint8_t kHostPrefixV4 = 32;
    constexpr uint8_t kHostPrefixV6 = 128;
    const uint32_t index = CTN_TRY(routes.interface_index(config_.device));
    if (config_.ipv4) {
        CTN_TRY(routes.add_address(index, ipv4(), kHostPrefixV4));
    }
    if (config_.ipv6 && has_ipv6_) {
        (void)host::switch_ipv6(config_.device, true);
        // Otherwise a deprecated address would not be captured (build_device_settings).
        const auto keeps_own =
            host::read_sysctl("net/ipv6/conf/" + config_.device + "/use_oif_addrs_only");
        const bool is_deprecated = !carries_ipv6_ && keeps_own && *keeps_own == "1";
        CTN_TRY(routes.add_address(index, ipv6(), kHostPrefixV6, is_deprecated));
    }
    return {};
}

base::Result<void> CaptureControl::set_carries_ipv6(bool carries_ipv6, std::string& failure) {
    carries_ipv6_ = carries_ipv6;
    failure = "cannot configure " + config_.device;
    auto routes = CTN_TRY(netlink::RouteClient::open());
    CTN_TRY(set_addresses(routes));
    failure.clear();
    return {};
}

bool CaptureControl::follow_ipv6() {
    const bool is_as_usual = has_ipv6_ && host::has_ipv6(config_.device) && host::has_ipv6("all");
    if (!config_.ipv6 || !config_.ipv4 || is_as_usual) {
        return false;
    }
    const std::string why = host::ipv6_switched_off(config_.device);
    const bool had_it = std::exchange(has_ipv6_, why.empty());
    if (had_it == has_ipv6_) {
        return has_ipv6_ && !host::has_ipv6(config_.device);
    }
    if (has_ipv6_) {
        base::log(base::LogLevel::Info, "IPv6 is switched on again on this host: captured, too");
    } else {
        (void)host::switch_ipv6(config_.device, false);
        base::log(base::LogLevel::Warning,
                  "IPv6 was switched off on this host (%s): captures IPv4 only", why.c_str());
    }
    return true;
}

base::Result<void> CaptureControl::set_up_device(std::string& failure) {
    failure = "cannot configure " + config_.device;
    const CapturePlan plan = build_capture_plan(options(nullptr));
    auto routes = CTN_TRY(netlink::RouteClient::open());
    const uint32_t index = CTN_TRY(routes.interface_index(config_.device));
    CTN_TRY(forget_mark(routes, index));
    for (const host::SysctlSetting& setting : plan.device_settings) {
        (void)host::write_sysctl(setting.key, setting.value);
    }
    CTN_TRY(set_addresses(routes));
    netlink::LinkSettings link;
    link.up = true;
    link.mtu = 1500;
    link.transmit_queue_length = 1000;
    CTN_TRY(routes.set_link(index, link));
    CTN_TRY(set_own_way(routes));
    failure.clear();
    return {};
}

// Name servers are asked through the tunnel before flows are let in (ResolverWatch). IPv4 sends by
// the device that a socket is bound to without any route; IPv6 does not. After a restart the routes
// of the previous run are there.
base::Result<void> CaptureControl::set_own_way(netlink::RouteClient& routes) {
    if (has_taken_over_) {
        return {};
    }
    rule_priority_ = CTN_TRY(rule_place(routes));
    CapturePlan plan = build_capture_plan(options(nullptr));
    for (const netlink::RouteEntry& route : plan.routes) {
        if (!route.destination.address.is_v4()) {
            CTN_TRY(routes.set_route(route));
        }
    }
    for (netlink::RuleEntry& rule : plan.rules) {
        if (rule.from && rule.from->address == ipv6() && rule.table == config_.routing_table) {
            CTN_TRY(routes.add_rule(rule));
            plan_.rules.push_back(std::move(rule));
        }
    }
    return extent_ ? note_extent() : base::Result<void>{};
}

base::Result<bool> CaptureControl::is_in_place() {
    auto routes = CTN_TRY(netlink::RouteClient::open());
    return CTN_TRY(rule_place(routes)) == plan_.first_priority;
}

base::Result<void> CaptureControl::begin(const classifier::Ruleset& ruleset, std::string& failure) {
    failure = "cannot list policy rules";
    auto routes = CTN_TRY(netlink::RouteClient::open());
    rule_priority_ = CTN_TRY(rule_place(routes));
    CapturePlan plan = build_capture_plan(options(&ruleset));
    // The guard is set for the first time, and connections of a killed run go on once they have
    // routes: the counters begin only then.
    const bool is_first = !is_active_;
    if (!is_first) {
        CTN_TRY(replace_table(plan, failure));
    }
    CTN_TRY(set_rules(std::move(plan), failure));
    if (is_first) {
        CTN_TRY(replace_table(plan_, failure));
    }
    is_active_ = true;
    if (!config_.gateway_interfaces.empty()) {
        lan_timeouts_.raise();
    }
    return let_in(is_open_, failure);
}

base::Result<void> CaptureControl::replace_table(const CapturePlan& plan, std::string& failure) {
    const auto applied = nft_.apply(plan.ruleset);
    if (!applied) {
        failure = "cannot apply nftables rules (" + nft_.error_text() + ")";
    } else {
        add_answers(plan);
    }
    return applied;
}

// Everything else works without it.
void CaptureControl::add_answers(const CapturePlan& plan) {
    const auto added = answers_.set(plan.answers_table, plan.answers);
    if (!added && !has_warned_of_answers_) {
        has_warned_of_answers_ = true;
        base::log(base::LogLevel::Warning,
                  "this kernel lacks nft_socket: UDP servers on 0.0.0.0 or :: answer through the "
                  "tunnel; bind them to an address");
    }
}

// Adds the new rules first, so that no flow leaves the tunnel in between.
base::Result<void> CaptureControl::move_rules(const CapturePlan& plan) {
    auto routes = CTN_TRY(netlink::RouteClient::open());
    for (const netlink::RuleEntry& rule : plan.rules) {
        CTN_TRY(routes.add_rule(rule));
    }
    for (const netlink::RuleEntry& rule : plan.capture_rules) {
        if (is_open_) {
            CTN_TRY(routes.add_rule(rule));
        }
    }
    base::log(base::LogLevel::Info,
              plan.first_priority == kUsualRulePriority
                  ? "policy rules are at priority %u again"
                  : "another program has added rules before those of cnapt, which move to "
                    "priority %u",
              plan.first_priority);
    return {};
}

base::Result<void> CaptureControl::set_rules(CapturePlan plan, std::string& failure) {
    auto routes = CTN_TRY(netlink::RouteClient::open());
    failure = "cannot configure " + config_.device;
    CTN_TRY(set_addresses(routes));  // they go when IPv6 is switched off for a moment
    failure = "cannot set routes of table " + std::to_string(config_.routing_table);
    for (const netlink::RouteEntry& route : plan.routes) {
        CTN_TRY(routes.set_route(route));
    }
    failure = "cannot set policy rules";
    if (is_active_ && plan.first_priority != plan_.first_priority) {
        CTN_TRY(move_rules(plan));
    }
    const bool has_new_bypass = bypass_rules(plan) != bypass_rules(plan_);
    for (const netlink::RuleEntry& rule : plan_.rules) {
        // The order of bypass rules counts, and the kernel puts a new one behind those of its
        // priority.
        const bool is_there =
            std::find(plan.rules.begin(), plan.rules.end(), rule) != plan.rules.end();
        if (!is_there || (rule.priority == plan.bypass_priority && has_new_bypass)) {
            CTN_TRY(remove_if_there(routes, rule));
        }
    }
    for (const netlink::RuleEntry& rule : plan_.capture_rules) {
        // Rules of an IP version that is no longer captured are removed.
        if (std::find(plan.capture_rules.begin(), plan.capture_rules.end(), rule) ==
            plan.capture_rules.end()) {
            CTN_TRY(remove_if_there(routes, rule));
        }
    }
    for (const netlink::RouteEntry& route : plan_.routes) {
        const bool is_there = std::any_of(
            plan.routes.begin(), plan.routes.end(),
            [&](const netlink::RouteEntry& other) { return other.table == route.table; });
        if (!is_there) {
            CTN_TRY(routes.remove_own_routes(route.table));
        }
    }
    plan_ = std::move(plan);  // set already, so that a second try finds what the first one added
    for (const netlink::RuleEntry& rule : plan_.rules) {
        CTN_TRY(routes.add_rule(rule));
    }
    return {};
}

base::Result<void> CaptureControl::let_in(bool is_open, std::string& failure) {
    is_open_ = is_open || config_.kill_switch;
    if (!is_active_) {
        return {};
    }
    failure = is_open_ ? "cannot capture new flows" : "cannot stop capturing new flows";
    auto routes = CTN_TRY(netlink::RouteClient::open());
    for (const netlink::RuleEntry& rule : plan_.capture_rules) {
        if (is_open_) {
            CTN_TRY(routes.add_rule(rule));
        } else {
            CTN_TRY(remove_if_there(routes, rule));
        }
    }
    const std::string& text = is_open_ ? plan_.open_gateway : plan_.close_gateway;
    if (!text.empty()) {
        CTN_TRY(nft_.apply(text));
    }
    CTN_TRY(note_extent());
    failure.clear();
    return {};
}

base::Result<size_t> CaptureControl::count_policy_rules() const {
    auto routes = CTN_TRY(netlink::RouteClient::open());
    size_t count = 0;
    for (const base::IpVersion version : {base::IpVersion::V4, base::IpVersion::V6}) {
        for (const netlink::RuleEntry& rule : CTN_TRY(routes.rules(version))) {
            const bool is_ours = rule.protocol == netlink::kRouteProtocol &&
                                 rule.priority >= plan_.first_priority &&
                                 rule.priority <= plan_.last_priority && !is_source_rule(rule);
            count += is_ours ? 1U : 0U;
        }
    }
    return count;
}

base::Result<size_t> CaptureControl::count_routes() const {
    auto routes = CTN_TRY(netlink::RouteClient::open());
    size_t count = 0;
    for (const netlink::RouteEntry& route : plan_.routes) {
        const base::IpVersion version = route.destination.address.version;
        for (const netlink::RouteEntry& found : CTN_TRY(routes.routes(version, route.table))) {
            count += found.protocol == netlink::kRouteProtocol ? 1U : 0U;
        }
    }
    return count;
}

base::Result<CaptureControl::Extent> CaptureControl::measure() {
    auto netfilter = CTN_TRY(netfilter::NetfilterClient::open());
    Extent now;
    generation_ = CTN_TRY(netfilter.ruleset_generation());
    now.table_rules = CTN_TRY(netfilter.count_rules(bare_name(plan_.table)));
    now.policy_rules = CTN_TRY(count_policy_rules());
    now.routes = CTN_TRY(count_routes());
    return now;
}

// A part that is removed between adding and measuring is noticed as missing, too.
base::Result<void> CaptureControl::note_extent() {
    extent_.reset();
    const auto now = measure();
    if (!now) {
        return {};  // is_whole() tries again
    }
    if (now->table_rules == 0 || (is_active_ && (now->policy_rules == 0 || now->routes == 0))) {
        return base::Error{base::Errc::InvalidState, "rules or routes were removed meanwhile"};
    }
    extent_ = *now;
    if (is_active_) {
        extent_->policy_rules =
            plan_.rules.size() + (is_open_ ? plan_.capture_rules.size() : size_t{0});
    }
    return {};
}

base::Result<bool> CaptureControl::is_whole() {
    if (!extent_) {
        return note_extent().has_value() || !is_active_;
    }
    auto netfilter = CTN_TRY(netfilter::NetfilterClient::open());
    const uint32_t generation = CTN_TRY(netfilter.ruleset_generation());
    if (generation != generation_) {
        if (CTN_TRY(netfilter.count_rules(bare_name(plan_.table))) != extent_->table_rules ||
            !CTN_TRY(answers_.is_whole(plan_.answers_table))) {
            return false;
        }
        generation_ = generation;
    }
    return CTN_TRY(count_policy_rules()) == extent_->policy_rules &&
           CTN_TRY(count_routes()) == extent_->routes;
}

base::Result<void> CaptureControl::repair(const classifier::Ruleset& ruleset,
                                          std::string& failure) {
    if (!is_active_) {
        failure = "cannot apply nftables rules";
        CTN_TRY(nft_.apply(plan_.guard));
        return note_extent();
    }
    failure = "cannot set policy rules";
    if (!extent_ || CTN_TRY(count_policy_rules()) != extent_->policy_rules) {
        // Their order counts, and begin() adds only the missing ones.
        auto routes = CTN_TRY(netlink::RouteClient::open());
        for (const netlink::RuleEntry& rule : plan_.rules) {
            if (rule.priority == plan_.bypass_priority || rule.priority == plan_.near_priority) {
                CTN_TRY(remove_if_there(routes, rule));
            }
        }
    }
    return begin(ruleset, failure);
}

// IPv6 routes any source, and connection tracking would translate to an address that nobody has.
void CaptureControl::end_connections() const {
    const auto ended = process::destroy_sockets(ipv6());
    if (!ended && ended.error().code != base::Errc::Unsupported) {
        warn("cannot end IPv6 connections", ended.error());
    }
    if (config_.gateway_interfaces.empty()) {
        return;
    }
    auto netfilter = netfilter::NetfilterClient::open();
    for (const base::IpAddress& address : {ipv4(), ipv6()}) {
        if (!netfilter) {
            return warn("cannot end connections of the LAN", netfilter.error());
        }
        if (const auto done = netfilter->forget_translated(address); !done) {
            warn("cannot end connections of the LAN", done.error());
        }
    }
}

void CaptureControl::end() {
    const CapturePlan plan = plan_of_guard();
    // One transaction: traffic of the LAN is no longer marked or translated, and the guard is set.
    static_cast<void>(nft_.apply(plan.guard));
    end_connections();
    const auto rules = remove_rules();
    const auto answers = answers_.remove(plan.answers_table);
    const auto table = nft_.remove_table(plan.table);
    if (!rules || !table || !answers) {
        const base::Error& error = !rules   ? rules.error()
                                   : !table ? table.error()
                                            : answers.error();
        base::log(base::LogLevel::Error, "cannot remove all rules and routes: %.*s",
                  static_cast<int>(error.where.size()), error.where.data());
    }
    lan_timeouts_.restore();
    resolver_table_.remove();
    plan_ = {};
    extent_.reset();
    is_active_ = false;
}

}  // namespace continuo::cnapt::capture
