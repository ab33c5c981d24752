// Kernel parameters and the routing rule that others may change while the SNAPT runs.
#include "common/base/log.hpp"
#include "common/daemon/startup.hpp"
#include "snapt/nat/forwarding_parameters.hpp"
#include "snapt/nat/host_network.hpp"
#include "snapt/nat/nat_guard.hpp"
#include "snapt/nat/relay_check.hpp"

#include <algorithm>

namespace continuo::snapt::nat {

using base::log;
using base::LogLevel;
using daemon::describe;

namespace {

constexpr const char* kForwardNew4 = "net/ipv4/conf/default/forwarding";

std::string dotted(std::string key) {
    std::replace(key.begin(), key.end(), '/', '.');
    return key;
}

const char* name_of(base::IpVersion version) {
    return version == base::IpVersion::V4 ? "IPv4" : "IPv6";
}

}  // namespace

std::vector<ForwardingPath> HostNetwork::paths() const {
    std::vector<ForwardingPath> paths;
    if (config_.inner.ipv4) {
        paths.push_back(path_of(config_, base::IpVersion::V4));
    }
    if (config_.inner.ipv6 && has_ipv6_) {
        paths.push_back(path_of(config_, base::IpVersion::V6));
    }
    return paths;
}

// Values before snapt changed anything: switching forwarding on globally changes those of each
// interface.
void HostNetwork::remember_parameters() {
    for (const ForwardingPath& path : paths()) {
        for (const std::string& key : forwarding_keys(path)) {
            sysctls_->remember(key);
        }
    }
    for (const char* key : {kForwardAll4, kForwardAll6, kAnswersMark}) {
        sysctls_->remember(key);
    }
}

// Interfaces added since the start would otherwise not accept them any more.
void HostNetwork::keep_router_advertisements() {
    for (const std::string& name : host::interfaces_with_router_advertisements()) {
        (void)sysctls_->set({"net/ipv6/conf/" + name + "/accept_ra", "2", false, true});
    }
}

// Returns what was off and is on now. is_closed() shows failures.
std::vector<std::string> HostNetwork::open_paths() {
    std::vector<std::string> opened;
    if (!config_.relay.set_forwarding) {
        return opened;
    }
    for (const ForwardingPath& path : paths()) {
        for (const std::string& key : forwarding_off(path)) {
            if (key == kForwardAll6) {
                keep_router_advertisements();
            }
            if (sysctls_->set({key, "1", false, true})) {
                opened.push_back(key);
            }
        }
        if (path.version != base::IpVersion::V4 || !may_switch_all_on(path)) {
            continue;
        }
        const auto of_new_interfaces = host::read_sysctl(kForwardNew4);
        if (of_new_interfaces && sysctls_->set({kForwardAll4, "1", false, true})) {
            (void)host::write_sysctl(kForwardNew4, *of_new_interfaces);
            opened.emplace_back(kForwardAll4);
        }
    }
    return opened;
}

void HostNetwork::watch_parameters(Troubles& troubles) {
    std::vector<std::string> opened = open_paths();
    if (!opened.empty()) {
        // While the device was disabled, the host did not show by which interface packets leave.
        const std::vector<std::string> more = open_paths();
        opened.insert(opened.end(), more.begin(), more.end());
    }
    for (const std::string& key : opened) {
        say_put_back("kernel parameter " + dotted(key) + " = 0");
    }
    for (const ForwardingPath& path : paths()) {
        const std::vector<std::string> off = forwarding_off(path);
        if (is_closed(path) && !off.empty()) {  // not put right in between
            troubles.push_back(dotted(off.front()) + " = 0");
        }
    }
}

// Kernels before 5.12 have no owners, some have no policy rules, and in containers parameters may
// be read-only: the check after a change works without them.
void HostNetwork::set_guard() {
    Troubles none;
    watch_guard(none);
    if (const auto made = guard_.make(build_guard_ruleset(nat_)); !made) {
        log(LogLevel::Info,
            "this kernel has no nftables tables with an owner: `nft flush ruleset` ends "
            "connections of nodes");
    }
}

// A reverse path filter (rp_filter, the default on many systems) looks up how a packet from snapt0
// with the answer's mark would leave. Without that parameter it uses no mark, and would drop all
// answers because of our rule. False: it does.
bool HostNetwork::set_answers_mark() {
    const auto before = host::read_sysctl(kAnswersMark);
    if (sysctls_->set({kAnswersMark, "1", false, false})) {
        if (before && *before == "0" && guard_of(base::IpVersion::V4) == Guard::Set) {
            say_put_back("kernel parameter " + dotted(kAnswersMark) + " = 0");
        }
        return true;
    }
    return filter_of_answers(path_of(config_, base::IpVersion::V4)).empty();
}

void HostNetwork::watch_guard(Troubles& troubles) {
    for (const netlink::RuleEntry& rule : guard_rules(config_.inner.device)) {
        const bool is_v4 = rule.version == base::IpVersion::V4;
        if (is_v4 ? config_.inner.ipv4.has_value() : config_.inner.ipv6 && has_ipv6_) {
            watch_guard_rule(rule, troubles);
        }
    }
}

void HostNetwork::watch_guard_rule(const netlink::RuleEntry& rule, Troubles& troubles) {
    const bool lets_answers_pass = rule.version == base::IpVersion::V6 || set_answers_mark();
    Guard& guard = guard_of(rule.version);
    const std::string name = std::string("routing rule ") + std::to_string(rule.priority) + " of " +
                             name_of(rule.version);
    if (guard == Guard::Set && !lets_answers_pass) {
        troubles.push_back(dotted(kAnswersMark) + " = 0: a reverse path filter drops answers");
        return;
    }
    auto routes = netlink::RouteClient::open();
    base::Result<bool> was_missing = base::Error{base::Errc::Unsupported, kAnswersMark};
    if (lets_answers_pass) {
        was_missing = routes ? routes->restore_rule(rule) : base::Result<bool>(routes.error());
    }
    if (was_missing) {
        if (*was_missing && guard == Guard::Set) {
            say_put_back(name);
        }
        guard = Guard::Set;
    } else if (guard == Guard::Set) {
        troubles.push_back(name + " cannot be put back (" + describe(was_missing.error()) + ")");
    } else if (guard == Guard::Unset) {
        log(LogLevel::Warning,
            "cannot set %s (%s): where somebody removes nftables rules, packets of nodes may leave "
            "without NAT until they are back",
            name.c_str(), describe(was_missing.error()).c_str());
        guard = Guard::Failed;
    }
}

}  // namespace continuo::snapt::nat
