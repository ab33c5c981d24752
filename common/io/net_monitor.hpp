// NetMonitor: the host's interfaces, addresses and routes, reported at once when they change.
// Notifications only say what kind changed; the state is then listed anew and compared, so a lost
// notification (ENOBUFS) costs nothing. Addresses: global scope and usable only (tentative ones
// when optimistic). Routes: unicast, main table.
#pragma once

#include "common/io/event_loop.hpp"
#include "common/io/netlink_route.hpp"

#include <functional>
#include <memory>
#include <vector>

namespace continuo::io {

// Routes beyond are not watched (counted); default routes are kept first.
inline constexpr size_t kMaxMonitoredRoutes = 4096;
// Lists of routes are read at most once in this time on average, and so many without a pause: a
// move is a handful of changes, and the last of them is the route that it waits for. The longest
// wait is the interval.
inline constexpr base::Duration kRouteListInterval = base::milliseconds(20);
inline constexpr int64_t kRouteListBurst = 8;

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
    // The one that the kind names is set; valid during the call.
    const LinkEntry* link = nullptr;
    const UsableAddress* address = nullptr;
    const RouteEntry* route = nullptr;
};

// Events that lead from `before` to `after`: removals of routes, addresses, links, then additions
// the other way round.
void compare(const NetSnapshot& before,
             const NetSnapshot& after,
             const std::function<void(const NetEvent&)>& each);

class NetMonitor {
  public:
    // `on_event` is called on the loop, with the new snapshot already in place; `on_settled` (may
    // be empty) once after each group of events. snapshot() is filled when this returns; no events
    // are made for it.
    static base::Result<std::unique_ptr<NetMonitor>>
    start(EventLoop& loop,
          std::function<void(const NetEvent&)> on_event,
          std::function<void()> on_settled = {});
    NetMonitor(const NetMonitor&) = delete;
    NetMonitor& operator=(const NetMonitor&) = delete;
    ~NetMonitor();

    const NetSnapshot& snapshot() const;

    struct Counters {
        uint64_t notifications = 0;
        uint64_t overruns = 0;  // ENOBUFS
        uint64_t lists = 0;
        uint64_t failed_lists = 0;
        uint64_t unwatched_routes = 0;
    };
    const Counters& counters() const;

  private:
    struct Inner;
    explicit NetMonitor(std::unique_ptr<Inner> inner);
    std::unique_ptr<Inner> inner_;
};

}  // namespace continuo::io
