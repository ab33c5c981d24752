// RouteSet: of a table of routes those that decide something, however many there are. It follows
// what the kernel tells of single routes, and says when only a list of all can tell. Pure.
#pragma once

#include "common/io/route_entry.hpp"

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <tuple>
#include <vector>

namespace continuo::io {

// Longest prefix that still is a default route in parts, as 0.0.0.0/1 and 128.0.0.0/1.
inline constexpr uint8_t kLongestPartOfDefault = 7;
// Routes that are kept at most, those that decide first; what is beyond is counted. Choices.
inline constexpr size_t kMaxDecidingRoutes = 4096;
inline constexpr size_t kMaxOtherRoutes = 4096;
// So many of each kind are kept; when fewer than kFewestOfKind are left of one of which there are
// more, all routes are listed. So a reader that takes no more than that of a kind has all it takes.
inline constexpr size_t kRoutesOfKind = 128;
inline constexpr size_t kFewestOfKind = 64;

struct RouteInterest {
    // Every route that covers one of these decides, as default routes do, also in parts.
    std::vector<base::IpAddress> destinations;
    // Others: readers take a few of a kind, or ask whether there is one. Routes of an interface, IP
    // version and protocol are of one kind unless this tells them apart.
    uint8_t (*kind)(const RouteEntry& route) = nullptr;
};

// The order of lists: default routes first.
bool is_route_before(const RouteEntry& a, const RouteEntry& b);

// One message of the kernel.
struct RouteChange {
    bool is_removal = false;
    bool replaces = false;  // the one of the same destination, metric and type of service
    uint8_t type_of_service = 0;
    std::vector<RouteEntry> hops;  // one for each next hop
};

class RouteSet {
  public:
    explicit RouteSet(RouteInterest interest) : interest_(std::move(interest)) {}

    void apply(const RouteChange& change);
    // The link is down or gone, and its routes with it, of which the kernel does not tell.
    void remove_of_link(uint32_t interface_index);
    // An address of the host is gone. With it go, likewise, routes that prefer it as a source, and
    // those of an interface whose last one it was.
    void doubt_routes_of(uint32_t interface_index, const base::IpAddress& address);
    void set_destinations(std::vector<base::IpAddress> destinations);

    // Sorted, equal ones once.
    std::vector<RouteEntry> list() const;
    const RouteInterest& interest() const { return interest_; }
    // Only a list can tell what is there.
    bool needs_list() const { return needs_list_; }
    // Changes since these were asked for last: of routes that decide, and of others.
    struct Touched {
        bool is_deciding = false;
        bool is_other = false;
    };
    Touched take_touched();

    // Not kept: of a kind of which enough are, as far as is known without a list; and beyond the
    // limit, which decided something.
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
    std::map<Kind, OfKind> kinds_;  // of those that do not decide
    size_t deciding_ = 0;
    uint64_t left_out_ = 0;
    uint64_t unseen_deciding_ = 0;
    bool has_unseen_kinds_ = false;  // for want of room for others
    bool needs_list_ = false;
    Touched touched_;
};

}  // namespace continuo::io
