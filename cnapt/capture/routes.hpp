// Capture of the node's traffic: policy rules, routes and nftables text, built from the
// configuration as values. Pure; app.cpp applies it through common/netlink. docs/OPERATIONS.md
// shows the result.
//
// Rules, by priority from `rule_priority` on, for both IP versions; a look-up that finds nothing
// goes on to the next:
//
//   outer    fwmark M                       -> end    outer datagrams
//   own      from cnapt0's address          -> table  what is bound to cnapt0 stays there
//   bypass   to excluded prefixes, bypass   -> end    (what is to be captured -> groups)
//   groups   to multicast, link-local, DHCP -> end
//   near     to private prefixes            -> main   routes of any interface but default ones
//            to `near`                      -> main   the same
//            any, suppress_ifgroup 0        -> main   of interfaces that are no uplinks
//   portal   a user's web, for a while      -> portal table, the default route to a captive portal
//   capture  source not chosen yet          -> table  one each for TCP, UDP, ICMP and packets
//                                                     whose header their program writes
//   gateway  fwmark M + 1                   -> table  flows of the LAN sides that began so
//   end      nothing: what follows are the host's own rules, as if there were no Continuo
//
// The network of an uplink may set routes (DHCP option 121), also more specific ones than anybody
// else's: those to public destinations must not lead past the tunnel. A rule cannot ask for the
// interface of the route it found, but for its group: interfaces that are no uplinks are put into
// one of ours (ip link set group), so that what is new and not judged yet goes into the tunnel.
// Default routes in parts (prefixes of at most 7 bits) are default routes here.
//
// "Source not chosen yet" is what leaves alone the answers to inbound connections and sockets bound
// to an uplink's address: they have a source when they are routed. IPv4 says it as `from
// 0.0.0.0/32`. An IPv6 rule with a source does not match packets without one, unless
// FIB_RULE_FIND_SADDR is set (RuleEntry::find_source): then it matches if the kernel would choose
// that source on the route found.
//
// Packets whose header their program writes (IP_HDRINCL: mtr): the kernel looks up their route with
// protocol 255 and without the source. nftables sends them where their source belongs.
//
// While no SNAPT answers, the capture rules are away and flows of the LAN are not marked: what
// begins then goes plain for its life, what began in the tunnel stays there.
#pragma once

#include "cnapt/capture/forward_links.hpp"
#include "cnapt/uplinks/fwmark.hpp"
#include "common/host/sysctl.hpp"
#include "common/netlink/route_entry.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace continuo::cnapt::capture {

// Rules live in [rule_priority, rule_priority + kRulePriorities).
inline constexpr uint32_t kRulePriorities = 16;

// Decided before routing, the first that matches; all that is set must match.
struct BypassMatch {
    std::optional<base::IpPrefix> destination;
    std::optional<uint8_t> ip_protocol;
    std::optional<netlink::NumberRange> destination_ports;  // needs ip_protocol 6 or 17
    std::optional<netlink::NumberRange> users;
    std::optional<uint32_t> fwmark{};  // the socket's
    bool is_bypassed = true;           // else it is captured, whatever follows

    bool operator==(const BypassMatch&) const = default;
};

// The web traffic (ports 80, 443 and 53, IPv4) of one user goes to a captive portal for a while.
struct PortalBypass {
    std::string interface;
    std::optional<base::IpAddress> gateway;  // the next hop of the interface's default route
    uint32_t user = 0;

    bool operator==(const PortalBypass&) const = default;
};

struct CaptureOptions {
    std::string device = "cnapt0";
    std::optional<base::IpAddress> ipv4;  // cnapt0's own; absent: that version is not captured
    std::optional<base::IpAddress> ipv6;
    bool has_ipv6 = true;  // the host; else `ipv6` is not captured for now
    uint32_t routing_table = 9347;
    uint32_t rule_priority = 9347;
    uint32_t fwmark = uplinks::kDefaultFwmark;
    std::vector<base::IpPrefix> exclude;
    std::vector<BypassMatch> bypass;
    std::optional<PortalBypass> portal;
    std::vector<std::string> gateway_interfaces;  // also as "br-*": what begins so
    std::vector<base::IpPrefix> near;             // public destinations that stay beside the tunnel
    bool has_near_links = false;  // interfaces that are no uplinks are in a group of their own
    bool kill_switch = false;     // nothing but `exclude` may be reached outside the tunnel
    ForwardLinks forward_links;   // for the kill switch
    // Where tunnels are carried to that carry outer datagrams: nothing to there enters the device.
    // Sockets that have its address are not led beside it.
    std::vector<base::IpPrefix> carriers{};
};

// Mark of sockets that members of a bypassed cgroup make (process::SocketMarker).
uint32_t bypass_mark(uint32_t fwmark);

// Table for the way to a captive portal: beside `routing_table`, none of the kernel's.
uint32_t portal_table(uint32_t routing_table);

struct CapturePlan {
    std::vector<netlink::RouteEntry> routes;
    std::vector<netlink::RuleEntry> rules;  // add in this order; remove the other way round
    // Behind `rules`; only while new flows are captured.
    std::vector<netlink::RuleEntry> capture_rules;
    std::vector<host::SysctlSetting>
        device_settings;  // the device alone has them: before it is set up, nothing to restore
    std::string ruleset;  // one nftables transaction; replaces the table
    // Replaces a table of its own, where the kernel can: what lets UDP servers answer from the
    // address that was asked (capture_answers.hpp). It outlives `ruleset`, since a socket that was
    // connected meanwhile gets its datagrams only by what this table has kept.
    std::string answers;
    // As `ruleset`, with nothing in it but what keeps packets from and to cnapt0's addresses off
    // all other interfaces.
    std::string guard;
    std::string table;          // "inet continuo_cnapt_cnapt0"
    std::string answers_table;  // "inet continuo_cnapt_cnapt0_answers"
    // nftables text that lets new flows of the LAN sides into the tunnel, or no more; empty without
    // LAN sides. They are let in by `ruleset`.
    std::string open_gateway;
    std::string close_gateway;
    uint32_t first_priority = 0;
    uint32_t last_priority = 0;
    uint32_t bypass_priority = 0;
    uint32_t near_priority = 0;
};

// `options` must be sound (names as check_interface_name, versions as named).
CapturePlan build_capture_plan(const CaptureOptions& options);

// "inet continuo_cnapt_<device>", characters outside [A-Za-z0-9_] as '_'.
std::string capture_table(std::string_view device);

// Named counters of the table. kLeakCounter must read zero.
inline constexpr std::string_view kLeakCounter = "leak";
inline constexpr std::string_view kInjectedCounter = "injected";
inline constexpr std::string_view kGroupCounter = "multicast";
inline constexpr std::string_view kProtocolCounter = "other_protocol";
inline constexpr std::string_view kFedBackCounter = "fed_back";
inline constexpr std::string_view kKillSwitchCounter = "kill_switch";
inline constexpr std::string_view kForwardCounter = "kill_switch_forward";
// Counter in the table whose name ends in "_names".
inline constexpr std::string_view kResolverCounter = "resolver_refused";

}  // namespace continuo::cnapt::capture
