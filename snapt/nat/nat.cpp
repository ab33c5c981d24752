#include "snapt/nat/nat.hpp"

#include "common/base/assert.hpp"
#include "common/dataplane/conntrack_timeouts.hpp"
#include "snapt/nat/nat_denied.hpp"
#include "snapt/nat/nat_guard.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <tuple>

namespace continuo::snapt::nat {

namespace {

using base::IpAddress;
using base::IpPrefix;
using base::IpVersion;

constexpr std::array kBuiltInDeny = {
    "0.0.0.0/8",          // this host (RFC 1122)
    "10.0.0.0/8",         // RFC 1918
    "100.64.0.0/10",      // RFC 6598; metadata of some hosters
    "127.0.0.0/8",        // loopback
    "168.63.129.16/32",   // metadata of a hoster
    "169.254.0.0/16",     // link-local; metadata of most hosters
    "172.16.0.0/12",      // RFC 1918
    "192.0.0.192/32",     // metadata of a hoster
    "192.168.0.0/16",     // RFC 1918
    "198.18.0.0/15",      // benchmarks (RFC 2544)
    "224.0.0.0/4",        // multicast
    "240.0.0.0/4",        // reserved (RFC 1112), broadcast
    "::/96",              // unspecified, loopback, IPv4-compatible
    "::ffff:0.0.0.0/96",  // IPv4-mapped
    "64:ff9b:1::/48",     // IPv4 behind a translator of the network (RFC 8215)
    "2002::/16",          // IPv4 behind 6to4 (RFC 3056)
    "fc00::/7",           // ULA; metadata of some hosters
    "fe80::/10",          // link-local
    "fec0::/10",          // site-local (RFC 3879)
    "ff00::/8",           // multicast
};

constexpr std::array kPrivate = {"10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16",
                                 "fc00::/7"};

// Without a common seed each rule would draw its own.
constexpr const char* kHashSeed = " seed 0x436f6e74 ";

constexpr std::array kCounters = {kLeakCounter,           kSpoofedCounter,  kDeniedCounter,
                                  kClientToClientCounter, kToSelfCounter,   kInvalidCounter,
                                  kUnsolicitedCounter,    kNoEgressCounter, kNoPortCounter};

bool covers(const IpPrefix& outer, const IpPrefix& inner) {
    return outer.length <= inner.length && outer.contains(inner.address);
}

std::vector<IpPrefix> parse_built_in() {
    std::vector<IpPrefix> list;
    for (const char* text : kBuiltInDeny) {
        const auto prefix = IpPrefix::parse(text);
        CTN_ASSERT(prefix.has_value());
        list.push_back(*prefix);
    }
    return list;
}

// Adds `prefix` without `removed`: at most one piece per bit between their lengths.
void subtract(IpPrefix prefix, const IpPrefix& removed, std::vector<IpPrefix>& rest) {
    if (covers(removed, prefix)) {
        return;
    }
    if (!covers(prefix, removed)) {
        rest.push_back(prefix);
        return;
    }
    while (prefix.length < removed.length) {
        const auto mask = static_cast<uint8_t>(0x80U >> (prefix.length % 8));
        const size_t octet = prefix.length / 8;
        ++prefix.length;
        IpPrefix other = prefix;
        // Splits the half that contains `removed` further; the other half stays.
        if ((removed.address.octets[octet] & mask) != 0) {
            prefix.address.octets[octet] |= mask;
        } else {
            other.address.octets[octet] |= mask;
        }
        rest.push_back(other);
    }
}

// Removes the prefixes in `allow` from `list`.
void take_out(std::span<const IpPrefix> allow, std::vector<IpPrefix>& list) {
    for (const IpPrefix& allowed : allow) {
        std::vector<IpPrefix> rest;
        for (const IpPrefix& prefix : list) {
            subtract(prefix, allowed, rest);
        }
        list = std::move(rest);
    }
}

void add_to(std::span<const IpPrefix> more, IpVersion version, std::vector<IpPrefix>& list) {
    std::copy_if(more.begin(), more.end(), std::back_inserter(list),
                 [&](const IpPrefix& prefix) { return prefix.address.version == version; });
}

// The IPv6 addresses that a translator maps to an IPv4 prefix: 64:ff9b::/96 (RFC 6052).
IpPrefix translated(const IpPrefix& prefix) {
    constexpr uint8_t kBefore = 96;
    IpPrefix six{IpAddress::any(IpVersion::V6), static_cast<uint8_t>(kBefore + prefix.length)};
    std::array<uint8_t, 16>& octets = six.address.octets;
    octets[1] = 0x64;
    octets[2] = 0xFF;
    octets[3] = 0x9B;
    const base::ByteView four = prefix.address.bytes();
    std::copy(four.begin(), four.end(), octets.begin() + kBefore / 8);
    return six;
}

// Sorted, without prefixes inside others.
std::vector<IpPrefix> merged(std::vector<IpPrefix> list) {
    // A prefix sorts before those inside it.
    std::sort(list.begin(), list.end(), [](const IpPrefix& a, const IpPrefix& b) {
        return std::tie(a.address, a.length) < std::tie(b.address, b.length);
    });
    std::vector<IpPrefix> merged;
    for (const IpPrefix& prefix : list) {
        if (merged.empty() || !covers(merged.back(), prefix)) {
            merged.push_back(prefix);
        }
    }
    return merged;
}

bool is_safe_name(std::string_view name) {
    const auto is_safe = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               std::string_view("_.@:-").find(c) != std::string_view::npos;
    };
    return !name.empty() && name.size() <= 15 && name.front() != '-' &&
           std::all_of(name.begin(), name.end(), is_safe);
}

std::string quoted(std::string_view name) {
    return '"' + std::string(name) + '"';
}

std::string family_word(IpVersion version) {
    return version == IpVersion::V4 ? "ip" : "ip6";
}

template <typename List, typename ToText>
std::string join(const List& list, ToText to_text) {
    std::string text;
    for (const auto& entry : list) {
        text += (text.empty() ? "" : ", ") + to_text(entry);
    }
    return text;
}

// "oifname ..." for packets that leave by an egress interface.
std::string egress_match(const RelayOptions& options) {
    if (options.egress.empty()) {
        return leaves_host(options.device);
    }
    return "oifname { " + join(options.egress, quoted) + " }";
}

// The SNAPT's own, the first of a prefix, is no lease.
IpAddress own_address(const IpPrefix& lease) {
    IpAddress own = lease.address;
    own.octets[own.bytes().size() - 1] |= 1U;
    return own;
}

std::string spoof_rule(IpVersion version, const std::optional<IpPrefix>& lease) {
    if (!lease) {
        const std::string family = version == IpVersion::V4 ? "ipv4" : "ipv6";
        return "    meta nfproto " + family + " counter name spoofed drop\n";
    }
    const std::string saddr = "    " + family_word(version) + " saddr ";
    const std::string drop = " counter name spoofed drop\n";
    return saddr + "!= " + lease->to_string() + drop + saddr + own_address(*lease).to_string() +
           drop;
}

// Leases without the SNAPT's own address.
std::string other_node_rule(const std::optional<IpPrefix>& lease, const std::string& verdict) {
    if (!lease) {
        return "";
    }
    const IpAddress own = own_address(*lease);
    const std::string daddr = family_word(own.version) + " daddr ";
    return "    " + daddr + lease->to_string() + " " + daddr + "!= " + own.to_string() +
           " counter name client_to_client" + verdict;
}

// A reverse path filter looks up the route of an answer as for a packet from the device with the
// answer's mark (src_valid_mark).
std::string answer_rule(const RelayOptions& options) {
    if (!options.lease_ipv4) {
        return "";
    }
    return "    ip daddr " + options.lease_ipv4->to_string() + " " + set_pass_mark() + "\n";
}

// Chains for packets from a node: `up` for other hosts, `self` for this one. Refused packets are
// rejected, so that the application notices at once. A packet with a foreign source is from no node
// and gets no answer. Packets to other nodes are refused before routing: otherwise the kernel would
// answer with a redirect, and then, because of its ICMP limit per host, without the refusal.
std::string up_chains(const RelayOptions& options, std::span<const IpPrefix> denied) {
    const std::string is_from_a_node = spoof_rule(IpVersion::V4, options.lease_ipv4) +
                                       spoof_rule(IpVersion::V6, options.lease_ipv6) +
                                       "    ct state invalid counter name invalid drop\n";
    const std::string reject = " reject with icmpx type admin-prohibited\n";
    return "  chain from_node {\n" + is_from_a_node + other_node_rule(options.lease_ipv4, reject) +
           other_node_rule(options.lease_ipv6, reject) + "    " + set_pass_mark() +
           "\n"
           "  }\n"
           "  chain prerouting {\n"
           "    type filter hook prerouting priority filter; policy accept;\n"
           "    iifname " +
           quoted(options.device) + " goto from_node\n" + answer_rule(options) +
           "  }\n"
           "  chain up {\n"
           "    " +
           clear_pass_mark() +
           "\n"
           "    oifname " +
           quoted(options.device) + " counter name client_to_client drop\n" +
           denied_rule(IpVersion::V4, denied, reject) + denied_rule(IpVersion::V6, denied, reject) +
           "    " + egress_match(options) +
           " accept\n"
           "    counter name no_egress drop\n"
           "  }\n"
           "  chain self {\n    " +
           clear_pass_mark() + "\n" + settings::self_service_rules(options.allow_self) +
           "    counter name to_self" + reject + "  }\n";
}

std::string filter_chains(const RelayOptions& options, std::span<const IpPrefix> denied) {
    const std::string device = quoted(options.device);
    return up_chains(options, denied) + "  chain down {\n    " + clear_pass_mark() +
           "\n"
           "    ct state established,related accept\n"
           "    counter name unsolicited drop\n"
           "  }\n"
           "  chain forward {\n"
           "    type filter hook forward priority filter; policy accept;\n"
           "    iifname " +
           device +
           " jump up\n"
           "    oifname " +
           device +
           " jump down\n"
           "  }\n"
           "  chain input {\n"
           "    type filter hook input priority filter; policy accept;\n"
           "    iifname " +
           device +
           " jump self\n"
           "  }\n"
           // Router and listener messages of the relay's kernel are not for a lease.
           "  chain output {\n"
           "    type filter hook output priority filter; policy accept;\n"
           "    ip daddr 224.0.0.0/4 oifname " +
           device +
           " drop\n"
           "    ip6 daddr ff00::/8 oifname " +
           device +
           " drop\n"
           "  }\n";
}

std::string ports_text(const PortRange& ports) {
    const std::string first = std::to_string(ports.first);
    return ports.first == ports.last ? first : first + "-" + std::to_string(ports.last);
}

// Rules for TCP and UDP that `match`. Chosen by the source port, so that a port stays the same
// where possible, and all connections from an inner port get ports of the same part: RFC 4787
// REQ-1.
std::string port_rules(const std::string& match,
                       const std::string& translate,
                       std::span<const PortRange> parts) {
    const std::string with_ports = match + "meta l4proto { tcp, udp } ";
    if (parts.empty()) {
        return with_ports + "counter name no_port drop\n";
    }
    std::string text;
    for (const PortRange& part : parts.subspan(1)) {
        text += with_ports + "th sport " + ports_text(part) + " " + translate + ":" +
                ports_text(part) + "\n";
    }
    return text + with_ports + translate + ":" + ports_text(parts.front()) + "\n";
}

// One address per lease, always the same: RFC 4787 REQ-2 ("paired").
std::string source_nat_rules(const RelayOptions& options, const IpPrefix& lease) {
    const IpVersion version = lease.address.version;
    const std::string family = family_word(version);
    std::vector<IpAddress> pool;
    std::copy_if(options.source_pool.begin(), options.source_pool.end(), std::back_inserter(pool),
                 [&](const IpAddress& address) { return address.version == version; });
    const std::string match =
        "    " + family + " saddr " + lease.to_string() + " " + egress_match(options) + " ";
    if (pool.empty()) {
        return port_rules(match, "masquerade to ", options.source_ports) + match + "masquerade\n";
    }
    std::string text;
    for (size_t i = 0; i < pool.size(); ++i) {
        // the last rule takes the rest
        const std::string share = i + 1 == pool.size() ? ""
                                                       : "jhash " + family + " saddr mod " +
                                                             std::to_string(pool.size()) +
                                                             kHashSeed + std::to_string(i) + " ";
        const std::string address = pool[i].to_string();
        const std::string bracketed = pool[i].is_v4() ? address : "[" + address + "]";
        const std::string translate = "snat " + family + " to ";
        text += port_rules(match + share, translate + bracketed, options.source_ports);
        text += match + share + translate + address + "\n";
    }
    return text;
}

// Before the host's own chains: the first that translates a connection decides its port.
std::string nat_chain(const RelayOptions& options) {
    std::string text = "  chain nat {\n"
                       "    type nat hook postrouting priority srcnat - 10; policy accept;\n";
    for (const auto& lease : {options.lease_ipv4, options.lease_ipv6}) {
        text += lease ? source_nat_rules(options, *lease) : "";
    }
    return text + "  }\n";
}

// After source NAT, so that packets are counted as they would leave.
std::string leak_chain(const RelayOptions& options) {
    std::string text = "  chain leak {\n"
                       "    type filter hook postrouting priority srcnat + 10; policy accept;\n";
    for (const auto& lease : {options.lease_ipv4, options.lease_ipv6}) {
        if (lease) {
            text += "    " + family_word(lease->address.version) + " saddr " + lease->to_string() +
                    " " + leaves_host(options.device) + " counter name leak drop\n";
        }
    }
    return text + "  }\n";
}

}  // namespace

