// Checks of a relay's host, for the start, the running daemon and `snapt doctor`: the interfaces of
// `egress` exist, forwarding is on, and no firewall drops forwarded packets.
#pragma once

#include "common/report/findings.hpp"
#include "snapt/nat/forwarding_parameters.hpp"
#include "snapt/settings/snapt_config.hpp"

#include <string>
#include <vector>

namespace continuo::snapt::nat {

// Findings "egress NAME" and "forward policy". Blocks for milliseconds on netlink and nftables.
void check_relay(const settings::SnaptConfig& config, report::Findings& findings);

// The interfaces by which packets of nodes leave: existing ones of `egress`, or the one that the
// host routes them to; that of its own packets while there is no device.
ForwardingPath path_of(const settings::SnaptConfig& config, base::IpVersion version);

// Why packets of nodes have no way to the Internet now, such as "no default route"; empty: they
// have one, or it is not known. Two look-ups of routes at most.
std::string no_way_out(const settings::SnaptConfig& config, base::IpVersion version);
// `relay.allow` has places of that version: they need no default route.
bool serves_private(const settings::SnaptConfig& config, base::IpVersion version);

// The first chain of others that certainly drops all new connections by `path`, as a sentence;
// empty: none. Milliseconds, more with many rules.
std::string closing_chain(const ForwardingPath& path);

}  // namespace continuo::snapt::nat
