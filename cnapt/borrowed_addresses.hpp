// Addresses for uplinks that have none of their own: PPPoE with a delegated prefix, unnumbered
// links. The kernel sends by them with an address of another interface, and so does the node.
#pragma once

#include "common/io/net_monitor.hpp"

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

namespace continuo::cnapt {

// The source that the kernel would use towards `to`, out by that interface; nothing where it would
// send nothing there, or the interface has an address that cannot be used yet.
using AskSource = std::function<std::optional<base::IpAddress>(uint32_t interface_index,
                                                               const base::IpAddress& to)>;

// Asks this host's kernel, for packets with that mark. Blocks for two requests of netlink.
AskSource ask_kernel(uint32_t fwmark);

// An interface that has no address of the SNAPT's IP version, and a route to the SNAPT, or had.
struct BareLink {
    uint32_t interface_index = 0;
    base::IpAddress snapt;                  // the first of those given
    std::optional<base::IpAddress> source;  // that it borrows, if there is one to borrow

    // As an address of that interface; there must be a source.
    io::UsableAddress borrowed() const;
    bool operator==(const BareLink&) const = default;
};

// A bare link borrows the source that the kernel would use. Where that is one of `own_device`,
// which programs have in the tunnel, it is another one of the host. What it has borrowed (`in_use`)
// it keeps while it may, also when its route is away for a moment.
//
// None is borrowed of a tunnel or of an interface with a default route, unless the route by this
// one names it as its source: that is another network, and this one would not pass its address. Nor
// is a private IPv6 address for a public SNAPT.
std::vector<BareLink> bare_links(const io::NetSnapshot& snapshot,
                                 const std::vector<base::IpAddress>& snapts,
                                 std::string_view own_device,
                                 const std::vector<io::UsableAddress>& in_use,
                                 const AskSource& ask);

// For a socket with that mark that is about to connect: where the kernel would send with cnapt0's
// address, binds it to another one of the host, as above. Blocks for some requests of netlink.
void bind_beside(int fd, const base::IpAddress& to, uint32_t fwmark);

}  // namespace continuo::cnapt
