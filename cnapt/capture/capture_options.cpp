// CaptureControl: options of the plan, from the configuration, the policy and the current state.
#include "cnapt/capture/capture_control.hpp"
#include "common/base/log.hpp"
#include "common/process/process_lookup.hpp"

namespace continuo::cnapt::capture {

namespace {

constexpr uint8_t kTcp = 6;
constexpr uint8_t kUdp = 17;
constexpr uint8_t kIcmp = 1;

std::vector<std::optional<uint8_t>> protocols_of(const classifier::ProtocolSet& set) {
    std::vector<std::optional<uint8_t>> list;
    if (set.is_empty()) {
        list.emplace_back(std::nullopt);
    }
    if (set.tcp) {
        list.emplace_back(kTcp);
    }
    if (set.udp) {
        list.emplace_back(kUdp);
    }
    if (set.icmp) {
        list.emplace_back(kIcmp);
    }
    return list;
}

std::vector<std::optional<netlink::NumberRange>> users_of(const classifier::RuleMatch& match) {
    std::vector<std::optional<netlink::NumberRange>> users;
    if (!match.has_user()) {
        users.emplace_back(std::nullopt);
    }
    for (const uint32_t user : match.user_ids) {
        users.emplace_back(netlink::NumberRange{user, user});
    }
    for (const std::string& name : match.user_names) {
        if (const auto user = process::user_id(name)) {
            users.emplace_back(netlink::NumberRange{*user, *user});
        } else {
            base::log(base::LogLevel::Warning, "policy: no user %s here", name.c_str());
        }
    }
    return users;
}

// Each combination of the rule's lists becomes one match.
void expand(const classifier::BypassStep& step, uint32_t fwmark, std::vector<BypassMatch>& to) {
    const classifier::RuleMatch& match = *step.match;
    if (!match.cgroups.empty()) {
        BypassMatch marked;
        marked.fwmark = bypass_mark(fwmark);
        to.push_back(marked);
        return;
    }
    std::vector<std::optional<base::IpPrefix>> destinations(match.destinations.begin(),
                                                            match.destinations.end());
    if (destinations.empty()) {
        destinations.emplace_back(std::nullopt);
    }
    std::vector<std::optional<netlink::NumberRange>> ports;
    for (const config::PortRange& range : match.ports) {
        ports.emplace_back(netlink::NumberRange{range.first, range.last});
    }
    auto protocols = protocols_of(match.protocols);
    if (ports.empty()) {
        ports.emplace_back(std::nullopt);
    } else if (match.protocols.is_empty()) {
        protocols = {kTcp, kUdp};
    }
    const auto users = users_of(match);
    for (const auto& destination : destinations) {
        for (const auto& protocol : protocols) {
            for (const auto& range : ports) {
                for (const auto& user : users) {
                    to.push_back({destination, protocol, range, user, {}, step.is_bypassed});
                }
            }
        }
    }
}

// Resolvers come before the policy's entries, prefixes after them.
void add_plain(const uplinks::PlainPlaces& places, std::vector<BypassMatch>& to) {
    constexpr netlink::NumberRange kDns{53, 53};
    std::vector<BypassMatch> first;
    for (const base::IpAddress& server : places.resolvers) {
        const base::IpPrefix host{server, static_cast<uint8_t>(server.is_v4() ? 32 : 128)};
        for (const uint8_t protocol : {kUdp, kTcp}) {
            first.push_back({host, protocol, kDns, {}});
        }
    }
    to.insert(to.begin(), first.begin(), first.end());
    for (const base::IpPrefix& prefix : places.denied) {
        to.push_back({prefix, {}, {}, {}});
    }
}

}  // namespace

CaptureOptions CaptureControl::options(const classifier::Ruleset* ruleset) const {
    CaptureOptions options;
    options.device = config_.device;
    if (config_.ipv4) {
        options.ipv4 = ipv4();
    }
    if (config_.ipv6) {
        options.ipv6 = ipv6();
        options.has_ipv6 = has_ipv6_;
    }
    options.routing_table = config_.routing_table;
    options.rule_priority = rule_priority_;
    options.fwmark = config_.fwmark;
    options.exclude = config_.exclude;
    options.near = config_.near;
    options.near.insert(options.near.end(), on_link_.begin(), on_link_.end());
    options.has_near_links = has_near_links_;
    options.gateway_interfaces = config_.gateway_interfaces;
    options.kill_switch = config_.kill_switch;
    options.forward_links = forward_links_;
    options.portal = portal_;
    options.carriers = plain_.carriers;
    if (ruleset != nullptr) {
        for (const classifier::BypassStep& step : ruleset->bypass_steps()) {
            expand(step, config_.fwmark, options.bypass);
        }
    }
    if (!config_.kill_switch) {
        add_plain(plain_, options.bypass);
    }
    return options;
}

}  // namespace continuo::cnapt::capture
