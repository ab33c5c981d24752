#include "cnapt/capture_control.hpp"

#include "common/base/log.hpp"
#include "common/io/netlink_route.hpp"
#include "common/io/process_lookup.hpp"

#include <algorithm>
#include <cerrno>

namespace continuo::cnapt {

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

std::vector<std::optional<io::NumberRange>> users_of(const classifier::RuleMatch& match) {
    std::vector<std::optional<io::NumberRange>> users;
    if (!match.has_user()) {
        users.emplace_back(std::nullopt);
    }
    for (const uint32_t user : match.user_ids) {
        users.emplace_back(io::NumberRange{user, user});
    }
    for (const std::string& name : match.user_names) {
        if (const auto user = io::user_id(name)) {
            users.emplace_back(io::NumberRange{*user, *user});
        } else {
            base::log(base::LogLevel::Warning, "policy: no user %s here", name.c_str());
        }
    }
    return users;
}

// Every combination of what the rule lists becomes one match.
void expand(const classifier::BypassStep& step, std::vector<BypassMatch>& to) {
    const classifier::RuleMatch& match = *step.match;
    std::vector<std::optional<base::IpPrefix>> destinations(match.destinations.begin(),
                                                            match.destinations.end());
    if (destinations.empty()) {
        destinations.emplace_back(std::nullopt);
    }
    std::vector<std::optional<io::NumberRange>> ports;
    for (const config::PortRange& range : match.ports) {
        ports.emplace_back(io::NumberRange{range.first, range.last});
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
                    if (to.size() < kMaxBypassMatches) {
                        to.push_back({destination, protocol, range, user, step.is_bypassed});
                    }
                }
            }
        }
    }
}

base::Result<void> remove_if_there(io::RouteClient& routes, const io::RuleEntry& rule) {
    const auto removed = routes.remove_rule(rule);
    return removed || removed.error().sys_errno == ENOENT ? base::Result<void>{} : removed;
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
    }
    options.routing_table = config_.routing_table;
    options.fwmark = config_.fwmark;
    options.exclude = config_.exclude;
    options.gateway_interfaces = config_.gateway_interfaces;
    options.kill_switch = config_.kill_switch;
    if (ruleset != nullptr) {
        for (const classifier::BypassStep& step : ruleset->bypass_steps()) {
            expand(step, options.bypass);
        }
    }
    return options;
}

base::Result<void> CaptureControl::clean_up() {
    return remove_all(config_.kill_switch);
}

base::Result<void> CaptureControl::remove_all(bool keeps_table) {
    const CapturePlan plan = build_capture_plan(options(nullptr));
    auto routes = CTN_TRY(io::RouteClient::open());
    CTN_TRY(routes.remove_own_rules(plan.first_priority, plan.last_priority));
    CTN_TRY(routes.remove_own_routes(config_.routing_table));
    return keeps_table ? base::Result<void>{} : nft_.remove_table(plan.table);
}

base::Result<void> CaptureControl::set_up_device(std::string& failure) {
    failure = "cannot configure " + config_.device;
    const CapturePlan plan = build_capture_plan(options(nullptr));
    auto routes = CTN_TRY(io::RouteClient::open());
    const uint32_t index = CTN_TRY(routes.interface_index(config_.device));
    for (const io::SysctlSetting& setting : plan.device_settings) {
        (void)io::write_sysctl(setting.key, setting.value);
    }
    constexpr uint8_t kHostPrefixV4 = 32;
    constexpr uint8_t kHostPrefixV6 = 128;
    if (config_.ipv4) {
        CTN_TRY(routes.add_address(index, ipv4(), kHostPrefixV4));
    }
    if (config_.ipv6) {
        CTN_TRY(routes.add_address(index, ipv6(), kHostPrefixV6));
    }
    io::LinkSettings link;
    link.up = true;
    link.mtu = 1500;
    link.transmit_queue_length = 1000;
    CTN_TRY(routes.set_link(index, link));
    failure.clear();
    return {};
}

base::Result<void> CaptureControl::begin(const classifier::Ruleset& ruleset, std::string& failure) {
    CapturePlan plan = build_capture_plan(options(&ruleset));
    auto routes = CTN_TRY(io::RouteClient::open());
    failure = "cannot apply nftables rules";
    if (const auto applied = nft_.apply(plan.ruleset); !applied) {
        failure += " (" + nft_.error_text() + ")";
        return applied.error();
    }
    failure = "cannot set routes of table " + std::to_string(config_.routing_table);
    for (const io::RouteEntry& route : plan.routes) {
        CTN_TRY(routes.set_route(route));
    }
    failure = "cannot set policy rules";
    for (const io::RuleEntry& rule : plan_.rules) {
        // The order of bypass rules counts, and a new one goes behind those of its priority.
        const bool is_there =
            std::find(plan.rules.begin(), plan.rules.end(), rule) != plan.rules.end();
        if (!is_there || (rule.priority == plan.bypass_priority && plan.rules != plan_.rules)) {
            CTN_TRY(remove_if_there(routes, rule));
        }
    }
    plan_ = std::move(plan);  // already: a second try finds what the first one added
    for (const io::RuleEntry& rule : plan_.rules) {
        CTN_TRY(routes.add_rule(rule));
    }
    is_active_ = true;
    return let_in(is_open_, failure);
}

base::Result<void> CaptureControl::let_in(bool is_open, std::string& failure) {
    is_open_ = is_open || config_.kill_switch;
    if (!is_active_) {
        return {};
    }
    failure = is_open_ ? "cannot capture new flows" : "cannot leave new flows alone";
    auto routes = CTN_TRY(io::RouteClient::open());
    for (const io::RuleEntry& rule : plan_.capture_rules) {
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
    failure.clear();
    return {};
}

void CaptureControl::end() {
    if (const auto cleaned = remove_all(false); !cleaned) {
        base::log(base::LogLevel::Error, "cannot remove all rules and routes: %.*s",
                  static_cast<int>(cleaned.error().where.size()), cleaned.error().where.data());
    }
    plan_ = {};
    is_active_ = false;
}

}  // namespace continuo::cnapt
