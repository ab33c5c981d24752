// SnaptSet: SNAPTs with IPv4 addresses alone, where an uplink has IPv6 alone: the network's NAT64.
#include "cnapt/nat64.hpp"
#include "cnapt/snapt_set.hpp"
#include "common/base/log.hpp"

#include <algorithm>
#include <utility>

namespace continuo::cnapt {

bool SnaptSet::wants_nat64(const Member& member) const {
    const auto is_v4 = [](const config::HostPort& place) {
        const auto endpoint = place.endpoint();
        return endpoint && endpoint->address.is_v4();
    };
    const auto& addresses = member.entry.addresses;
    return !member.client->link().is_learned && parts_.node.lacks_ipv4() &&
           std::all_of(addresses.begin(), addresses.end(), is_v4);
}

std::vector<base::Endpoint> SnaptSet::with_nat64(const Member& member) {
    std::vector<base::Endpoint> addresses = endpoints_of(member.entry);
    const size_t count = member.nat64 ? addresses.size() : 0;
    for (size_t i = 0; i < count; ++i) {
        const base::Endpoint v4 = addresses[i];
        addresses.push_back({to_nat64(*member.nat64, v4.address), v4.port});
    }
    return addresses;
}

// What another network made is nothing here.
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

void SnaptSet::choose_nat64_of(Member& member) {
    const bool works = member.client->is_started() && !member.client->is_lost();
    follow_nat64(member, choose_nat64(told_nat64_, member.asked_nat64,
                                      works ? member.nat64 : std::optional<base::IpPrefix>()));
}

void SnaptSet::on_nat64_asked(Member& member, const std::optional<base::IpPrefix>& found) {
    member.asked_nat64 = found;
    choose_nat64_of(member);
}

// By an uplink whose interface has no IPv4.
std::optional<io::KnownPref64> SnaptSet::told_by_router() const {
    std::optional<io::KnownPref64> best;
    const auto& uplinks = parts_.node.uplinks().list();
    for (const Uplink* uplink : uplinks) {
        const bool has_v4 = std::any_of(uplinks.begin(), uplinks.end(), [&](const Uplink* other) {
            return other->address.is_v4() && other->interface_index == uplink->interface_index;
        });
        const auto told = pref64_ && !has_v4 ? pref64_->best(uplink->interface_index)
                                             : std::optional<io::KnownPref64>();
        if (told && (!best || told->standing < best->standing)) {
            best = told;
        }
    }
    return best;
}

// What is over is asked for; until then the prefix stays as it is.
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

// That data of another SNAPT goes by the prefix speaks for it. The look-up that follows a failure
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
    if (told_nat64_->standing != io::Pref64Standing::Doubted) {
        base::log(base::LogLevel::Info,
                  "NAT64: %s, which a router tells, leads nowhere; name servers are asked",
                  told_nat64_->prefix.to_string().c_str());
    }
    pref64_->doubt(told_nat64_->prefix);
}

void SnaptSet::prove_nat64() {
    for (const Member& member : members_) {
        const SnaptLink& link = member.client->link();
        if (pref64_ && member.nat64 && link.is_control_open &&
            member.nat64->contains(link.stream_address.address)) {
            pref64_->prove(*member.nat64);
        }
    }
}

void SnaptSet::follow_connected() {
    std::vector<uint32_t> connected;
    const io::NetSnapshot& network = parts_.node.network();
    for (const io::UsableAddress& own : network.addresses) {
        const io::LinkEntry* link = network.link(own.interface_index);
        if (!own.address.is_v4() && link != nullptr && link->has_carrier) {
            connected.push_back(own.interface_index);
        }
    }
    std::sort(connected.begin(), connected.end());
    if (pref64_) {
        pref64_->follow(std::move(connected));
    }
}

}  // namespace continuo::cnapt
