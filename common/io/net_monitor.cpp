#include "common/io/net_monitor.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <tuple>

#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>
#include <unistd.h>

namespace continuo::io {

namespace {

using base::ByteView;
using base::Errc;
using base::Error;
using base::IpAddress;
using base::IpVersion;
using base::Result;

constexpr int kReceiveBufferBytes = 1 << 20;
constexpr size_t kBlockBytes = 32768;
constexpr unsigned kBlocksPerWakeUp = 256;

bool is_usable(const AddressEntry& entry) {
    const bool is_tentative =
        (entry.flags & IFA_F_TENTATIVE) != 0 && (entry.flags & IFA_F_OPTIMISTIC) == 0;
    return entry.scope == RT_SCOPE_UNIVERSE && !is_tentative &&
           (entry.flags & IFA_F_DADFAILED) == 0;
}

UsableAddress to_usable(const AddressEntry& entry) {
    UsableAddress usable;
    usable.interface_index = entry.interface_index;
    usable.address = entry.address;
    usable.prefix_length = entry.prefix_length;
    usable.deprecated = (entry.flags & IFA_F_DEPRECATED) != 0;
    // The same bit is IFA_F_SECONDARY for IPv4.
    usable.temporary = !entry.address.is_v4() && (entry.flags & IFA_F_TEMPORARY) != 0;
    return usable;
}

bool is_same_link(const LinkEntry& a, const LinkEntry& b) {
    return a.index == b.index;
}

bool is_same_address(const UsableAddress& a, const UsableAddress& b) {
    return a.interface_index == b.interface_index && a.address == b.address &&
           a.prefix_length == b.prefix_length;
}

template <typename T, typename Same>
const T* find_same(const std::vector<T>& list, const T& wanted, Same same) {
    const auto at =
        std::find_if(list.begin(), list.end(), [&](const T& entry) { return same(entry, wanted); });
    return at == list.end() ? nullptr : &*at;
}

auto route_order(const RouteEntry& route) {
    return std::tuple(route.destination.length, route.destination.address, route.interface_index,
                      route.metric, route.gateway.value_or(IpAddress()),
                      route.preferred_source.value_or(IpAddress()), route.type, route.protocol);
}

bool is_route_before(const RouteEntry& a, const RouteEntry& b) {
    return route_order(a) < route_order(b);
}

NetEvent link_event(NetEvent::Kind kind, const LinkEntry& link) {
    return NetEvent{kind, &link, nullptr, nullptr};
}
NetEvent address_event(NetEvent::Kind kind, const UsableAddress& address) {
    return NetEvent{kind, nullptr, &address, nullptr};
}
NetEvent route_event(NetEvent::Kind kind, const RouteEntry& route) {
    return NetEvent{kind, nullptr, nullptr, &route};
}

// Both lists are sorted: up to kMaxMonitoredRoutes, compared in one pass.
void each_missing(const std::vector<RouteEntry>& from,
                  const std::vector<RouteEntry>& in,
                  const std::function<void(const RouteEntry&)>& each) {
    auto other = in.begin();
    for (const RouteEntry& route : from) {
        while (other != in.end() && is_route_before(*other, route)) {
            ++other;
        }
        if (other == in.end() || is_route_before(route, *other)) {
            each(route);
        }
    }
}

}  // namespace

const LinkEntry* NetSnapshot::link(uint32_t interface_index) const {
    const auto at = std::find_if(links.begin(), links.end(), [&](const LinkEntry& entry) {
        return entry.index == interface_index;
    });
    return at == links.end() ? nullptr : &*at;
}

const LinkEntry* NetSnapshot::link(std::string_view name) const {
    const auto at = std::find_if(links.begin(), links.end(),
                                 [&](const LinkEntry& entry) { return entry.name == name; });
    return at == links.end() ? nullptr : &*at;
}

bool NetSnapshot::has_route(uint32_t interface_index, const IpAddress& address) const {
    return std::any_of(routes.begin(), routes.end(), [&](const RouteEntry& route) {
        return route.interface_index == interface_index && route.destination.contains(address);
    });
}

void compare(const NetSnapshot& before,
             const NetSnapshot& after,
             const std::function<void(const NetEvent&)>& each) {
    using Kind = NetEvent::Kind;
    each_missing(before.routes, after.routes,
                 [&](const RouteEntry& route) { each(route_event(Kind::RouteRemoved, route)); });
    for (const UsableAddress& address : before.addresses) {
        if (find_same(after.addresses, address, is_same_address) == nullptr) {
            each(address_event(Kind::AddressRemoved, address));
        }
    }
    for (const LinkEntry& link : before.links) {
        if (find_same(after.links, link, is_same_link) == nullptr) {
            each(link_event(Kind::LinkRemoved, link));
        }
    }
    for (const LinkEntry& link : after.links) {
        const LinkEntry* old = find_same(before.links, link, is_same_link);
        if (old == nullptr || *old != link) {
            each(link_event(old == nullptr ? Kind::LinkAdded : Kind::LinkChanged, link));
        }
    }
    for (const UsableAddress& address : after.addresses) {
        const UsableAddress* old = find_same(before.addresses, address, is_same_address);
        if (old == nullptr || *old != address) {
            each(
                address_event(old == nullptr ? Kind::AddressAdded : Kind::AddressChanged, address));
        }
    }
    each_missing(after.routes, before.routes,
                 [&](const RouteEntry& route) { each(route_event(Kind::RouteAdded, route)); });
}

struct NetMonitor::Inner {
    EventLoop& loop;
    std::function<void(const NetEvent&)> on_event;
    std::function<void()> on_settled;
    RouteClient client;
    UniqueFd fd;
    NetSnapshot snapshot;
    Counters counters;
    bool links_changed = false;
    bool addresses_changed = false;
    bool routes_changed = false;
    base::TimePoint routes_paid_until{};
    std::vector<uint8_t> block = std::vector<uint8_t>(kBlockBytes);
    std::unique_ptr<DeadlineTimer> timer;
    std::unique_ptr<Poller> poller;

