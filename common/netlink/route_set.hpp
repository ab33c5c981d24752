// RouteSet: the routes of a table that decide something, however many routes there are. It follows
// the kernel's notifications, and says when only a full list can tell. Pure.
#pragma once

#include "common/netlink/route_entry.hpp"

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <tuple>
#include <vector>

namespace continuo::netlink {

// Longest prefix that counts as part of a default route, such as 0.0.0.0/1 and 128.0.0.0/1.
inline constexpr uint8_t kLongestPartOfDefault = 7;
// Most routes kept, deciding ones first; further ones are counted. Choices.
inline constexpr size_t kMaxDecidingRoutes = 4096;
inline constexpr size_t kMaxOtherRoutes = 4096;
// Number kept of each kind; when fewer than kFewestOfKind remain of a larger kind, all routes are
// listed. So a reader that uses at most that many of a kind always has them.
inline constexpr size_t kRoutesOfKind = 128;
inline constexpr size_t kFewestOfKind = 64;

struct RouteInterest {
    // Every route that covers one of these decides; so do default routes, also in parts.
    std::vector<base::IpAddress> destinations;
    // Other routes: readers use a few of a kind, or ask whether there is one. Routes of one
    // interface, IP version and protocol are of one kind unless this function distinguishes them.
    uint8_t (*kind)(const RouteEntry& route) = nullptr;
};

// The order of lists: default routes first.
bool is_route_before(const RouteEntry& a, const RouteEntry& b);

// One notification of the kernel.
struct RouteChange {
    bool is_removal = false;
    bool replaces = false;  // replaces the one of equal destination, metric and type of service
    uint8_t type_of_service = 0;
    std::vector<RouteEntry> hops;  // one for each next hop
};

class RouteSet {
  public:
    explicit RouteSet(RouteInterest interest) : interest_(std::move(interest)) {}

    void apply(const RouteChange& change);
    // The link is down or gone, and with it its routes, which the kernel does not report.
    void remove_of_link(uint32_t interface_index);
    // An address of the host is gone. Routes that prefer it as a source go with it unreported, and
    // all routes of an interface whose last address it was.
    void doubt_routes_of(uint32_t interface_index, const base::IpAddress& address);
    void set_destinations(std::vector<base::IpAddress> destinations);

    // Sorted, without duplicates.
    std::vector<RouteEntry> list() const;
    const RouteInterest& interest() const { return interest_; }
    // Only a list can tell which routes exist.
    bool needs_list() const { return needs_list_; }
    // Changes since the last call: of deciding routes, and of others.
    struct Touched {
        bool is_deciding = false;
        bool is_other = false;
    };
    Touched take_touched();

    // Routes not kept: further ones of a kind, as far as known without a list; and deciding ones
    // beyond the limit.
    uint64_t left_out() const { return left_out_; }
    uint64_t unseen_deciding() const { return unseen_deciding_; }

  private:
    struct Kept {
        RouteEntry entry;
        uint8_t type_of_service = 0;
        mutable bool is_one_of_several = false;  // no part of the order
        bool is_deciding = false;
    };
    struct Before {
        bool operator()(const Kept& a, const Kept& b) const;
    };
    using Kind = std::tuple<uint32_t, base::IpVersion, uint8_t, uint8_t>;
    struct OfKind {
        size_t kept = 0;
        bool has_more = false;
    };
    using Routes = std::set<Kept, Before>;

    bool decides(const base::IpPrefix& destination) const;
    Kind kind_of(const RouteEntry& entry) const;
    void insert(Kept route);
    void remove(const Kept& route);
    Routes::iterator erase(Routes::iterator at);
    void remove_replaced(const RouteEntry& by, uint8_t type_of_service);
    void leave_out(const Kept& route);

    RouteInterest interest_;
    Routes routes_;
    std::map<Kind, OfKind> kinds_;  // non-deciding routes
    size_t deciding_ = 0;
    uint64_t left_out_ = 0;
    uint64_t unseen_deciding_ = 0;
    bool has_unseen_kinds_ = false;  // for want of room for others
    bool needs_list_ = false;
    Touched touched_;
};

}  // namespace continuo::netlink
