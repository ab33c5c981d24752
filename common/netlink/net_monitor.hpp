// NetMonitor: the host's interfaces, addresses and routes, reported as soon as they change.
// Notifications about interfaces and addresses only trigger a new list, which is compared. Routes
// follow the notifications themselves; they are listed only at the start, when notifications were
// lost (ENOBUFS), and where the kernel removes some without a notification: on a helper thread,
// since a long list takes time. Addresses: global scope and usable only (tentative ones when
// optimistic). Routes: unicast, main table, those that decide (RouteSet).
#pragma once

#include "common/io/event_loop.hpp"
#include "common/netlink/netlink_route.hpp"
#include "common/netlink/watched_addresses.hpp"

#include <functional>
#include <memory>
#include <vector>

namespace continuo::netlink {

// Limit of reports about routes alone: one per interval on average, and this many in a row, since a
// move is a handful of changes, of which the last matters. The longest delay is the interval.
inline constexpr base::Duration kRouteReportInterval = base::milliseconds(20);
inline constexpr int64_t kRouteReportBurst = 8;
// The same if no deciding route has changed. A choice: reactions to others (which interfaces are
// near) may be that late in a storm.
inline constexpr base::Duration kOtherRouteReportInterval = base::milliseconds(250);
// Least average interval between reads of notifications, and kRouteReportBurst in a row.
inline constexpr base::Duration kReadInterval = base::milliseconds(2);
// A list of routes may take that part of the time of a processor, as the thread that lists them
// measures it.
inline constexpr int64_t kListShare = 20;
// Changes kept while routes are listed; above that they are listed once more.
inline constexpr size_t kMaxChangesWhileListing = 4096;

struct UsableAddress {
    uint32_t interface_index = 0;
    base::IpAddress address;
    uint8_t prefix_length = 0;
    bool deprecated = false;  // not for new flows when there is another
    bool temporary = false;   // RFC 8981

    bool operator==(const UsableAddress&) const = default;
};

struct NetSnapshot {
    std::vector<LinkEntry> links;
    std::vector<UsableAddress> addresses;
    std::vector<RouteEntry> routes;

    const LinkEntry* link(uint32_t interface_index) const;
    const LinkEntry* link(std::string_view name) const;
    // A route through that interface covers `address`.
    bool has_route(uint32_t interface_index, const base::IpAddress& address) const;
};

struct NetEvent {
    enum class Kind : uint8_t {
        LinkAdded,
        LinkChanged,
        LinkRemoved,
        AddressAdded,
        AddressChanged,
        AddressRemoved,
        RouteAdded,
        RouteRemoved,
    };
    Kind kind = Kind::LinkAdded;
    // The field for the kind is set; valid during the call.
    const LinkEntry* link = nullptr;
    const UsableAddress* address = nullptr;
    const RouteEntry* route = nullptr;
};

// Events that lead from `before` to `after`: removals of routes, addresses, links, then additions
// in reverse order.
void compare(const NetSnapshot& before,
             const NetSnapshot& after,
             const std::function<void(const NetEvent&)>& each);

class NetMonitor {
  public:
    // `on_event` is called on the loop, with the new snapshot already in place; `on_settled` (may
    // be empty) once after each group of events. snapshot() is filled when this returns; no events
    // are made for it.
    static base::Result<std::unique_ptr<NetMonitor>>
    start(io::EventLoop& loop,
          std::function<void(const NetEvent&)> on_event,
          std::function<void()> on_settled = {},
          RouteInterest interest = {});
    NetMonitor(const NetMonitor&) = delete;
    NetMonitor& operator=(const NetMonitor&) = delete;
    ~NetMonitor();

    const NetSnapshot& snapshot() const;
    // Addresses whose routes are seen however many there are (WatchedAddresses), beside those given
    // at the start. Routes that were not kept so far follow soon, with events.
    void watch(const void* asker,
               std::vector<base::IpAddress> destinations,
               WatchRank rank = WatchRank::First);

    struct Counters {
        uint64_t notifications = 0;
        uint64_t overruns = 0;  // ENOBUFS
        uint64_t lists = 0;     // lists of interfaces and addresses
        uint64_t failed_lists = 0;
        uint64_t route_lists = 0;
    };
    const Counters& counters() const;
    // RouteSet::left_out and unseen_deciding.
    uint64_t routes_left_out() const;
    uint64_t unseen_routes() const;
    // WatchedAddresses::left_out.
    size_t unwatched() const;

  private:
    struct Inner;
    explicit NetMonitor(std::unique_ptr<Inner> inner);
    std::unique_ptr<Inner> inner_;
};

}  // namespace continuo::netlink
