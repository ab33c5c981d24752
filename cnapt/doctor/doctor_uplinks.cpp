// Checks of `cnapt doctor`: uplinks that have no address of their own, and hosts with a public
// address in the networks of uplinks.
#include "cnapt/doctor/doctor_context.hpp"
#include "cnapt/uplinks/borrowed_addresses.hpp"
#include "cnapt/uplinks/near_links.hpp"
#include "cnapt/uplinks/on_link.hpp"
#include "cnapt/uplinks/uplinks.hpp"

#include <algorithm>

namespace continuo::cnapt::doctor {

using uplinks::OnLink;
using uplinks::UplinkRules;

namespace {

// Most networks in a finding. A choice, not measured.
constexpr size_t kMaxNetworksNamed = 6;

std::string owner_of(const netlink::NetSnapshot& network, const base::IpAddress& address) {
    const auto at =
        std::find_if(network.addresses.begin(), network.addresses.end(),
                     [&](const netlink::UsableAddress& one) { return one.address == address; });
    const netlink::LinkEntry* link =
        at == network.addresses.end() ? nullptr : network.link(at->interface_index);
    return link == nullptr ? "another interface" : link->name;
}

report::Finding finding_of(const netlink::NetSnapshot& network,
                           const std::string& name,
                           const uplinks::BareLink& bare) {
    const bool is_v4 = bare.snapt.is_v4();
    std::string found = name;
    found += is_v4 ? " has no IPv4 address of its own" : " has no IPv6 address of its own";
    if (bare.source) {
        found += ": it sends with " + bare.source->to_string() + " of " +
                 owner_of(network, *bare.source) + "; `src` of its route names another";
        return {report::Verdict::Ok, "uplinks", std::move(found), ""};
    }
    found += ", and no other interface has one for it";
    std::string remedy = is_v4 ? "ip route" : "ip -6 route";
    remedy += " change default dev " + name + " src ADDRESS, one of this host that leads here";
    return {report::Verdict::Warn, "uplinks", std::move(found), std::move(remedy)};
}

UplinkRules rules_of(const settings::NodeConfig& config) {
    UplinkRules rules;
    rules.own_device = config.capture.device;
    rules.allow = config.uplinks.allow;
    rules.deny = config.uplinks.deny;
    rules.lan = config.capture.gateway_interfaces;
    return rules;
}

// "2001:db8:7::/64 (eth0)", each of that fate; empty: none.
std::string networks_of(const uplinks::OnLinkNetworks& networks, OnLink fate) {
    std::string text;
    size_t named = 0;
    for (const uplinks::OnLinkNetwork& network : networks.list) {
        if (network.fate == fate && named < kMaxNetworksNamed) {
            ++named;
            text += (text.empty() ? "" : ", ") + network.prefix.to_string();
            text += " (" + network.interface + ")";
        } else if (network.fate == fate) {
            return text + ", ...";
        }
    }
    return text;
}

std::string_view fate_text(OnLink fate, bool is_kill_switch) {
    switch (fate) {
    case OnLink::Refuse:
        if (is_kill_switch) {
            return " are refused at once, so that programs take another address; "
                   "[capture] exclude reaches them beside the tunnel";
        }
        return " are refused at once, so that programs take another address; "
               "[capture] on_link = \"near\" reaches them beside the tunnel";
    case OnLink::Near:
        return " are reached beside the tunnel ([capture] on_link)";
    case OnLink::Tunnel:
        break;
    }
    return " are reached through the tunnel, where their network lets that in; "
           "[capture] on_link = \"near\" reaches them beside it";
}

}  // namespace

std::vector<base::IpAddress> known_snapts(const NodeDoctor& doctor) {
    std::vector<base::IpAddress> snapts;
    for (const settings::SnaptEntry& entry : doctor.config->snapts) {
        for (const config::HostPort& place : entry.addresses) {
            if (const auto endpoint = place.endpoint()) {
                snapts.push_back(endpoint->address);
            }
        }
    }
    for (const report::JsonValue& snapt : doctor.snapts.items()) {
        if (const auto endpoint = base::Endpoint::parse(snapt.text("address"))) {
            snapts.push_back(endpoint->address);
        }
    }
    return snapts;
}

void check_on_link(NodeDoctor& doctor) {
    if (!doctor.config) {
        return;  // the other checks say so
    }
    io::EventLoop loop;
    const auto monitor = netlink::NetMonitor::start(
        loop, [](const netlink::NetEvent&) {}, {},
        netlink::RouteInterest{{}, uplinks::kind_of_route});
    if (!monitor) {
        return;  // "uplinks" has said so
    }
    const uplinks::OnLinkNetworks networks = uplinks::on_link_networks(
        (*monitor)->snapshot(), rules_of(*doctor.config),
        {doctor.config->capture.on_link, doctor.config->capture.kill_switch});
    for (const OnLink fate : {OnLink::Refuse, OnLink::Near, OnLink::Tunnel}) {
        const std::string which = networks_of(networks, fate);
        if (!which.empty()) {
            std::string found = "hosts in " + which;
            found += fate_text(fate, doctor.config->capture.kill_switch);
            doctor.findings.ok("lan", std::move(found));
        }
    }
    if (networks.left_out != 0) {
        doctor.findings.warn("lan",
                             std::to_string(networks.left_out) +
                                 " public networks are too many: hosts there are reached through "
                                 "the tunnel",
                             "name their prefixes in [capture] near");
    }
}

std::vector<report::Finding> borrow_addresses(const NodeDoctor& doctor,
                                              netlink::NetSnapshot& network) {
    const UplinkRules rules = rules_of(*doctor.config);
    std::vector<report::Finding> findings;
    std::vector<netlink::UsableAddress> borrowed;
    for (const uplinks::BareLink& bare :
         uplinks::bare_links(network, known_snapts(doctor), rules.own_device, {},
                             uplinks::ask_kernel(doctor.config->capture.fwmark))) {
        const netlink::LinkEntry* link = network.link(bare.interface_index);
        const bool has_other =
            std::any_of(network.addresses.begin(), network.addresses.end(),
                        [&](const auto& own) { return own.interface_index == link->index; });
        if (!uplinks::is_allowed_interface(link->name, rules) || (!bare.source && has_other)) {
            continue;
        }
        findings.push_back(finding_of(network, link->name, bare));
        if (bare.source) {
            borrowed.push_back(bare.borrowed());
        }
    }
    network.addresses.insert(network.addresses.end(), borrowed.begin(), borrowed.end());
    return findings;
}

}  // namespace continuo::cnapt::doctor
