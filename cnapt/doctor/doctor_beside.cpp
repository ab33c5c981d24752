// Checks of `cnapt doctor`: other software on this host that decides where traffic goes.
#include "cnapt/commands/failure_text.hpp"
#include "cnapt/doctor/doctor_context.hpp"
#include "cnapt/node/tunnel_uplinks.hpp"
#include "cnapt/uplinks/near_links.hpp"
#include "cnapt/uplinks/plain_places.hpp"

namespace continuo::cnapt::doctor {

using report::JsonValue;

namespace {

// The answer that a running daemon would give.
JsonValue vpns_of_host(const NodeDoctor& doctor) {
    io::EventLoop loop;
    const auto monitor = netlink::NetMonitor::start(loop, [](const netlink::NetEvent&) {});
    if (!monitor) {
        return {};  // "uplinks" has said so
    }
    std::vector<base::IpAddress> snapts;
    for (const SnaptTarget& target : doctor.targets) {
        snapts.push_back(target.endpoint.address);
    }
    report::JsonWriter json;
    node::write_other_vpns(
        json, node::vpns_with_default_route((*monitor)->snapshot(), snapts, doctor.mark()));
    auto parsed = JsonValue::parse(json.take());
    return parsed ? std::move(*parsed) : JsonValue{};
}

std::string prefix_text(const netlink::UsableAddress& own) {
    base::IpPrefix prefix{own.address, own.prefix_length};
    constexpr unsigned kOctetBits = 8;
    for (unsigned bit = own.prefix_length; bit < prefix.address.bytes().size() * kOctetBits;
         ++bit) {
        prefix.address.octets[bit / kOctetBits] &=
            static_cast<uint8_t>(~(1U << (kOctetBits - 1 - bit % kOctetBits)));
    }
    return prefix.to_string();
}

// "10.0.0.0/8, parts of 100.64.0.0/10", of an array of prefixes.
std::string ranges_text(const JsonValue& places) {
    std::vector<base::IpPrefix> prefixes;
    for (const JsonValue& place : places.items()) {
        if (const auto prefix = base::IpPrefix::parse(place.string().value_or(""))) {
            prefixes.push_back(*prefix);
        }
    }
    std::string text;
    for (const std::string& name : uplinks::private_ranges(prefixes)) {
        text += (text.empty() ? "" : ", ") + name;
    }
    return text;
}

// IPv4, as it is with IPv4 only (uplinks.hpp).
const netlink::UsableAddress* address_of(const netlink::NetSnapshot& network,
                                         const control_link::ControlUplink& uplink) {
    for (const netlink::UsableAddress& own : network.addresses) {
        const netlink::LinkEntry* link = network.link(own.interface_index);
        if (own.address.is_v4() && own.address == uplink.source && link != nullptr &&
            link->name == uplink.device) {
            return &own;
        }
    }
    return nullptr;
}

}  // namespace

// Names uplinks that a router may confuse, as on a docked laptop.
void check_shared_networks(NodeDoctor& doctor) {
    io::EventLoop loop;
    const auto monitor = netlink::NetMonitor::start(loop, [](const netlink::NetEvent&) {});
    if (!monitor) {
        return;  // "uplinks" has said so
    }
    const auto& uplinks = doctor.uplinks;
    for (auto one = uplinks.begin(); one != uplinks.end(); ++one) {
        const netlink::UsableAddress* own = address_of((*monitor)->snapshot(), *one);
        for (auto other = one + 1; own != nullptr && other != uplinks.end(); ++other) {
            if (other->device != one->device && other->source != one->source &&
                uplinks::is_in_network(other->source, *own)) {
                doctor.findings.ok("uplinks", one->device + " and " + other->device +
                                                  " are in one network, " + prefix_text(*own) +
                                                  ": answers are taken by either; [uplinks] deny "
                                                  "keeps one out");
            }
        }
    }
}

// Private destinations behind the default route, such as an intranet: as the daemon treats them.
void check_private_places(NodeDoctor& doctor) {
    const JsonValue& places = doctor.status.json["private_places"];
    const std::string beside = ranges_text(places["beside"]);
    const std::string refused = ranges_text(places["refused"]);
    if (!beside.empty()) {
        doctor.findings.ok("private", "destinations behind the default route in " + beside +
                                          " are reached beside the tunnel: no SNAPT forwards "
                                          "them; [relay] allow of a SNAPT leads them through");
    }
    if (!refused.empty()) {
        doctor.findings.ok("private", "destinations behind the default route in " + refused +
                                          " are refused: no SNAPT forwards them, and the kill "
                                          "switch stops the way beside; [capture] exclude reaches "
                                          "them beside the tunnel, [relay] allow of a SNAPT "
                                          "leads them through");
    }
}

void check_other_vpns(NodeDoctor& doctor) {
    const JsonValue vpns = doctor.runs() ? doctor.status.json["other_vpns"] : vpns_of_host(doctor);
    for (const JsonValue& vpn : vpns.items()) {
        const std::string remedy =
            commands::vpn_remedy(vpn, doctor.config && doctor.config->capture.kill_switch);
        if (vpn["used"].boolean().value_or(false) ||
            vpn["takes_programs"].boolean().value_or(false)) {
            doctor.findings.warn("vpn", commands::vpn_text(vpn), remedy);
        } else {
            doctor.findings.ok("vpn", commands::vpn_text(vpn) + "; " + remedy);
        }
    }
}

}  // namespace continuo::cnapt::doctor