std::span<const IpPrefix> built_in_deny_list() {
    static const std::vector<IpPrefix> list = parse_built_in();
    return list;
}

std::vector<IpPrefix> effective_deny_list(std::span<const IpPrefix> allow,
                                          std::span<const IpPrefix> deny) {
    std::vector<IpPrefix> four;
    std::vector<IpPrefix> six;
    for (const IpPrefix& prefix : built_in_deny_list()) {
        (prefix.address.is_v4() ? four : six).push_back(prefix);
    }
    take_out(allow, four);
    add_to(deny, IpVersion::V4, four);
    std::transform(four.begin(), four.end(), std::back_inserter(six), translated);
    take_out(allow, six);
    add_to(deny, IpVersion::V6, six);
    std::vector<IpPrefix> list = merged(std::move(four));
    const std::vector<IpPrefix> rest = merged(std::move(six));
    list.insert(list.end(), rest.begin(), rest.end());
    return list;
}

std::vector<IpPrefix> denied_private(std::span<const IpPrefix> allow,
                                     std::span<const IpPrefix> deny,
                                     std::initializer_list<std::optional<IpPrefix>> leases,
                                     size_t limit) {
    constexpr uint8_t kVicinity = 16;  // few pieces of fc00::/7 remain
    std::vector<IpPrefix> denied = effective_deny_list(allow, deny);
    std::vector<IpPrefix> vicinity;
    for (const std::optional<IpPrefix>& lease : leases) {
        if (!lease) {
            continue;
        }
        IpPrefix prefix = *lease;
        prefix.length = std::min(prefix.length, kVicinity);
        std::fill(prefix.address.octets.begin() + kVicinity / 8, prefix.address.octets.end(),
                  uint8_t{0});
        vicinity.push_back(prefix);
    }
    take_out(vicinity, denied);
    std::vector<IpPrefix> found;
    for (const IpPrefix& prefix : denied) {
        for (const char* text : kPrivate) {
            const IpPrefix whole = IpPrefix::parse(text).value();
            const bool is_inside = covers(whole, prefix);
            if ((is_inside || covers(prefix, whole)) && found.size() < limit) {
                found.push_back(is_inside ? prefix : whole);
            }
        }
    }
    return found;
}

