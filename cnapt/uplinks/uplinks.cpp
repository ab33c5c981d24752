#include "cnapt/uplinks/uplinks.hpp"

#include "cnapt/uplinks/near_links.hpp"
#include "common/base/log.hpp"

#include <algorithm>
#include <limits>

#include <fnmatch.h>

namespace continuo::cnapt::uplinks {

using base::LogLevel;

namespace {

// Size of outer packets: what an Ethernet carries. Larger ones would be fragmented somewhere.
constexpr uint32_t kLargestMtu = 1500;

constexpr unsigned kMetricBits = 32;  // the lower bits of a cost
constexpr uint64_t kLongestPrefix = 128;
constexpr uint64_t kCaptive = uint64_t{1} << 40;  // more than any route costs
constexpr uint64_t kLastResort = uint64_t{1} << 41;
constexpr uint64_t kNoRoute = uint64_t{1} << 42;

// Below the first level stations begin to lose frames at any rate and look for another access
// point; above the second they have recovered.
constexpr int kWeakDbm = -78;
constexpr int kStrongAgainDbm = -72;

// As the kernel chooses: the longest prefix, then the smallest metric.
uint64_t route_cost(const Uplink& uplink,
                    const base::IpAddress& destination,
                    const io::NetSnapshot& snapshot) {
    uint64_t cost = kNoRoute;
    for (const io::RouteEntry& route : snapshot.routes) {
        if (route.interface_index == uplink.interface_index &&
            route.destination.contains(destination)) {
            cost = std::min(cost, (kLongestPrefix - route.destination.length) << kMetricBits |
                                      route.metric);
        }
    }
    return cost;
}

// True when the operator named the interface, who knows of routes in other tables.
bool is_named(const io::LinkEntry& link, const UplinkRules& rules) {
    return std::any_of(rules.allow.begin(), rules.allow.end(), [&](const std::string& glob) {
        return glob != "*" && fnmatch(glob.c_str(), link.name.c_str(), 0) == 0;
    });
}

// Clients are on it; the Internet only if a default route leads there, or `allow` names it.
bool is_lan_only(const io::LinkEntry& link,
                 const UplinkRules& rules,
                 const io::NetSnapshot& snapshot) {
    return is_lan_side(link.name, rules) && !is_named(link, rules) &&
           std::none_of(
               snapshot.routes.begin(), snapshot.routes.end(), [&](const io::RouteEntry& route) {
                   return route.interface_index == link.index && route.destination.length == 0;
               });
}

}  // namespace

bool is_allowed_interface(std::string_view name, const UplinkRules& rules) {
    const std::string text(name);
    const auto fits = [&](const std::string& glob) {
        return fnmatch(glob.c_str(), text.c_str(), 0) == 0;
    };
    return text != rules.own_device && std::any_of(rules.allow.begin(), rules.allow.end(), fits) &&
           std::none_of(rules.deny.begin(), rules.deny.end(), fits);
}

bool is_lan_side(std::string_view name, const UplinkRules& rules) {
    const std::string text(name);
    return std::any_of(rules.lan.begin(), rules.lan.end(), [&](const std::string& glob) {
        return fnmatch(glob.c_str(), text.c_str(), 0) == 0;
    });
}

Uplinks::Uplinks(io::EventLoop& loop,
                 UplinkRules rules,
                 OnReadable on_readable,
                 OnWritable on_writable)
    : loop_(loop)
    , rules_(std::move(rules))
    , ask_source_(ask_kernel(rules_.fwmark))
    , on_readable_(std::move(on_readable))
    , on_writable_(std::move(on_writable))
    , offload_(io::probe_udp_offload()) {}

Uplinks::Change Uplinks::update(const io::NetSnapshot& snapshot) {
    Change change;
    std::vector<base::IpAddress> refused;
    const std::vector<io::UsableAddress> addresses = with_borrowed(snapshot);
    const auto usable = [&](const io::UsableAddress& address) -> const io::LinkEntry* {
        const io::LinkEntry* link = snapshot.link(address.interface_index);
        const bool is_usable = link != nullptr && link->is_up && !link->is_loopback &&
                               !address.address.is_loopback() &&
                               is_allowed_interface(link->name, rules_) &&
                               !is_lan_only(*link, rules_, snapshot);
        return is_usable ? link : nullptr;
    };
    const auto needs_device = [&](uint32_t interface_index, const base::IpAddress& own) {
        return !own.is_v4() ||
               std::any_of(addresses.begin(), addresses.end(), [&](const io::UsableAddress& other) {
                   return other.address == own && other.interface_index != interface_index &&
                          usable(other) != nullptr;
               });
    };
    for (auto& slot : slots_) {
        if (slot == nullptr) {
            continue;
        }
        const bool is_there =
            std::any_of(addresses.begin(), addresses.end(), [&](const io::UsableAddress& address) {
                return address.interface_index == slot->interface_index &&
                       address.address == slot->address && usable(address) != nullptr;
            });
        // Sockets are never rebound: others replace them, in another slot.
        const bool has_twin = !slot->is_bound && needs_device(slot->interface_index, slot->address);
        if (!is_there || has_twin) {
            change.removed.push_back(slot->slot);
            slot.reset();
        }
    }
    for (size_t i = 0; i < addresses.size(); ++i) {
        const io::UsableAddress& address = addresses[i];
        const io::LinkEntry* link = usable(address);
        if (link == nullptr) {
            continue;
        }
        const auto mtu = static_cast<uint16_t>(std::min<uint32_t>(link->mtu, kLargestMtu));
        if (Uplink* known = find(address)) {
            known->is_deprecated = address.deprecated;
            known->is_borrowed = i >= snapshot.addresses.size();
            if (known->mtu != mtu) {
                known->mtu = mtu;
                change.resized.push_back(known->slot);
            }
            note_carrier(*known, link->has_carrier, change);
            continue;
        }
        if (!leads_out(address, *link, snapshot)) {
            continue;
        }
        const auto slot = free_slot();
        if (!slot) {
            ++failed_;
            refused.push_back(address.address);
            // Once, not for each change of the host's state.
            if (std::find(refused_.begin(), refused_.end(), address.address) == refused_.end()) {
                base::log(LogLevel::Warning,
                          "%s on %s is not used: %zu addresses are in use already; leave out "
                          "interfaces with [uplinks] deny",
                          address.address.to_string().c_str(), link->name.c_str(), slots_.size());
            }
            continue;
        }
        auto uplink = std::make_unique<Uplink>();
        uplink->slot = *slot;
        uplink->interface_index = address.interface_index;
        uplink->interface = link->name;
        uplink->address = address.address;
        uplink->mtu = mtu;
        uplink->is_borrowed = i >= snapshot.addresses.size();
        uplink->is_deprecated = address.deprecated;
        uplink->is_tunnel = is_carried_over_ip(*link);
        uplink->is_named = is_named(*link, rules_);
        uplink->is_bound = needs_device(address.interface_index, address.address);
        uplink->has_carrier = link->has_carrier;
        if (open_ports(*uplink)) {
            change.added.push_back(*slot);
            slots_[*slot] = std::move(uplink);
        } else {
            ++failed_;
        }
    }
    refused_ = std::move(refused);
    return change;
}

// Those of the snapshot come first.
std::vector<io::UsableAddress> Uplinks::with_borrowed(const io::NetSnapshot& snapshot) const {
    std::vector<io::UsableAddress> addresses = snapshot.addresses;
    std::vector<io::UsableAddress> in_use;
    for (const auto& slot : slots_) {
        if (slot != nullptr && slot->is_borrowed) {
            in_use.push_back({slot->interface_index, slot->address});
        }
    }
    const auto links = bare_links(snapshot, snapts_, rules_.own_device, in_use, ask_source_);
    for (const BareLink& bare : links) {
        if (bare.source) {
            addresses.push_back(bare.borrowed());
        }
    }
    return addresses;
}

bool Uplinks::set_snapts(std::vector<base::IpAddress> snapts) {
    const bool is_other = snapts_ != snapts;
    snapts_ = std::move(snapts);
    return is_other;
}

bool Uplinks::leads_out(const io::UsableAddress& address,
                        const io::LinkEntry& link,
                        const io::NetSnapshot& snapshot) const {
    const auto leads_to_snapt = [&](const io::RouteEntry& route) {
        return std::any_of(snapts_.begin(), snapts_.end(), [&](const base::IpAddress& snapt) {
            return route.destination.contains(snapt);
        });
    };
    const auto leads = [&](const io::RouteEntry& route) {
        const base::IpPrefix& to = route.destination;
        const bool is_default = to.length <= kLongestPartOfDefault && !is_private(to.address);
        return route.interface_index == address.interface_index &&
               to.address.version == address.address.version &&
               (is_default || leads_to_snapt(route));
    };
    return is_named(link, rules_) ||
           std::any_of(snapshot.routes.begin(), snapshot.routes.end(), leads);
}

void Uplinks::note_carrier(Uplink& uplink, bool has_carrier, Change& change) {
    if (uplink.has_carrier == has_carrier) {
        return;
    }
    uplink.has_carrier = has_carrier;
    if (has_carrier) {
        uplink.is_joined = true;
        change.joined.push_back(uplink.slot);
    } else {
        change.is_any_cut = true;
    }
}

template <typename Each>
void Uplinks::for_each_on(uint32_t interface_index, Each each) {
    for (const auto& uplink : slots_) {
        if (uplink != nullptr && uplink->interface_index == interface_index) {
            each(*uplink);
        }
    }
}

Uplinks::Change Uplinks::note_joined(uint32_t interface_index, bool is_joined) {
    Change change;
    for (const auto& uplink : slots_) {
        const bool is_meant = uplink != nullptr && (interface_index == uplink->interface_index ||
                                                    (interface_index == 0 && !uplink->is_joined));
        if (!is_meant) {
            continue;
        }
        change.is_any_cut = change.is_any_cut || !is_joined;
        uplink->is_joined = is_joined;
        uplink->signal_dbm.reset();
        uplink->is_weak = false;
        uplink->signal_asked_at = {};
        if (uplink->can_carry()) {
            change.joined.push_back(uplink->slot);
        }
    }
    return change;
}

void Uplinks::note_signal(uint32_t interface_index, std::optional<int> dbm) {
    for_each_on(interface_index, [&](Uplink& uplink) {
        uplink.is_wireless = true;
        uplink.signal_dbm = dbm;
        uplink.is_weak = dbm && *dbm < (uplink.is_weak ? kStrongAgainDbm : kWeakDbm);
    });
}

void Uplinks::note_weak(uint32_t interface_index) {
    for_each_on(interface_index, [](Uplink& uplink) {
        uplink.is_wireless = true;
        uplink.is_weak = true;
        uplink.signal_asked_at = {};
    });
}

Uplink* Uplinks::find(const io::UsableAddress& address) {
    for (const auto& slot : slots_) {
        if (slot != nullptr && slot->interface_index == address.interface_index &&
            slot->address == address.address) {
            return slot.get();
        }
    }
    return nullptr;
}

bool Uplinks::open_ports(Uplink& uplink) {
    for (const base::TrafficClass traffic_class : base::kAllTrafficClasses) {
        io::UdpSocketOptions options;
        options.local = {uplink.address, 0};
        options.device = uplink.is_bound ? uplink.interface : "";
        options.leaves_by = uplink.is_bound ? 0 : uplink.interface_index;
        options.mark = rules_.fwmark;
        options.tos = rules_.tos[base::index_of(traffic_class)];
        options.offload = offload_;
        auto socket = io::UdpSocket::open(options);
        if (!socket) {
            base::log(LogLevel::Debug, "no socket on %s %s", uplink.interface.c_str(),
                      uplink.address.to_string().c_str());
            return false;
        }
        auto port =
            std::make_unique<Uplink::Port>(Uplink::Port{std::move(socket).value(), nullptr});
        Uplink::Port& ref = *port;
        port->poller = std::make_unique<io::Poller>(
            loop_, port->socket.fd(), [this, &uplink, &ref] { on_readable_(uplink, ref.socket); },
            [this, &ref] {
                ref.poller->watch(true, false);
                on_writable_();
            });
        port->poller->watch(true);
        uplink.ports[base::index_of(traffic_class)] = std::move(port);
    }
    return true;
}

// The slot unused for longest: datagrams of its former path may still be under way.
std::optional<uint8_t> Uplinks::free_slot() {
    for (size_t i = 1; i <= slots_.size(); ++i) {
        const auto slot = static_cast<uint8_t>((last_slot_ + i) % slots_.size());
        if (slots_[slot] == nullptr) {
            last_slot_ = slot;
            return slot;
        }
    }
    return std::nullopt;
}

// Metrics of different versions cannot be compared on one interface.
bool Uplinks::has_better_version(const Uplink& uplink,
                                 const SnaptAddresses& snapt,
                                 const io::NetSnapshot& snapshot,
                                 const SlotSet& excluded) const {
    return uplink.address.version != snapt.in_use &&
           std::any_of(slots_.begin(), slots_.end(), [&](const auto& other) {
               return other != nullptr && other->interface_index == uplink.interface_index &&
                      other->address.version == snapt.in_use && !excluded.test(other->slot) &&
                      other->can_carry() && !other->is_captive &&
                      has_route(*other, snapt, snapshot);
           });
}

// The host's preference for the interface: the smaller metric if the routes of both versions have
// prefixes of equal length, so that a good metric is not lost with a version that failed or is not
// in use. kNoRoute if `uplink` itself has no route.
uint64_t Uplinks::interface_cost(const Uplink& uplink,
                                 const SnaptAddresses& snapt,
                                 const io::NetSnapshot& snapshot) const {
    const auto cost_of = [&](const Uplink& each) {
        return snapt.has(each.address.version)
                   ? route_cost(each, snapt.of(each.address.version).address, snapshot)
                   : kNoRoute;
    };
    const uint64_t own = cost_of(uplink);
    uint64_t cost = own;
    for (const auto& other : slots_) {
        if (other != nullptr && other->interface_index == uplink.interface_index) {
            const uint64_t others = cost_of(*other);
            if (others >> kMetricBits == own >> kMetricBits) {
                cost = std::min(cost, others);
            }
        }
    }
    return cost;
}

uint64_t Uplinks::cost_of(const Uplink& uplink,
                          const SnaptAddresses& snapt,
                          const io::NetSnapshot& snapshot) const {
    const bool is_in_use = uplink.address.version == snapt.in_use;
    uint64_t cost = interface_cost(uplink, snapt, snapshot);
    if (cost < kNoRoute && !uplink.can_carry()) {
        cost = kNoRoute - 1;
    } else if (cost < kNoRoute && is_last_resort(uplink, snapt, snapshot)) {
        cost += kLastResort;
    } else if (cost < kNoRoute && uplink.is_captive) {
        cost = kCaptive;
    }
    return cost * 4 + (uplink.is_deprecated ? 2 : 0) + (is_in_use ? 0 : 1);
}

Uplink*
Uplinks::best_for(const SnaptAddresses& snapt, const io::NetSnapshot& snapshot, SlotSet excluded) {
    Uplink* best = nullptr;
    uint64_t best_cost = std::numeric_limits<uint64_t>::max();
    for (const auto& uplink : slots_) {
        if (uplink == nullptr || !snapt.has(uplink->address.version) ||
            excluded.test(uplink->slot) || has_better_version(*uplink, snapt, snapshot, excluded)) {
            continue;
        }
        const uint64_t cost = cost_of(*uplink, snapt, snapshot);
        if (cost < best_cost) {
            best = uplink.get();
            best_cost = cost;
        }
    }
    return best;
}

bool Uplinks::has_route(const Uplink& uplink,
                        const SnaptAddresses& snapt,
                        const io::NetSnapshot& snapshot) {
    const base::IpVersion version = uplink.address.version;
    return snapt.has(version) &&
           route_cost(uplink, snapt.of(version).address, snapshot) != kNoRoute;
}

bool Uplinks::is_last_resort(const Uplink& uplink,
                             const SnaptAddresses& snapt,
                             const io::NetSnapshot& snapshot) {
    if (!uplink.is_tunnel || uplink.is_named) {
        return false;
    }
    // Other VPNs have routes for everything but some private places: any prefix may cover the SNAPT
    // by chance.
    const bool has_default =
        std::any_of(snapshot.routes.begin(), snapshot.routes.end(), [&](const auto& route) {
            return route.interface_index == uplink.interface_index &&
                   route.destination.length <= kLongestPartOfDefault &&
                   !is_private(route.destination.address);
        });
    const base::IpVersion version = uplink.address.version;
    const uint64_t cost =
        snapt.has(version) ? route_cost(uplink, snapt.of(version).address, snapshot) : kNoRoute;
    const uint64_t host_prefix = uplink.address.bytes().size() * 8;
    const bool has_host_route = kLongestPrefix - (cost >> kMetricBits) == host_prefix;
    return cost == kNoRoute || (has_default && !has_host_route);
}

bool Uplinks::shares_network(const Uplink& uplink, const io::NetSnapshot& snapshot) const {
    if (uplink.is_bound) {
        return false;
    }
    return std::any_of(snapshot.addresses.begin(), snapshot.addresses.end(),
                       [&](const io::UsableAddress& own) {
                           return own.interface_index == uplink.interface_index &&
                                  own.address == uplink.address && has_neighbour(own);
                       });
}

bool Uplinks::has_neighbour(const io::UsableAddress& own) const {
    return std::any_of(slots_.begin(), slots_.end(), [&](const auto& other) {
        return other != nullptr && other->interface_index != own.interface_index &&
               other->can_carry() && is_in_network(other->address, own);
    });
}

std::vector<const Uplink*> Uplinks::list() const {
    std::vector<const Uplink*> list;
    for (const auto& uplink : slots_) {
        if (uplink != nullptr) {
            list.push_back(uplink.get());
        }
    }
    return list;
}

void Uplinks::wait_writable(const io::UdpSocket& socket) {
    for (const auto& uplink : slots_) {
        if (uplink == nullptr) {
            continue;
        }
        for (const auto& port : uplink->ports) {
            if (&port->socket == &socket) {
                port->poller->watch(true, true);
            }
        }
    }
}

}  // namespace continuo::cnapt::uplinks
