// Checks of `cnapt doctor`: uplinks that have no address of their own.
#include "cnapt/borrowed_addresses.hpp"
#include "cnapt/doctor_context.hpp"
#include "cnapt/uplinks.hpp"

#include <algorithm>

namespace continuo::cnapt {

namespace {

// Those that the configuration or the daemon names by address.
std::vector<base::IpAddress> known_snapts(const NodeDoctor& doctor) {
    std::vector<base::IpAddress> snapts;
    for (const SnaptEntry& entry : doctor.config->snapts) {
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

std::string owner_of(const io::NetSnapshot& network, const base::IpAddress& address) {
    const auto at =
        std::find_if(network.addresses.begin(), network.addresses.end(),
                     [&](const io::UsableAddress& one) { return one.address == address; });
    const io::LinkEntry* link =
        at == network.addresses.end() ? nullptr : network.link(at->interface_index);
    return link == nullptr ? "another interface" : link->name;
}

report::Finding
finding_of(const io::NetSnapshot& network, const std::string& name, const BareLink& bare) {
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

}  // namespace

std::vector<report::Finding> borrow_addresses(const NodeDoctor& doctor, io::NetSnapshot& network) {
    UplinkRules rules;
    rules.own_device = doctor.config->capture.device;
    rules.allow = doctor.config->uplinks.allow;
    rules.deny = doctor.config->uplinks.deny;
    std::vector<report::Finding> findings;
    std::vector<io::UsableAddress> borrowed;
    for (const BareLink& bare : bare_links(network, known_snapts(doctor), rules.own_device, {},
                                           ask_kernel(doctor.config->capture.fwmark))) {
        const io::LinkEntry* link = network.link(bare.interface_index);
        const bool has_other =
            std::any_of(network.addresses.begin(), network.addresses.end(),
                        [&](const auto& own) { return own.interface_index == link->index; });
        if (!is_allowed_interface(link->name, rules) || (!bare.source && has_other)) {
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

}  // namespace continuo::cnapt
