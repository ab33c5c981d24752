// Checks of `cnapt doctor`: SNAPTs that have only an IPv4 address on a network that has only IPv6.
#include "cnapt/doctor/doctor_context.hpp"
#include "cnapt/names/name_lookup.hpp"
#include "cnapt/uplinks/nat64.hpp"

#include <algorithm>

namespace continuo::cnapt::doctor {

namespace {

// The daemon has heard the routers; they do not repeat this for a later listener.
std::optional<base::IpPrefix> prefix_of_daemon(const NodeDoctor& doctor, const std::string& snapt) {
    for (const report::JsonValue& one : doctor.snapts.items()) {
        if (one.text("snapt") == snapt) {
            return base::IpPrefix::parse(one.text("nat64"));
        }
    }
    return std::nullopt;
}

}  // namespace

void check_nat64(NodeDoctor& doctor) {
    const auto uses_v4 = [](const control_link::ControlUplink& uplink) {
        return uplink.source.is_v4();
    };
    if (!doctor.config || doctor.uplinks.empty() ||
        std::any_of(doctor.uplinks.begin(), doctor.uplinks.end(), uses_v4)) {
        return;
    }
    std::vector<SnaptTarget> v4_alone;
    for (const SnaptTarget& target : doctor.targets) {
        const bool has_v6 = std::any_of(
            doctor.targets.begin(), doctor.targets.end(), [&](const SnaptTarget& other) {
                return other.snapt == target.snapt && !other.endpoint.address.is_v4();
            });
        if (!has_v6) {
            v4_alone.push_back(target);
        }
    }
    if (v4_alone.empty()) {
        return;
    }
    names::LookupPlaces places;
    places.servers = doctor.config->dns.servers;
    places.fwmark = doctor.mark();
    const auto known = prefix_of_daemon(doctor, v4_alone.front().snapt);
    const auto prefix = known ? known : names::find_nat64_prefix(places);
    if (!prefix) {
        doctor.findings.fail("nat64",
                             v4_alone.front().snapt +
                                 " has an IPv4 address alone, and this network IPv6 alone, without "
                                 "NAT64 (no AAAA of ipv4only.arpa; cnapt has heard no PREF64)",
                             "give the SNAPT a name or an IPv6 address: `public` in snapt.toml, "
                             "`addresses` here");
        return;
    }
    doctor.findings.ok("nat64", v4_alone.front().snapt + " has an IPv4 address alone, and this " +
                                    "network IPv6 alone: reached by its NAT64, " +
                                    prefix->to_string() +
                                    "; a name or an IPv6 address does without");
    for (const SnaptTarget& target : v4_alone) {
        if (doctor.targets.size() < kMaxTargets) {
            doctor.targets.push_back(
                {target.snapt,
                 {uplinks::to_nat64(*prefix, target.endpoint.address), target.endpoint.port}});
        }
    }
}

}  // namespace continuo::cnapt::doctor
