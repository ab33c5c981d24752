// RouteClient: synchronous rtnetlink. Each change is acknowledged by the kernel; each error carries
// sys_errno, and last_error_text() what the kernel said about it. Start, stop and configuration
// only, never the data path.
#pragma once

#include "common/base/result.hpp"
#include "common/io/netlink.hpp"
#include "common/io/route_entry.hpp"
#include "common/io/route_set.hpp"

#include <string_view>
#include <vector>

namespace continuo::io {

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
    // Hands over each of them, one message a call; a list that was interrupted begins anew, and
    // `restart` is called before.
    base::Result<void> each_route(base::IpVersion version,
                                  uint32_t table,
                                  const std::function<void(const RouteChange&)>& each,
                                  const std::function<void()>& restart);
    // Removes the routes of `table` whose protocol is kRouteProtocol, both versions; gives their
    // number.
    base::Result<size_t> remove_own_routes(uint32_t table);

    // Idempotent.
    base::Result<void> add_rule(const RuleEntry& rule);
    // The same; true when it was not there.
    base::Result<bool> restore_rule(const RuleEntry& rule);
    base::Result<void> remove_rule(const RuleEntry& rule);
    base::Result<std::vector<RuleEntry>> rules(base::IpVersion version);
    // Removes the rules of kRouteProtocol with first <= priority <= last, both versions; gives
    // their number.
    base::Result<size_t> remove_own_rules(uint32_t first_priority, uint32_t last_priority);

    // The interface by which a packet of this host to that address would leave now, where its
    // source is not chosen yet, or is that address of the host, with that mark. Errors: also
    // NotFound when none does.
    base::Result<std::string> interface_to(const base::IpAddress& destination,
                                           const std::optional<base::IpAddress>& source = {},
                                           uint32_t mark = 0);
    // The same for a packet that comes in by an interface, with a mark of routing. Errors also
    // where the host does not forward it.
    struct ForwardedPacket {
        base::IpAddress source;
        base::IpAddress destination;
        uint32_t input_interface = 0;
        uint32_t mark = 0;
    };
    base::Result<std::string> interface_to(const ForwardedPacket& packet);
    // By which interface, and with which source, a packet of this host to that address would leave
    // with that mark of routing; `interface_index` 0: by any interface. Errors: also NotFound.
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

}  // namespace continuo::io
