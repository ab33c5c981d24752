// Others change the host's rules and parameters while the SNAPT runs. What is ours is put back;
// until it is, packets of nodes have no way out (nat_guard.hpp).
#include "common/base/log.hpp"
#include "common/daemon/startup.hpp"
#include "common/io/netfilter.hpp"
#include "snapt/host_network.hpp"
#include "snapt/nat.hpp"
#include "snapt/nat_guard.hpp"
#include "snapt/nat_limit.hpp"
#include "snapt/relay_check.hpp"

#include <algorithm>

namespace continuo::snapt {

using base::log;
using base::LogLevel;
using daemon::describe;

namespace {

// While nftables is as it was, and nothing was wrong, one in so many looks at what is others'.
constexpr unsigned kLooksOfOthers = 10;

std::string bare(const std::string& table) {
    return table.substr(table.find(' ') + 1);
}

std::string dotted(std::string key) {
    std::replace(key.begin(), key.end(), '/', '.');
    return key;
}

}  // namespace

base::Result<void> HostNetwork::set_guard_rules() {
    auto routes = CTN_TRY(io::RouteClient::open());
    for (const io::RuleEntry& rule : guard_rules(config_.inner.device)) {
        if (rule.version == base::IpVersion::V4 || has_ipv6_) {
            CTN_TRY(routes.add_rule(rule));
        }
    }
    return {};
}

// Before 5.12 the kernel knows no owners, and some have no policy rules: a look each second does
// without them.
void HostNetwork::set_guard() {
    const auto set = set_guard_rules();
    if (!set && has_guard_) {
        log(LogLevel::Warning,
            "cannot set a routing rule (%s): where somebody removes nftables rules, packets of "
            "nodes may leave without NAT until they are back",
            describe(set.error()).c_str());
    }
    has_guard_ = set.has_value();
    if (const auto made = guard_.make(build_guard_ruleset(nat_)); !made) {
        log(LogLevel::Info,
            "this kernel has no nftables tables with an owner: `nft flush ruleset` ends "
            "connections of nodes");
    }
}

base::Result<HostNetwork::Extent> HostNetwork::measure() const {
    auto client = CTN_TRY(io::NetfilterClient::open());
    Extent extent;
    const std::string& device = config_.inner.device;
    extent.relay_rules = CTN_TRY(client.count_rules(bare(relay_table(device))));
    extent.limit_rules = CTN_TRY(client.count_rules(bare(limit_table(device))));
    return extent;
}

void HostNetwork::note_extent() {
    if (const auto extent = measure()) {
        extent_ = *extent;
    }
}

// A rule that was replaced by another is not noticed: the number stays.
base::Result<void> HostNetwork::watch_tables() {
    auto client = CTN_TRY(io::NetfilterClient::open());
    const uint32_t generation = CTN_TRY(client.ruleset_generation());
    if (generation == generation_) {
        return {};
    }
    const Extent found = CTN_TRY(measure());
    if (found != extent_ || found.relay_rules == 0) {
        CTN_TRY(put_back_tables(found));
        generation_ = 0;  // looked at again: our own change is one, too
        return {};
    }
    generation_ = generation;
    return {};
}

base::Result<void> HostNetwork::put_back_tables(const Extent& found) {
    if (found.relay_rules != extent_.relay_rules || found.relay_rules == 0) {
        CTN_TRY(nft_.apply(build_relay_ruleset(nat_)));
        log(LogLevel::Warning, "nftables rules of table %s were changed: they are put back",
            relay_table(config_.inner.device).c_str());
    }
    if (found.limit_rules != extent_.limit_rules) {
        CTN_TRY(nft_.remove_table(limit_table(config_.inner.device)));
        CTN_TRY(apply_limit(user_flows_));
        log(LogLevel::Warning, "nftables rules of table %s were changed: they are put back",
            limit_table(config_.inner.device).c_str());
    }
    note_extent();
    return {};
}

// IPv4 is forwarded by what each of the two interfaces says, IPv6 by one parameter for all.
base::Result<void> HostNetwork::watch_parameters(std::string& failure) {
    std::vector<io::SysctlSetting> wanted;
    if (config_.inner.ipv4) {
        std::vector<std::string> interfaces = ways_out(config_);
        interfaces.push_back(config_.inner.device);
        wanted.push_back({"net/ipv4/ip_forward", "1", false, false});
        for (const std::string& name : interfaces) {
            wanted.push_back({"net/ipv4/conf/" + name + "/forwarding", "1", false, true});
        }
    }
    if (config_.inner.ipv6 && has_ipv6_) {
        wanted.push_back({"net/ipv6/conf/all/forwarding", "1", false, true});
    }
    for (const io::SysctlSetting& setting : wanted) {
        const auto value = io::read_sysctl(setting.key);
        if (!value || *value != "0") {
            continue;  // on, or not there
        }
        failure = dotted(setting.key) + " = 0";
        if (!config_.relay.set_forwarding) {
            return base::Error{base::Errc::Unsupported, "set_forwarding = false"};
        }
        CTN_TRY(sysctls_->set(setting));
        log(LogLevel::Warning, "kernel parameter %s was changed: it is put back", failure.c_str());
    }
    failure.clear();
    return {};
}

// Rules that are not ours, and interfaces that are not there.
std::string HostNetwork::watch_others() {
    auto client = io::NetfilterClient::open();
    const auto generation =
        client ? client->ruleset_generation() : base::Result<uint32_t>(client.error());
    const bool is_known = generation && *generation == others_generation_;
    if (is_known && others_trouble_.empty() && ++quiet_looks_ < kLooksOfOthers) {
        return "";
    }
    quiet_looks_ = 0;
    others_generation_ = generation ? *generation : 0;
    others_trouble_.clear();
    report::Findings findings;
    check_relay(config_, findings);
    for (const report::Finding& finding : findings.all()) {
        if (finding.verdict == report::Verdict::Fail) {
            others_trouble_ += others_trouble_.empty() ? "" : "; ";
            others_trouble_ += finding.check + ": " + finding.found;
        }
    }
    return others_trouble_;
}

std::string HostNetwork::watch(bool is_thorough) {
    const std::lock_guard lock(mutex_);
    if (!is_set_up_) {
        return "";
    }
    std::vector<std::string> troubles;
    if (const auto tables = watch_tables(); !tables) {
        troubles.push_back(
            "cannot put back nftables rules (" +
            (nft_.error_text().empty() ? describe(tables.error()) : nft_.error_text()) + ")");
    }
    if (has_guard_) {
        (void)set_guard_rules();
    }
    std::string failure;
    if (const auto parameters = watch_parameters(failure); !parameters && !failure.empty()) {
        troubles.push_back(failure);
    }
    const std::string others = is_thorough ? watch_others() : others_trouble_;
    if (!others.empty()) {
        troubles.push_back(others);
    }
    std::string text;
    for (const std::string& trouble : troubles) {
        text += (text.empty() ? "" : "; ") + trouble;
    }
    return text;
}

}  // namespace continuo::snapt
