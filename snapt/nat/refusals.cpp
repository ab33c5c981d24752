#include "snapt/nat/refusals.hpp"

#include "common/netlink/netlink_route.hpp"

#include <algorithm>
#include <utility>

namespace continuo::snapt::nat {

using packet::Protocol;
using settings::SelfService;

Refusals::Refusals(const RelayOptions& options)
    : denied_(effective_deny_list(options.allow, options.deny)), allow_self_(options.allow_self) {
    for (const auto& lease : {options.lease_ipv4, options.lease_ipv6}) {
        if (lease) {
            leases_.push_back(*lease);
        }
    }
}

void Refusals::set_local(std::vector<base::IpAddress> addresses) {
    std::sort(addresses.begin(), addresses.end());
    local_ = std::move(addresses);
}

bool Refusals::is_allowed_here(const packet::FiveTuple& tuple) const {
    const auto is_for = [&tuple](const SelfService& service) {
        switch (service.kind) {
        case SelfService::Kind::Ping:
            return tuple.protocol == Protocol::Icmp || tuple.protocol == Protocol::IcmpV6;
        case SelfService::Kind::Tcp:
            return tuple.protocol == Protocol::Tcp && service.ports.first <= tuple.remote_port &&
                   tuple.remote_port <= service.ports.last;
        case SelfService::Kind::Udp:
            return tuple.protocol == Protocol::Udp && service.ports.first <= tuple.remote_port &&
                   tuple.remote_port <= service.ports.last;
        }
        return false;
    };
    return std::any_of(allow_self_.begin(), allow_self_.end(), is_for);
}

bool Refusals::refuses(const packet::FiveTuple& tuple) const {
    // The order of the rules: packets to this host pass no other chain.
    if (std::binary_search(local_.begin(), local_.end(), tuple.remote)) {
        return !is_allowed_here(tuple);
    }
    const auto has_remote = [&tuple](const base::IpPrefix& prefix) {
        return prefix.address.version == tuple.remote.version && prefix.contains(tuple.remote);
    };
    if (std::any_of(leases_.begin(), leases_.end(), has_remote)) {
        return true;
    }
    const auto next = std::upper_bound(denied_.begin(), denied_.end(), tuple.remote,
                                       [](const base::IpAddress& address, const auto& prefix) {
                                           return address < prefix.address;
                                       });
    return next != denied_.begin() && has_remote(*std::prev(next));
}

std::optional<std::vector<base::IpAddress>> local_addresses() {
    auto client = netlink::RouteClient::open();
    auto entries = client ? client->addresses() : client.error();
    if (!entries) {
        return std::nullopt;
    }
    std::vector<base::IpAddress> addresses;
    for (const netlink::AddressEntry& entry : *entries) {
        addresses.push_back(entry.address);
        if (entry.address.is_v4() && entry.prefix_length < 31) {
            base::IpAddress broadcast = entry.address;
            for (size_t bit = entry.prefix_length; bit < 32; ++bit) {
                broadcast.octets[bit / 8] |= static_cast<uint8_t>(0x80U >> (bit % 8));
            }
            addresses.push_back(broadcast);
        }
    }
    return addresses;
}

}  // namespace continuo::snapt::nat
