// RouteClient: synchronous rtnetlink. The kernel acknowledges each change; errors carry sys_errno,
// and last_error_text() the kernel's explanation. For start, stop and configuration only, never the
// data path.
#pragma once

#include "common/base/result.hpp"
#include "common/netlink/netlink.hpp"
#include "common/netlink/route_entry.hpp"
#include "common/netlink/route_set.hpp"

#include <string_view>
#include <vector>

namespace continuo::netlink {

struct LinkSettings {
    std::optional<bool> up;
    std::optional<uint32_t> mtu;
    std::optional<uint32_t> transmit_queue_length;
    std::optional<uint32_t> group{};
    std::optional<std::string> alias{};  // at most 255 bytes; empty: none
};

class RouteClient {
  public:
    static base::Result<RouteClient> open();

    // Errors of all: System with sys_errno; NotFound for a missing interface, address, route or
    // rule.
    base::Result<uint32_t> interface_index(std::string_view name);
    base::Result<void> set_link(uint32_t interface_index, const LinkSettings& settings);
    base::Result<void> delete_link(uint32_t interface_index);
    base::Result<std::vector<LinkEntry>> links();
    base::Result<LinkEntry> link(uint32_t interface_index);

    // Idempotent. IPv6 addresses are usable at once (no duplicate address detection). Deprecated
    // ones are not for new flows where there is another.
    base::Result<void> add_address(uint32_t interface_index,
                                   const base::IpAddress& address,
                                   uint8_t prefix_length,
                                   bool is_deprecated = false);
    base::Result<void>
    remove_address(uint32_t interface_index, const base::IpAddress& address, uint8_t prefix_length);
    base::Result<std::vector<AddressEntry>> addresses();

    // Adds or replaces.
    base::Result<void> set_route(const RouteEntry& route);
    base::Result<void> remove_route(const RouteEntry& route);
    base::Result<std::vector<RouteEntry>> routes(base::IpVersion version, uint32_t table);
    // Passes on each route, one message a call; an interrupted list starts again, after a call to
    // `restart`.
    base::Result<void> each_route(base::IpVersion version,
                                  uint32_t table,
                                  const std::function<void(const RouteChange&)>& each,
                                  const std::function<void()>& restart);
    // Removes the routes of `table` with protocol kRouteProtocol, both versions; returns their
    // number.
    base::Result<size_t> remove_own_routes(uint32_t table);

    // Idempotent.
    base::Result<void> add_rule(const RuleEntry& rule);
    // The same; true when it was missing.
    base::Result<bool> restore_rule(const RuleEntry& rule);
    base::Result<void> remove_rule(const RuleEntry& rule);
    base::Result<std::vector<RuleEntry>> rules(base::IpVersion version);
    // Removes the rules of kRouteProtocol with first <= priority <= last, both versions; returns
    // their number.
    base::Result<size_t> remove_own_rules(uint32_t first_priority, uint32_t last_priority);

    // The interface by which this host would send a packet to that address now, with that mark, and
    // with that source or one not chosen yet. Errors: also NotFound when there is none.
    base::Result<std::string> interface_to(const base::IpAddress& destination,
                                           const std::optional<base::IpAddress>& source = {},
                                           uint32_t mark = 0);
    // The same for a packet received on an interface, with a routing mark. Also an error where the
    // host does not forward it.
    struct ForwardedPacket {
        base::IpAddress source;
        base::IpAddress destination;
        uint32_t input_interface = 0;
        uint32_t mark = 0;
    };
    base::Result<std::string> interface_to(const ForwardedPacket& packet);
    // The interface and source with which this host would send a packet to that address with that
    // routing mark; `interface_index` 0: any interface. Errors: also NotFound.
    struct Way {
        uint32_t interface_index = 0;
        base::IpAddress source;
    };
    base::Result<Way>
    way_to(const base::IpAddress& destination, uint32_t mark, uint32_t interface_index = 0);

    const std::string& last_error_text() const { return socket_.error_text(); }

  private:
    base::Result<std::string> interface_of(NetlinkRequest request);
    explicit RouteClient(NetlinkSocket socket) : socket_(std::move(socket)) {}
    base::Result<void> change_address(uint16_t type,
                                      uint16_t flags,
                                      uint32_t interface_index,
                                      const base::IpAddress& address,
                                      uint8_t prefix_length,
                                      bool is_deprecated);
    base::Result<void> change_route(uint16_t type, uint16_t flags, const RouteEntry& route);
    base::Result<void> change_rule(uint16_t type, uint16_t flags, const RuleEntry& rule);

    NetlinkSocket socket_;
};

}  // namespace continuo::netlink