std::string relay_table(std::string_view device) {
    std::string name = "inet continuo_snapt_";
    for (const char c : device) {
        const bool is_plain =
            (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
        name.push_back(is_plain ? c : '_');
    }
    return name;
}

std::string leaves_host(std::string_view device) {
    return "oifname != \"lo\" oifname != " + quoted(device);
}

std::string build_relay_ruleset(const RelayOptions& options) {
    CTN_ASSERT(is_safe_name(options.device));
    CTN_ASSERT(std::all_of(options.egress.begin(), options.egress.end(), is_safe_name));
    const std::string table = relay_table(options.device);
    const std::vector<IpPrefix> denied = effective_deny_list(options.allow, options.deny);
    // Adding the table first makes its removal succeed even if there is none.
    std::string text =
        "add table " + table + "\ndelete table " + table + "\ntable " + table + " {\n";
    for (const std::string_view name : kCounters) {
        text += "  counter " + std::string(name) + " { }\n";
    }
    text += deny_set(IpVersion::V4, denied) + deny_set(IpVersion::V6, denied);
    return text + filter_chains(options, denied) + nat_chain(options) + leak_chain(options) + "}\n";
}

std::string build_nat_ruleset(const RelayOptions& options) {
    const std::string table = relay_table(options.device);
    return "flush chain " + table + " nat\ntable " + table + " {\n" + nat_chain(options) + "}\n";
}

std::vector<host::SysctlSetting>
relay_sysctls(const RelayOptions& options,
              bool set_forwarding,
              std::span<const std::string> router_advertisement_interfaces) {
    std::vector<host::SysctlSetting> settings = dataplane::conntrack_timeouts();
    if (!set_forwarding) {
        return settings;
    }
    if (options.lease_ipv4) {
        settings.push_back({"net/ipv4/ip_forward", "1", false, false});
    }
    if (options.lease_ipv6) {
        for (const std::string& name : router_advertisement_interfaces) {
            settings.push_back({"net/ipv6/conf/" + name + "/accept_ra", "2", false, true});
        }
        settings.push_back({"net/ipv6/conf/all/forwarding", "1", false, true});
    }
    return settings;
}

std::vector<host::SysctlSetting> relay_device_sysctls(std::string_view device) {
    const std::string four = "net/ipv4/conf/" + std::string(device) + "/";
    const std::string six = "net/ipv6/conf/" + std::string(device) + "/";
    return {
        {four + "rp_filter", "0", false, true},
        // The relay and its chain check sources; the kernel's look-up would find nothing more.
        {four + "accept_local", "1", false, true},
        {four + "send_redirects", "0", false, true},
        {six + "addr_gen_mode", "1", false, true},
        {six + "accept_ra", "0", false, true},
        {six + "router_solicitations", "0", false, true},
    };
}

}  // namespace continuo::snapt::nat
