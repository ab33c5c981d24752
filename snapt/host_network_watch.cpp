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
#include <chrono>

namespace continuo::snapt {

using base::log;
using base::LogLevel;
using daemon::describe;

namespace {

// While nftables is as it was, and nothing was wrong, one in so many looks at what is others'.
constexpr unsigned kLooksOfOthers = 10;
// Such a look lists chains with all their rules: it gets a twentieth of a processor.
constexpr int kShareOfOthers = 20;
// So many changes are logged in so long; of others the number.
constexpr unsigned kMaxSaid = 8;
constexpr base::Duration kSayInterval = base::seconds(60);
constexpr const char* kAnswersMark = "net/ipv4/conf/all/src_valid_mark";

std::string bare(const std::string& table) {
    return table.substr(table.find(' ') + 1);
}

std::string dotted(std::string key) {
    std::replace(key.begin(), key.end(), '/', '.');
    return key;
}

}  // namespace

// A reverse path filter (rp_filter, the default of many systems) asks how a packet from snapt0 with
// the answer's mark would leave, but with no mark without that parameter, and would drop all
// answers because of our rule.
base::Result<void> HostNetwork::set_guard_rules() {
    auto routes = CTN_TRY(io::RouteClient::open());
    for (const io::RuleEntry& rule : guard_rules(config_.inner.device)) {
        const bool is_v4 = rule.version == base::IpVersion::V4;
        if (is_v4 && config_.inner.ipv4) {
            CTN_TRY(sysctls_->set({kAnswersMark, "1", false, false}));
        }
        if (is_v4 ? config_.inner.ipv4.has_value() : has_ipv6_.load()) {
            CTN_TRY(routes.add_rule(rule));
        }
    }
    return {};
}

// Before 5.12 the kernel knows no owners, some have no policy rules, and in containers parameters
// may be read-only: a look after each change does without them.
void HostNetwork::set_guard() {
    const auto set = set_guard_rules();
    if (!set) {
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

base::Result<HostNetwork::Prints> HostNetwork::prints() const {
    auto client = CTN_TRY(io::NetfilterClient::open());
    Prints found;
    const std::string& device = config_.inner.device;
    found.relay = CTN_TRY(client.fingerprint(bare(relay_table(device))));
    found.limit = CTN_TRY(client.fingerprint(bare(limit_table(device))));
    return found;
}

void HostNetwork::note_print(uint64_t Prints::*table) {
    if (const auto now = prints()) {
        prints_.*table = (*now).*table;
    }
}

bool HostNetwork::is_relay_whole() const {
    const auto now = prints();
    return now && now->relay == prints_.relay;
}

base::Result<void> HostNetwork::watch_tables() {
    auto client = CTN_TRY(io::NetfilterClient::open());
    const uint32_t generation = CTN_TRY(client.ruleset_generation());
    if (generation == generation_) {
        return {};
    }
    const Prints found = CTN_TRY(prints());
    if (found == prints_) {
        generation_ = generation;
        return {};
    }
    generation_ = 0;  // looked at again: what is put back is a change, too
    return put_back_tables(found);
}

base::Result<void> HostNetwork::put_back_tables(const Prints& found) {
    const std::string& device = config_.inner.device;
    if (found.relay != prints_.relay) {
        CTN_TRY(nft_.apply(build_relay_ruleset(nat_)));
        note_print(&Prints::relay);
        say_put_back("nftables table " + relay_table(device));
    }
    if (found.limit != prints_.limit) {
        CTN_TRY(nft_.remove_table(limit_table(device)));
        CTN_TRY(apply_limit(user_flows_));
        note_print(&Prints::limit);
        say_put_back("nftables table " + limit_table(device));
    }
    return {};
}

// Somebody may change it again and again.
void HostNetwork::say_put_back(const std::string& what) {
    const base::TimePoint now = std::chrono::steady_clock::now();
    if (now - said_from_ >= kSayInterval) {
        if (unsaid_ != 0) {
            log(LogLevel::Warning, "rules and kernel parameters were put back %u more times",
                unsaid_);
        }
        said_from_ = now;
        said_ = 0;
        unsaid_ = 0;
    }
    if (said_ < kMaxSaid) {
        ++said_;
        log(LogLevel::Warning, "%s was changed by somebody: it is put back", what.c_str());
    } else {
        ++unsaid_;
    }
}

// IPv4 is forwarded by what each of the two interfaces says, IPv6 by one parameter for all.
std::vector<io::SysctlSetting> HostNetwork::watched_parameters() const {
    std::vector<io::SysctlSetting> wanted;
    if (config_.inner.ipv4) {
        std::vector<std::string> interfaces = ways_out(config_);
        interfaces.push_back(config_.inner.device);
        wanted.push_back({"net/ipv4/ip_forward", "1", false, false});
        for (const std::string& name : interfaces) {
            wanted.push_back({"net/ipv4/conf/" + name + "/forwarding", "1", false, true});
        }
        if (has_guard_) {
            wanted.push_back({kAnswersMark, "1", false, true});
        }
    }
    if (config_.inner.ipv6 && has_ipv6_) {
        wanted.push_back({"net/ipv6/conf/all/forwarding", "1", false, true});
    }
    return wanted;
}

base::Result<void> HostNetwork::watch_parameters(std::string& failure) {
    for (const io::SysctlSetting& setting : watched_parameters()) {
        const auto value = io::read_sysctl(setting.key);
        if (!value || *value != "0") {
            continue;  // on, or not there
        }
        failure = dotted(setting.key) + " = 0";
        if (!config_.relay.set_forwarding && setting.key != kAnswersMark) {
            return base::Error{base::Errc::Unsupported, "set_forwarding = false"};
        }
        CTN_TRY(sysctls_->set(setting));
        say_put_back("kernel parameter " + failure);
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
    const base::TimePoint now = std::chrono::steady_clock::now();
    if ((is_known && others_trouble_.empty() && ++quiet_looks_ < kLooksOfOthers) ||
        now < others_free_at_) {
        return others_trouble_;
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
    const base::TimePoint end = std::chrono::steady_clock::now();
    others_free_at_ = end + kShareOfOthers * (end - now);
    return others_trouble_;
}

std::string HostNetwork::watch(bool is_thorough) {
    const std::lock_guard lock(mutex_);
    if (!is_set_up_) {
        return "";
    }
    std::vector<std::string> troubles;
    if (const auto tables = watch_tables(); !tables) {
        troubles.push_back("nftables rules are not as they should be (" + describe(tables.error()) +
                           ")");
    }
    std::string failure;
    if (const auto parameters = watch_parameters(failure); !parameters && !failure.empty()) {
        troubles.push_back(failure);
    }
    if (has_guard_) {
        (void)set_guard_rules();
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
