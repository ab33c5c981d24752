#include "common/netlink/net_monitor.hpp"

#include "common/io/thread_time.hpp"
#include "common/io/worker_thread.hpp"
#include "common/netlink/route_message.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>
#include <unistd.h>

namespace continuo::netlink {

namespace {

using base::ByteView;
using base::Errc;
using base::Error;
using base::IpAddress;
using base::IpVersion;
using base::Result;

// Room for some 18 000 changes, which the kernel may make in 100 ms, so that fewer lists are
// needed.
constexpr int kReceiveBufferBytes = 8 << 20;
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

// Built on the helper thread.
struct RouteListing {
    explicit RouteListing(RouteInterest interest) : routes(std::move(interest)) {}
    RouteSet routes;
    bool is_done = false;
    base::Duration took{};  // processor time
};

Result<RouteSet> list_routes(const RouteInterest& interest) {
    RouteSet whole(interest);
    RouteClient client = CTN_TRY(RouteClient::open());
    for (const IpVersion version : {IpVersion::V4, IpVersion::V6}) {
        const RouteSet before = whole;
        CTN_TRY(client.each_route(
            version, kMainTable, [&](const RouteChange& route) { whole.apply(route); },
            [&] { whole = before; }));
    }
    static_cast<void>(whole.take_touched());
    return whole;
}

}  // namespace

struct NetMonitor::Inner {
    // So many at once, and one each `interval` on average.
    class Pace {
      public:
        base::TimePoint free_at(base::Duration interval) const {
            return paid_until_ - interval * kRouteReportBurst;
        }
        void charge(base::TimePoint now, base::Duration cost, base::Duration interval) {
            paid_until_ = std::min<base::TimePoint>(std::max(paid_until_, now) + cost,
                                                    now + cost + interval * kRouteReportBurst);
        }

      private:
        base::TimePoint paid_until_{};
    };

    io::EventLoop& loop;
    std::function<void(const NetEvent&)> on_event;
    std::function<void()> on_settled;
    RouteClient client;
    io::UniqueFd fd;
    NetSnapshot snapshot;
    Counters counters;
    bool links_changed = false;
    bool addresses_changed = false;
    RouteSet routes{RouteInterest{}};
    RouteSet::Touched touched;    // in routes, and not in the snapshot
    WatchedAddresses watched;     // null asks for those from the start
    bool routes_doubted = false;  // to be listed
    bool is_listing = false;
    // Changes since the list started, which it may include or not.
    std::vector<RouteChange> changes_while_listing;
    // A storm of changes wakes the loop at most this often; until then nothing is read.
    Pace wake_ups;
    base::TimePoint read_again_at = base::kNever;
    Pace lists;
    Pace reports;
    Pace other_reports;
    RouteChange change;  // kept for its memory
    std::vector<uint8_t> block = std::vector<uint8_t>(kBlockBytes);
    std::unique_ptr<io::DeadlineTimer> timer;
    std::unique_ptr<io::Poller> poller;
    std::unique_ptr<io::WorkerThread> worker;

    Inner(io::EventLoop& on, RouteClient with) : loop(on), client(std::move(with)) {}

