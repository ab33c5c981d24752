// SnaptSet: SNAPTs with IPv4 addresses alone, where an uplink has IPv6 alone: the network's NAT64.
#include "cnapt/snapts/snapt_set.hpp"
#include "cnapt/uplinks/nat64.hpp"
#include "common/base/log.hpp"

#include <algorithm>
#include <utility>

namespace continuo::cnapt::snapts {

bool SnaptSet::wants_nat64(const Member& member) const {
    const auto is_v4 = [](const config::HostPort& place) {
        const auto endpoint = place.endpoint();
        return endpoint && endpoint->address.is_v4();
    };
    const auto& addresses = member.entry.addresses;
    return !member.client->link().is_learned && parts_.node.uplinks().lacks_ipv4() &&
           std::all_of(addresses.begin(), addresses.end(), is_v4);
}

std::vector<base::Endpoint> SnaptSet::with_nat64(const Member& member) {
    std::vector<base::Endpoint> addresses = endpoints_of(member.entry);
    const size_t count = member.nat64 ? addresses.size() : 0;
    for (size_t i = 0; i < count; ++i) {
        const base::Endpoint v4 = addresses[i];
        addresses.push_back({uplinks::to_nat64(*member.nat64, v4.address), v4.port});
    }
    return addresses;
}

// Sets the prefix in use. An address made with a former prefix is forgotten: it may lead nowhere,
// or to the NAT64 of a network that the host has left.
void SnaptSet::follow_nat64(Member& member, const std::optional<base::IpPrefix>& prefix) {
    member.is_nat64_asked = true;
    if (prefix == member.nat64) {
        return;
    }
    if (member.nat64) {
        parts_.node.forget_address(member.client->link(), base::IpVersion::V6);
    }
    member.nat64 = prefix;
    member.client->link().nat64 = prefix;
    if (prefix) {
        base::log(base::LogLevel::Info, "%s: this network leads to its IPv4 address by NAT64, %s",
                  member.entry.name.c_str(), prefix->to_string().c_str());
    }
    use(member, with_nat64(member));
}

// The path has answered since its uplink came, so a prefix of a former network does not count.
bool SnaptSet::is_reached_by_nat64(const Member& member) {
    const links::SnaptLink& link = member.client->link();
    if (!member.nat64 || !link.session || !link.active_slot() || member.client->is_lost()) {
        return false;
    }
    if (link.is_on_stream()) {
        return link.is_control_open && member.nat64->contains(link.stream_address.address);
    }
    return member.nat64->contains(link.address().address) &&
           link.session->paths().path(*link.active_slot()).validation().has_answered();
}

// A prefix that only a router told is not kept once the router has withdrawn it.
void SnaptSet::choose_nat64_of(Member& member) {
    const auto is_told = [&](const std::optional<base::IpPrefix>& prefix) {
        return told_nat64_ && prefix == told_nat64_->prefix;
    };
    const bool is_withdrawn = member.is_nat64_of_router && !is_told(member.nat64);
    const bool works = !is_withdrawn && is_reached_by_nat64(member);
    const auto chosen = uplinks::choose_nat64(
        told_nat64_, member.asked_nat64, works ? member.nat64 : std::optional<base::IpPrefix>());
    member.is_nat64_of_router = is_told(chosen) && chosen != member.asked_nat64;
    follow_nat64(member, chosen);
}

void SnaptSet::on_nat64_asked(Member& member, const std::optional<base::IpPrefix>& found) {
    member.asked_nat64 = found;
    choose_nat64_of(member);
}

// An answer that name servers gave in another network says nothing about this one.
void SnaptSet::forget_nat64_answers() {
    for (Member& member : members_) {
        member.asked_nat64.reset();
        if (!wants_nat64(member)) {
            member.is_nat64_of_router = false;
            follow_nat64(member, std::nullopt);
        }
        member.is_nat64_asked = false;
    }
}

// Only a router of an uplink whose interface has no IPv4 counts.
std::optional<netlink::KnownPref64> SnaptSet::told_by_router() const {
    std::optional<netlink::KnownPref64> best;
    const auto& uplinks = parts_.node.uplinks().list();
    for (const uplinks::Uplink* uplink : uplinks) {
        const bool has_v4 =
            std::any_of(uplinks.begin(), uplinks.end(), [&](const uplinks::Uplink* other) {
                return other->address.is_v4() && other->interface_index == uplink->interface_index;
            });
        const auto told = pref64_ && !has_v4 ? pref64_->best(uplink->interface_index)
                                             : std::optional<netlink::KnownPref64>();
        if (told && (!best || told->standing < best->standing)) {
            best = told;
        }
    }
    return best;
}

// When routers no longer tell a prefix, name servers are asked. Until they have answered, the
// prefix in use stays.
void SnaptSet::follow_routers() {
    const bool was_told = told_nat64_.has_value();
    told_nat64_ = told_by_router();
    for (Member& member : members_) {
        if (told_nat64_ && wants_nat64(member)) {
            choose_nat64_of(member);
        } else if (was_told && !told_nat64_) {
            member.is_nat64_asked = false;
            resolve_again_at_ = {};
        }
    }
}

// Data of another SNAPT that goes by the prefix speaks for it. The look-up that follows a failure
// finds what name servers say.
void SnaptSet::on_unreached(const base::Endpoint& remote) {
    const auto leads_there = [&](const Member& member) {
        return member.nat64 && member.nat64->contains(remote.address);
    };
    const bool is_proven = std::any_of(members_.begin(), members_.end(), [&](const Member& member) {
        return leads_there(member) && !member.client->is_lost();
    });
    const auto by = std::find_if(members_.begin(), members_.end(), leads_there);
    if (!told_nat64_ || is_proven || by == members_.end()) {
        return;
    }
    if (by->nat64 != told_nat64_->prefix) {
        pref64_->reconsider(told_nat64_->prefix);
        return;
    }
    if (told_nat64_->standing != netlink::Pref64Standing::Doubted) {
        base::log(base::LogLevel::Info,
                  "NAT64: %s, which a router tells, leads nowhere; name servers are asked",
                  told_nat64_->prefix.to_string().c_str());
    }
    pref64_->doubt(told_nat64_->prefix);
}

void SnaptSet::prove_nat64() {
    for (const Member& member : members_) {
        const links::SnaptLink& link = member.client->link();
        if (pref64_ && member.nat64 && link.is_control_open &&
            member.nat64->contains(link.stream_address.address)) {
            pref64_->prove(*member.nat64);
        }
    }
}

void SnaptSet::follow_connected() {
    std::vector<uint32_t> connected;
    const netlink::NetSnapshot& network = parts_.node.network();
    for (const netlink::UsableAddress& own : network.addresses) {
        const netlink::LinkEntry* link = network.link(own.interface_index);
        if (!own.address.is_v4() && link != nullptr && link->has_carrier) {
            connected.push_back(own.interface_index);
        }
    }
    std::sort(connected.begin(), connected.end());
    if (pref64_) {
        pref64_->follow(std::move(connected));
    }
}

}  // namespace continuo::cnapt::snapts
