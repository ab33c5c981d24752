#include "cnapt/capture/gateway_check.hpp"

#include "cnapt/capture/routes.hpp"
#include "common/daemon/forward_rules.hpp"
#include "common/daemon/host_links.hpp"
#include "common/host/sysctl.hpp"
#include "common/netfilter/nft.hpp"
#include "common/netlink/netlink_route.hpp"

#include <algorithm>

#include <fnmatch.h>

namespace continuo::cnapt::capture {

using settings::CaptureConfig;

namespace {

// Bridges that one line names. A choice, not measured.
constexpr size_t kMaxNamed = 4;

std::vector<netlink::LinkEntry> host_links() {
    auto routes = netlink::RouteClient::open();
    if (!routes) {
        return {};
    }
    auto links = routes->links();
    return links ? std::move(*links) : std::vector<netlink::LinkEntry>();
}

bool fits(const std::string& pattern, const netlink::LinkEntry& link) {
    return !link.is_loopback && fnmatch(pattern.c_str(), link.name.c_str(), 0) == 0;
}

// The existing interfaces that match `patterns`. A pattern with a star may match none yet.
std::vector<std::string> names_of(const std::vector<std::string>& patterns,
                                  report::Findings& findings) {
    std::vector<std::string> names;
    const auto add = [&names](const std::string& name) {
        if (std::find(names.begin(), names.end(), name) == names.end()) {
            names.push_back(name);
        }
    };
    const auto links = host_links();
    for (const std::string& pattern : patterns) {
        if (!pattern.ends_with('*')) {
            add(pattern);
            continue;
        }
        bool is_any_there = false;
        for (const netlink::LinkEntry& link : links) {
            if (fits(pattern, link)) {
                add(link.name);
                is_any_there = true;
            }
        }
        if (!is_any_there) {
            findings.ok("gateway " + pattern, "none yet: taken when it comes");
        }
    }
    return names;
}

bool is_on(std::string_view key) {
    const auto value = host::read_sysctl(key);
    return value && *value != "0";
}

void check_forwarding(const CaptureConfig& config, report::Findings& findings) {
    const std::string check = "forwarding";
    std::string off;
    const auto note = [&off](std::string_view setting) {
        off += (off.empty() ? "" : " ") + std::string(setting);
    };
    if (config.ipv4 && !is_on("net/ipv4/ip_forward")) {
        note("net.ipv4.ip_forward=1");
    }
    if (config.ipv6 && !is_on("net/ipv6/conf/all/forwarding")) {
        note("net.ipv6.conf.all.forwarding=1");
    }
    if (off.empty()) {
        findings.ok(check, "on");
    } else {
        findings.fail(check, "is off: nothing of the LAN gets through", "sysctl -w " + off);
    }
}

std::vector<uint32_t> indexes_of_defaults() {
    std::vector<uint32_t> indexes;
    auto client = netlink::RouteClient::open();
    for (const base::IpVersion version : {base::IpVersion::V4, base::IpVersion::V6}) {
        const auto routes = client ? client->routes(version, netlink::kMainTable)
                                   : base::Result<std::vector<netlink::RouteEntry>>(client.error());
        for (size_t i = 0; routes && i < routes->size(); ++i) {
            if ((*routes)[i].destination.length == 0) {
                indexes.push_back((*routes)[i].interface_index);
            }
        }
    }
    return indexes;
}

struct Bridges {
    std::string sides;   // "docker0, br-1": LAN sides
    std::string others;  // those that are none, without uplinks
};

void add_name(std::string& names, size_t& count, const std::string& name) {
    ++count;
    if (count <= kMaxNamed) {
        names += (names.empty() ? "" : ", ") + name;
    } else if (count == kMaxNamed + 1) {
        names += ", ...";
    }
}

Bridges bridges(const CaptureConfig& config) {
    const auto defaults = indexes_of_defaults();
    Bridges found;
    size_t sides = 0;
    size_t others = 0;
    for (const netlink::LinkEntry& link : host_links()) {
        const bool is_uplink =
            std::find(defaults.begin(), defaults.end(), link.index) != defaults.end();
        const bool is_side =
            std::any_of(config.gateway_interfaces.begin(), config.gateway_interfaces.end(),
                        [&](const std::string& pattern) { return fits(pattern, link); });
        if (link.kind != "bridge" || !link.is_up) {
            continue;
        }
        if (is_side) {
            add_name(found.sides, sides, link.name);
        } else if (!is_uplink) {
            add_name(found.others, others, link.name);
        }
    }
    return found;
}

}  // namespace

void check_gateway(const CaptureConfig& config, report::Findings& findings) {
    if (config.gateway_interfaces.empty()) {
        return;
    }
    const auto sides = names_of(config.gateway_interfaces, findings);
    daemon::check_links("gateway ", sides, "capture.gateway_interfaces", findings);
    check_forwarding(config, findings);
    std::vector<daemon::ForwardWay> ways;
    std::string names = config.device;
    for (const std::string& name : sides) {
        ways.push_back({name, config.device});
        names += " and " + name;
    }
    if (!ways.empty()) {
        daemon::check_forward_rules(ways, names, findings);
    }
}

void check_forwarded(const CaptureConfig& config, report::Findings& findings) {
    if (!is_on("net/ipv4/ip_forward") && !is_on("net/ipv6/conf/all/forwarding")) {
        return;
    }
    const std::string check = "forwarded";
    const Bridges found = bridges(config);
    const std::string remedy =
        R"(capture.gateway_interfaces takes it into the tunnel, as in ["docker*", "br-*"])";
    const std::string in_tunnel =
        found.sides.empty() ? "" : "what comes from " + found.sides + " goes through the tunnel";
    if (!config.kill_switch) {
        if (!in_tunnel.empty()) {
            findings.ok(check, in_tunnel);
        }
        if (!found.others.empty()) {
            findings.ok(check,
                        "what comes from " + found.others + " stays beside the tunnel; " + remedy);
        }
        return;
    }
    netfilter::Nft nft;
    const auto stopped = nft.counter(capture_table(config.device), kForwardCounter);
    if (stopped && stopped->packets != 0) {
        findings.warn(check,
                      "the kill switch has stopped " + std::to_string(stopped->packets) +
                          " packets that this host forwards" +
                          (found.others.empty() ? "" : ", as from " + found.others) +
                          (in_tunnel.empty() ? "" : "; " + in_tunnel),
                      remedy);
        return;
    }
    std::string text = in_tunnel;
    if (!found.others.empty()) {
        text += (text.empty() ? "" : "; ") + std::string("what comes from ") + found.others +
                " goes nowhere (kill switch); " + remedy;
    }
    findings.ok(check, text.empty()
                           ? "leaves only by the tunnel, if at all (kill switch)"
                           : text + (found.others.empty() ? " or nowhere (kill switch)" : ""));
}

}  // namespace continuo::cnapt::capture