    Result<void> subscribe();
    void on_readable();
    void on_timer();
    // At `at`, or when notifications are to be read again.
    void wake_at(base::TimePoint at) { timer->set(std::min(at, read_again_at)); }
    void note(const NetlinkMessage& message);
    void note_link(const NetlinkMessage& message);
    void note_route(const NetlinkMessage& message);
    // Lists changed items, and reports the differences.
    void update();
    Result<void> list(NetSnapshot& next);
    // Nothing is done before that time.
    base::TimePoint list_routes_when_due(base::TimePoint now);
    void on_listed(RouteListing& listing);
    base::TimePoint routes_reported_at() const;
};

Result<void> NetMonitor::Inner::subscribe() {
    fd.reset(::socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_ROUTE));
    if (!fd.is_open()) {
        return Error{Errc::System, "open netlink socket", errno};
    }
    // Exceeds the system's limit if the rights allow.
    if (::setsockopt(fd.value(), SOL_SOCKET, SO_RCVBUFFORCE, &kReceiveBufferBytes,
                     sizeof kReceiveBufferBytes) != 0) {
        ::setsockopt(fd.value(), SOL_SOCKET, SO_RCVBUF, &kReceiveBufferBytes,
                     sizeof kReceiveBufferBytes);
    }
    sockaddr_nl address{};
    address.nl_family = AF_NETLINK;
    address.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR | RTMGRP_IPV4_ROUTE |
                        RTMGRP_IPV6_ROUTE;
    if (::bind(fd.value(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        return Error{Errc::System, "bind netlink socket", errno};
    }
    // Routes that depend on a nexthop object are only reported by its message. Kernels before 5.3
    // have none.
    const int nexthops = RTNLGRP_NEXTHOP;
    ::setsockopt(fd.value(), SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &nexthops, sizeof nexthops);
    return {};
}

void NetMonitor::Inner::note_link(const NetlinkMessage& message) {
    const auto info = message.fixed<ifinfomsg>();
    links_changed = true;
    // Bridges report their ports in messages of another family.
    const bool is_down = message.type == RTM_DELLINK || (info.ifi_flags & IFF_UP) == 0;
    if (info.ifi_family == AF_UNSPEC && is_down) {
        routes.remove_of_link(static_cast<uint32_t>(info.ifi_index));
        routes_doubted = routes_doubted || is_listing;
    }
}

void NetMonitor::Inner::note_route(const NetlinkMessage& message) {
    parse_route(message, kMainTable, change);
    if (change.hops.empty()) {
        return;
    }
    routes.apply(change);
    // A list of IPv6 routes may omit some while others are removed.
    const bool may_miss = change.is_removal && !change.hops.front().destination.address.is_v4();
    routes_doubted = routes_doubted || (is_listing && may_miss);
    if (is_listing && changes_while_listing.size() < kMaxChangesWhileListing) {
        changes_while_listing.push_back(change);
    } else if (is_listing) {
        routes_doubted = true;
    }
}

void NetMonitor::Inner::note(const NetlinkMessage& message) {
    ++counters.notifications;
    switch (message.type) {
    case RTM_NEWLINK:
    case RTM_DELLINK:
        note_link(message);
        break;
    case RTM_DELADDR:
        if (const auto entry = parse_address(message)) {
            routes.doubt_routes_of(entry->interface_index, entry->address);
            routes_doubted = routes_doubted || is_listing;
        }
        [[fallthrough]];
    case RTM_NEWADDR:
        addresses_changed = true;
        break;
    case RTM_NEWROUTE:
    case RTM_DELROUTE:
        note_route(message);
        break;
    case RTM_NEWNEXTHOP:
    case RTM_DELNEXTHOP:
        routes_doubted = true;
        break;
    default:
        break;
    }
}

void NetMonitor::Inner::on_timer() {
    if (loop.now() >= read_again_at) {
        read_again_at = base::kNever;
        poller->watch(true);
        on_readable();
    } else {
        update();
    }
}

void NetMonitor::Inner::on_readable() {
    const base::TimePoint now = loop.now();
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
            links_changed = addresses_changed = routes_doubted = true;
            continue;
        }
        if (got < 0) {
            wake_ups.charge(now, kReadInterval, kReadInterval);
            read_again_at =
                now < wake_ups.free_at(kReadInterval) ? now + kReadInterval : base::kNever;
            poller->watch(read_again_at == base::kNever);
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

base::TimePoint NetMonitor::Inner::list_routes_when_due(base::TimePoint now) {
    if (is_listing || !(routes_doubted || routes.needs_list())) {
        return base::kNever;
    }
    const base::TimePoint due_at = lists.free_at(kRouteReportInterval);
    if (now < due_at) {
        return due_at;
    }
    const auto listing = std::make_shared<RouteListing>(routes.interest());
    const auto work = [listing] {
        const base::Duration before = io::thread_time();
        if (auto listed = list_routes(listing->routes.interest())) {
            listing->routes = std::move(*listed);
            listing->is_done = true;
        }
        listing->took = io::thread_time() - before;
    };
    is_listing = worker->submit(work, [this, listing] { on_listed(*listing); });
    routes_doubted = !is_listing;
    changes_while_listing.clear();
    return is_listing ? base::kNever : now + kRouteReportInterval;
}

void NetMonitor::Inner::on_listed(RouteListing& listing) {
    ++counters.route_lists;
    is_listing = false;
    const base::TimePoint now = loop.refresh_now();
    lists.charge(now, std::max<base::Duration>(listing.took * kListShare, kRouteReportInterval),
                 kRouteReportInterval);
    if (listing.is_done) {
        std::vector<IpAddress> destinations = routes.interest().destinations;
        routes = std::move(listing.routes);
        for (const RouteChange& missed : changes_while_listing) {
            routes.apply(missed);
        }
        routes.set_destinations(std::move(destinations));  // others may be watched by now
        touched.is_deciding = true;                        // as far as is known
    } else {
        ++counters.failed_lists;
        routes_doubted = true;
    }
    changes_while_listing.clear();
    update();
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
    links_changed = addresses_changed = false;
    return {};
}

// A storm of changes in routes alone may wait briefly.
base::TimePoint NetMonitor::Inner::routes_reported_at() const {
    if (touched.is_deciding) {
        return reports.free_at(kRouteReportInterval);
    }
    return touched.is_other ? other_reports.free_at(kOtherRouteReportInterval) : base::kNever;
}

void NetMonitor::Inner::update() {
    const base::TimePoint now = loop.now();
    const RouteSet::Touched more = routes.take_touched();
    touched.is_deciding = touched.is_deciding || more.is_deciding;
    touched.is_other = touched.is_other || more.is_other;
    const base::TimePoint list_at = list_routes_when_due(now);
    const base::TimePoint report_at = routes_reported_at();
    if (!links_changed && !addresses_changed && now < report_at) {
        wake_at(std::min(list_at, report_at));
        return;
    }
    const NetSnapshot before = snapshot;
    NetSnapshot next = snapshot;
    if ((links_changed || addresses_changed) && !list(next)) {
        ++counters.failed_lists;
        wake_at(now + kRouteReportInterval);
        return;
    }
    if (touched.is_deciding || touched.is_other) {
        reports.charge(now, kRouteReportInterval, kRouteReportInterval);
        other_reports.charge(now, kOtherRouteReportInterval, kOtherRouteReportInterval);
        next.routes = routes.list();
        touched = {};
    }
    wake_at(list_at);
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

Result<std::unique_ptr<NetMonitor>> NetMonitor::start(io::EventLoop& loop,
                                                      std::function<void(const NetEvent&)> on_event,
                                                      std::function<void()> on_settled,
                                                      RouteInterest interest) {
    auto inner = std::make_unique<Inner>(loop, CTN_TRY(RouteClient::open()));
    CTN_TRY(inner->subscribe());
    inner->links_changed = inner->addresses_changed = true;
    CTN_TRY(inner->list(inner->snapshot));
    inner->watched.set(nullptr, WatchRank::First, interest.destinations);
    inner->routes = CTN_TRY(list_routes(interest));
    inner->snapshot.routes = inner->routes.list();
    // From the start: a daemon that has given up its rights makes no thread.
    inner->worker = std::make_unique<io::WorkerThread>(loop, "list-routes", 1);
    inner->on_event = std::move(on_event);
    inner->on_settled = std::move(on_settled);
    Inner* raw = inner.get();
    inner->timer = std::make_unique<io::DeadlineTimer>(loop, [raw] { raw->on_timer(); });
    inner->poller =
        std::make_unique<io::Poller>(loop, inner->fd.value(), [raw] { raw->on_readable(); });
    inner->poller->watch(true);
    return std::unique_ptr<NetMonitor>(new NetMonitor(std::move(inner)));
}

NetMonitor::NetMonitor(std::unique_ptr<Inner> inner) : inner_(std::move(inner)) {}

NetMonitor::~NetMonitor() {
    inner_->worker->abandon();  // a list may take seconds, and owns all that it needs
    inner_->worker.reset();
    inner_->poller.reset();
    inner_->timer.reset();
}

const NetSnapshot& NetMonitor::snapshot() const {
    return inner_->snapshot;
}

void NetMonitor::watch(const void* asker, std::vector<IpAddress> destinations, WatchRank rank) {
    if (!inner_->watched.set(asker, rank, std::move(destinations))) {
        return;
    }
    inner_->routes.set_destinations(inner_->watched.list());
    inner_->wake_at(inner_->loop.now());  // not within this call, which may come of a report
}

size_t NetMonitor::unwatched() const {
    return inner_->watched.left_out();
}

const NetMonitor::Counters& NetMonitor::counters() const {
    return inner_->counters;
}

uint64_t NetMonitor::routes_left_out() const {
    return inner_->routes.left_out();
}

uint64_t NetMonitor::unseen_routes() const {
    return inner_->routes.unseen_deciding();
}

}  // namespace continuo::netlink
