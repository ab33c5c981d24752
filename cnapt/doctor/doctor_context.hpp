// State shared by the checks of `cnapt doctor`: each leaves its results for later ones. Included
// only by doctor*.cpp.
#pragma once

#include "cnapt/control_link/reach_probe.hpp"
#include "cnapt/control_link/tcp_connect.hpp"
#include "cnapt/settings/node_config.hpp"
#include "common/daemon/doctor_context.hpp"
#include "common/netlink/net_monitor.hpp"

#include <string>
#include <vector>

namespace continuo::cnapt::doctor {

// Addresses of SNAPTs that are asked. A choice, not measured.
inline constexpr size_t kMaxTargets = 64;

struct SnaptTarget {
    std::string snapt;
    base::Endpoint endpoint;
    control_link::TcpReach tcp{};
    control_link::UdpReach udp{};
};

struct NodeDoctor : daemon::ConfiguredDoctor<settings::NodeConfig> {  // with its key
    using ConfiguredDoctor::ConfiguredDoctor;

    std::string policy_file{};   // empty: as the configuration says
    bool may_mark = false;       // sockets, so that they are beside the tunnel
    report::JsonValue snapts{};  // the daemon's answer
    report::JsonValue paths{};
    std::vector<control_link::ControlUplink> uplinks{};
    std::vector<SnaptTarget> targets{};
    bool is_probed = false;  // the targets, by TCP and UDP

    uint32_t mark() const { return may_mark && config ? config->capture.fwmark : 0; }
    // Adds a finding if this process's own packets would go through the tunnel, or be blocked by
    // it.
    bool needs_way_beside(const std::string& check);
    bool connects(const std::string& snapt) const;        // TCP, at some address
    bool answers_by_udp(const std::string& snapt) const;  // likewise
};

// doctor_config.cpp
void check_configuration(NodeDoctor& doctor);
void check_policy(NodeDoctor& doctor);
void check_daemon(NodeDoctor& doctor);
// doctor_uplinks.cpp
// Addresses of SNAPTs from the configuration or the daemon.
std::vector<base::IpAddress> known_snapts(const NodeDoctor& doctor);
// Adds the addresses that uplinks borrow to the network; returns the text about uplinks that have
// none.
std::vector<report::Finding> borrow_addresses(const NodeDoctor& doctor,
                                              netlink::NetSnapshot& network);
void check_on_link(NodeDoctor& doctor);
// doctor_nat64.cpp
void check_nat64(NodeDoctor& doctor);
// doctor_network.cpp
void check_uplinks(NodeDoctor& doctor);
void check_names(NodeDoctor& doctor);
void check_tcp(NodeDoctor& doctor);
void check_udp(NodeDoctor& doctor);
void check_mtu(NodeDoctor& doctor);
void check_portals(NodeDoctor& doctor);
// doctor_reverse_path.cpp
void check_reverse_paths(NodeDoctor& doctor);
// doctor_login.cpp
void check_logins(NodeDoctor& doctor);
// doctor_beside.cpp
void check_shared_networks(NodeDoctor& doctor);
void check_private_places(NodeDoctor& doctor);
void check_other_vpns(NodeDoctor& doctor);
// doctor_tunnel.cpp
void check_tunnels(NodeDoctor& doctor);
void check_dns(NodeDoctor& doctor);
void check_capture(NodeDoctor& doctor);

}  // namespace continuo::cnapt::doctor
