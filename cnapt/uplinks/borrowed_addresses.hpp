// Addresses for uplinks without an address of their own: PPPoE with a delegated prefix, unnumbered
// links. The kernel sends on them with an address of another interface, and the node does the same.
#pragma once

#include "common/netlink/net_monitor.hpp"

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

namespace continuo::cnapt::uplinks {

// The source that the kernel would use towards `to` on that interface; nothing if it would not
// send, or if the interface has an address that cannot be used yet.
using AskSource = std::function<std::optional<base::IpAddress>(uint32_t interface_index,
                                                               const base::IpAddress& to)>;

// Asks the kernel, for packets with that mark. Blocks for two netlink requests.
AskSource ask_kernel(uint32_t fwmark);

// An interface without an address of the SNAPT's IP version that has, or had, a route to the SNAPT.
struct BareLink {
    uint32_t interface_index = 0;
    base::IpAddress snapt;                  // the first of those given
    std::optional<base::IpAddress> source;  // borrowed source, if there is one

    // The source as an address of that interface; `source` must be set.
    netlink::UsableAddress borrowed() const;
    bool operator==(const BareLink&) const = default;
};

// A bare link borrows the source that the kernel would use. If that belongs to `own_device`, and so
// to programs in the tunnel, it takes another address of the host. It keeps a borrowed address
// (`in_use`) while that is allowed, even when its route is briefly gone.
//
// Addresses of a tunnel or of an interface with a default route are not borrowed unless the link's
// own route names them as its source: they belong to another network, and this one would drop them.
// A private IPv6 address is not borrowed for a public SNAPT.
std::vector<BareLink> bare_links(const netlink::NetSnapshot& snapshot,
                                 const std::vector<base::IpAddress>& snapts,
                                 std::string_view own_device,
                                 const std::vector<netlink::UsableAddress>& in_use,
                                 const AskSource& ask);

// For a socket with that mark about to connect: if the kernel would use cnapt0's address, binds the
// socket to another address of the host, as above. Blocks for some netlink requests.
void bind_beside(int fd, const base::IpAddress& to, uint32_t fwmark);

}  // namespace continuo::cnapt::uplinks