    Inner(EventLoop& on, RouteClient with) : loop(on), client(std::move(with)) {}

    Result<void> subscribe();
    void on_readable();
    void note(const NetlinkMessage& message);
    // Lists what has changed, and reports the difference.
    void update();
    Result<void> list(NetSnapshot& next);
    Result<void> list_routes(NetSnapshot& next);
};

Result<void> NetMonitor::Inner::subscribe() {
    fd.reset(::socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_ROUTE));
    if (!fd.is_open()) {
        return Error{Errc::System, "open netlink socket", errno};
    }
    ::setsockopt(fd.value(), SOL_SOCKET, SO_RCVBUF, &kReceiveBufferBytes,
                 sizeof kReceiveBufferBytes);
    sockaddr_nl address{};
    address.nl_family = AF_NETLINK;
    address.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR | RTMGRP_IPV4_ROUTE |
                        RTMGRP_IPV6_ROUTE;
    if (::bind(fd.value(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        return Error{Errc::System, "bind netlink socket", errno};
    }
    return {};
}

void NetMonitor::Inner::note(const NetlinkMessage& message) {
    ++counters.notifications;
    switch (message.type) {
    case RTM_NEWLINK:
    case RTM_DELLINK:
        // The kernel drops routes of a link that goes without telling of each.
        links_changed = routes_changed = true;
        break;
    case RTM_NEWADDR:
        addresses_changed = true;
        break;
    case RTM_DELADDR:
        addresses_changed = routes_changed = true;
        break;
    case RTM_NEWROUTE:
    case RTM_DELROUTE: {
        const auto info = message.fixed<rtmsg>();
        const bool is_watched = info.rtm_table == RT_TABLE_MAIN && info.rtm_type == RTN_UNICAST &&
                                (info.rtm_flags & RTM_F_CLONED) == 0;
        routes_changed = routes_changed || is_watched;
        break;
    }
    default:
        break;
    }
}

void NetMonitor::Inner::on_readable() {
    for (unsigned i = 0; i < kBlocksPerWakeUp; ++i) {
        sockaddr_nl from{};
        socklen_t length = sizeof from;
        const ssize_t got = ::recvfrom(fd.value(), block.data(), block.size(), 0,
                                       reinterpret_cast<sockaddr*>(&from), &length);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0 && errno == ENOBUFS) {
            ++counters.overruns;
            links_changed = addresses_changed = routes_changed = true;
            continue;
        }
        if (got < 0) {
            break;
        }
        // Only the kernel's word counts.
        if (from.nl_pid == 0) {
            for_each_message(ByteView(block).first(static_cast<size_t>(got)),
                             [this](const NetlinkMessage& message) { note(message); });
        }
    }
    update();
}

Result<void> NetMonitor::Inner::list_routes(NetSnapshot& next) {
    next.routes.clear();
    for (const IpVersion version : {IpVersion::V4, IpVersion::V6}) {
        for (RouteEntry& route : CTN_TRY(client.routes(version, kMainTable))) {
            if (route.type == RouteType::Unicast) {
                next.routes.push_back(std::move(route));
            }
        }
    }
    // Default routes first.
    std::sort(next.routes.begin(), next.routes.end(), is_route_before);
    if (next.routes.size() > kMaxMonitoredRoutes) {
        counters.unwatched_routes += next.routes.size() - kMaxMonitoredRoutes;
        next.routes.resize(kMaxMonitoredRoutes);
    }
    // Lists that changes of links have asked for are not waited for: the next one may be an
    // interval away at most.
    const base::TimePoint now = loop.now();
    routes_paid_until =
        std::min<base::TimePoint>(std::max(routes_paid_until, now) + kRouteListInterval,
                                  now + kRouteListInterval * (kRouteListBurst + 1));
    return {};
}

Result<void> NetMonitor::Inner::list(NetSnapshot& next) {
    ++counters.lists;
    if (links_changed) {
        next.links = CTN_TRY(client.links());
    }
    if (addresses_changed) {
        next.addresses.clear();
        for (const AddressEntry& entry : CTN_TRY(client.addresses())) {
            if (is_usable(entry)) {
                next.addresses.push_back(to_usable(entry));
            }
        }
    }
    if (routes_changed) {
        CTN_TRY(list_routes(next));
    }
    links_changed = addresses_changed = routes_changed = false;
    return {};
}

void NetMonitor::Inner::update() {
    if (!links_changed && !addresses_changed && !routes_changed) {
        return;
    }
    // A storm of route changes alone may wait a moment.
    const base::TimePoint may_list_at = routes_paid_until - kRouteListInterval * kRouteListBurst;
    if (!links_changed && !addresses_changed && loop.now() < may_list_at) {
        timer->set(may_list_at);
        return;
    }
    NetSnapshot before = snapshot;
    NetSnapshot next = snapshot;
    if (!list(next)) {
        ++counters.failed_lists;
        timer->set(loop.now() + kRouteListInterval);
        return;
    }
    snapshot = std::move(next);
    bool is_changed = false;
    compare(before, snapshot, [&](const NetEvent& event) {
        is_changed = true;
        if (on_event) {
            on_event(event);
        }
    });
    if (is_changed && on_settled) {
        on_settled();
    }
}

Result<std::unique_ptr<NetMonitor>> NetMonitor::start(EventLoop& loop,
                                                      std::function<void(const NetEvent&)> on_event,
                                                      std::function<void()> on_settled) {
    auto inner = std::make_unique<Inner>(loop, CTN_TRY(RouteClient::open()));
    CTN_TRY(inner->subscribe());
    inner->links_changed = inner->addresses_changed = inner->routes_changed = true;
    CTN_TRY(inner->list(inner->snapshot));
    inner->on_event = std::move(on_event);
    inner->on_settled = std::move(on_settled);
    Inner* raw = inner.get();
    inner->timer = std::make_unique<DeadlineTimer>(loop, [raw] { raw->update(); });
    inner->poller =
        std::make_unique<Poller>(loop, inner->fd.value(), [raw] { raw->on_readable(); });
    inner->poller->watch(true);
    return std::unique_ptr<NetMonitor>(new NetMonitor(std::move(inner)));
}

NetMonitor::NetMonitor(std::unique_ptr<Inner> inner) : inner_(std::move(inner)) {}

NetMonitor::~NetMonitor() {
    inner_->poller.reset();
    inner_->timer.reset();
}

const NetSnapshot& NetMonitor::snapshot() const {
    return inner_->snapshot;
}

const NetMonitor::Counters& NetMonitor::counters() const {
    return inner_->counters;
}

}  // namespace continuo::io
