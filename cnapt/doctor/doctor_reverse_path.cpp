// Check of `cnapt doctor`: strict reverse path filters. With them the kernel drops packets from an
// uplink if the answer would leave by another interface.
#include "cnapt/doctor/doctor_context.hpp"
#include "common/host/sysctl.hpp"
#include "common/netfilter/netfilter.hpp"
#include "common/netlink/netlink_route.hpp"

#include <algorithm>

namespace continuo::cnapt::doctor {

namespace {

struct StrictFilter {
    std::string name;
    std::string remedy;
};

std::vector<netfilter::ReversePathRule> rules_of_host() {
    auto netfilter = netfilter::NetfilterClient::open();
    auto rules = netfilter
                     ? netfilter->reverse_path_rules()
                     : base::Result<std::vector<netfilter::ReversePathRule>>(netfilter.error());
    return rules ? std::move(rules).value() : std::vector<netfilter::ReversePathRule>{};
}

// The larger of the interface's value and that of all interfaces applies: 0, 1 (strict), 2 (loose).
bool is_strict_sysctl(const std::string& device) {
    const auto value = [](const std::string& name) {
        const auto text = host::read_sysctl("net/ipv4/conf/" + name + "/rp_filter");
        return text ? *text : std::string("0");
    };
    return std::max(value("all"), value(device)) == "1";
}

std::optional<StrictFilter> filter_of(const control_link::ControlUplink& uplink,
                                      const std::vector<netfilter::ReversePathRule>& rules) {
    if (uplink.source.is_v4() && is_strict_sysctl(uplink.device)) {
        return StrictFilter{"rp_filter = 1", "sysctl -w net.ipv4.conf.all.rp_filter=2"};
    }
    const auto rule =
        std::find_if(rules.begin(), rules.end(), [&](const netfilter::ReversePathRule& one) {
            return !one.version || *one.version == uplink.source.version;
        });
    if (rule == rules.end()) {
        return std::nullopt;
    }
    return StrictFilter{"nftables table " + rule->table,
                        "take `iif` out of its rule with `fib saddr` (firewalld: IPv6_rpfilter=" +
                            std::string("loose)")};
}

std::optional<base::IpAddress> some_snapt(const NodeDoctor& doctor, base::IpVersion version) {
    const auto at =
        std::find_if(doctor.targets.begin(), doctor.targets.end(), [&](const SnaptTarget& target) {
            return target.endpoint.address.version == version;
        });
    return at == doctor.targets.end() ? std::nullopt : std::optional(at->endpoint.address);
}

void add_once(std::vector<std::string>& list, const std::string& text) {
    if (std::find(list.begin(), list.end(), text) == list.end()) {
        list.push_back(text);
    }
}

std::string joined_names(const std::vector<std::string>& names) {
    std::string text;
    for (const std::string& name : names) {
        text += (text.empty() ? "" : ", ") + name;
    }
    return text;
}

}  // namespace

void check_reverse_paths(NodeDoctor& doctor) {
    const std::string check = "reverse path";
    auto routes = netlink::RouteClient::open();
    if (!doctor.config || !routes) {
        return;
    }
    const auto rules = rules_of_host();
    std::vector<std::string> filters;
    std::vector<std::string> remedies;  // without cnapt
    std::vector<std::string> passing;
    std::vector<std::string> waiting;  // for the daemon
    for (const control_link::ControlUplink& uplink : doctor.uplinks) {
        const auto filter = filter_of(uplink, rules);
        const auto snapt = some_snapt(doctor, uplink.source.version);
        if (!filter || !snapt) {
            continue;
        }
        const auto back_by = routes->interface_to(*snapt, uplink.source);
        add_once(filters, filter->name);
        add_once(remedies, filter->remedy);
        if (back_by && *back_by == uplink.device) {
            add_once(passing, uplink.device);
        } else if (!doctor.runs()) {
            add_once(waiting, uplink.device);
        } else {
            doctor.findings.warn(check,
                                 "strict (" + filter->name + "), and answers to " +
                                     uplink.source.to_string() + " would " +
                                     (back_by ? "leave by " + *back_by : "find no route") +
                                     ": what comes in by " + uplink.device + " is dropped",
                                 filter->remedy);
            return;
        }
    }
    if (!waiting.empty()) {
        doctor.findings.ok(check, "strict (" + joined_names(filters) + "): what comes in by " +
                                      joined_names(waiting) +
                                      " passes only while cnapt runs, by its routing rules; "
                                      "without it: " +
                                      joined_names(remedies));
    } else if (passing.size() > 1) {
        doctor.findings.ok(check, "strict (" + joined_names(filters) + "), and " +
                                      joined_names(passing) +
                                      " work: answers leave where they came in, by the routing "
                                      "rules of cnapt; nothing to do, and without cnapt: " +
                                      joined_names(remedies));
    }
}

}  // namespace continuo::cnapt::doctor
