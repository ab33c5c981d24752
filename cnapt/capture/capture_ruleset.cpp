#include "cnapt/capture/capture_ruleset.hpp"

#include <utility>

namespace continuo::cnapt::capture {

using base::IpAddress;
using base::IpPrefix;

namespace {

// The sets of ForwardLinks, for the kill switch.
constexpr const char* kUplinkSet = "uplinks";
constexpr const char* kBridgeSet = "bridges";

std::string quoted(std::string_view name) {
    return '"' + std::string(name) + '"';
}

std::string family_word(const IpAddress& address) {
    return address.is_v4() ? "ip" : "ip6";
}

std::string quoted_names(const std::vector<std::string>& names) {
    std::string text;
    for (const std::string& name : names) {
        text += (text.empty() ? "" : ", ") + quoted(name);
    }
    return text;
}

// Pairs of the same interface with itself: in and out.
std::string quoted_pairs(const std::vector<std::string>& names) {
    std::string text;
    for (const std::string& name : names) {
        text += (text.empty() ? "" : ", ") + quoted(name) + " . " + quoted(name);
    }
    return text;
}

// Interfaces that lead out of the host. Two comparisons cost less than a look-up in a set, and as
// every packet meets them, they come after the address, which seldom matches.
std::string outside(const std::string& which, const std::string& device) {
    return which + " != " + device + " " + which + " != \"lo\"";
}

// Packets to the other end of a tunnel that carries this one. Other programs' connections to there
// start anew, outside.
std::string fed_back_rules(const CaptureOptions& options, const std::string& device) {
    std::string text;
    for (const IpPrefix& prefix : options.carriers) {
        const std::string match = "    oifname " + device + " " + family_word(prefix.address) +
                                  " daddr " + prefix.to_string() + " ";
        const std::string count = "counter name " + std::string(kFedBackCounter) + " reject with ";
        text += match + "meta l4proto tcp " + count + "tcp reset\n";
        text += match + count + "icmpx type admin-prohibited\n";
    }
    return text;
}

// Chains that drop packets routed into the tunnel that must not enter it, such as multicast from a
// gateway's LAN. Most packets meet comparisons alone, which cost less than look-ups in sets.
std::string refuse_chains(const CaptureOptions& options, const std::string& device) {
    return "  chain refuse {\n"
           "    meta mark " +
           hexadecimal(plain_mark(options)) +
           " return\n"
           "    ip daddr >= 224.0.0.0 ip daddr { 224.0.0.0/4, 255.255.255.255 }"
           " counter name multicast drop\n"
           "    ip6 daddr ff00::/8 counter name multicast drop\n"
           "    meta l4proto tcp return\n"
           "    meta l4proto udp return\n"
           "    meta l4proto != { icmp, ipv6-icmp } counter name other_protocol"
           " reject with icmpx type admin-prohibited\n"
           "  }\n"
           "  chain output {\n"
           "    type filter hook output priority filter; policy accept;\n" +
           fed_back_rules(options, device) + "    oifname " + device +
           " jump refuse\n"
           "  }\n"
           "  chain forward {\n"
           "    type filter hook forward priority filter; policy accept;\n"
           "    oifname " +
           device +
           " jump refuse\n"
           "  }\n";
}

// Packets with a header written by the program were routed without their source. A new mark makes
// the kernel route them again, with it: those with cnapt0's address go into the tunnel, others
// outside. The latter not with a kill switch, whose chain knows only the first route.
std::string written_header_chain(const CaptureOptions& options,
                                 const std::string& device,
                                 const std::vector<IpAddress>& own) {
    std::string text = "  chain written_header {\n"
                       "    type route hook output priority mangle; policy accept;\n";
    for (const IpAddress& address : own) {
        const std::string word = family_word(address);
        const std::string none = IpAddress::any(address.version).to_string();
        text += "    " + word + " saddr " + address.to_string() + " " + outside("oifname", device) +
                " meta mark set " + hexadecimal(gateway_mark(options)) + "\n";
        if (!options.kill_switch) {
            text += "    oifname " + device + " " + word + " saddr != " + none + " " + word +
                    " saddr != " + address.to_string() + " " + word +
                    (address.is_v4() ? " daddr != 224.0.0.0/4" : " daddr != ff00::/8") +
                    " meta mark set " + hexadecimal(plain_mark(options)) + "\n";
        }
    }
    return text + "  }\n";
}

std::string leak_chain(const std::string& device, const std::vector<IpAddress>& own) {
    // After source NAT, so that what is counted is what would leave.
    std::string text = "  chain leak {\n"
                       "    type filter hook postrouting priority srcnat + 10; policy accept;\n";
    for (const IpAddress& address : own) {
        text += "    " + family_word(address) + " saddr " + address.to_string() + " " +
                outside("oifname", device) + " counter name leak drop\n";
    }
    return text + "  }\n";
}

// The addresses are the same on every node, so a neighbour knows them. Placed before connection
// tracking, so that replies to a gateway's clients are recognised by the device on which they
// arrive.
std::string arrival_chain(const std::string& device, const std::vector<IpAddress>& own) {
    std::string text = "  chain arrival {\n"
                       "    type filter hook prerouting priority raw; policy accept;\n";
    for (const IpAddress& address : own) {
        text += "    " + family_word(address) + " daddr " + address.to_string() + " " +
                outside("iifname", device) + " counter name injected drop\n";
    }
    return text + "  }\n";
}

// A flow of the LAN is marked when it begins, either way, so that it stays on its route.
std::string gateway_chains(const CaptureOptions& options,
                           const std::string& device,
                           const std::vector<IpAddress>& own) {
    const std::string tunnelled = hexadecimal(gateway_mark(options));
    const std::string plain = hexadecimal(plain_mark(options));
    const std::string begins(kLanBeginsChain);
    std::string text = "  chain " + begins + " {\n" + lan_begins_rules(options, "    ") +
                       "  }\n"
                       "  chain lan {\n"
                       "    type filter hook prerouting priority mangle; policy accept;\n"
                       "    jump " +
                       begins + "\n";
    for (const std::string& name : options.gateway_interfaces) {
        const std::string in = "    iifname " + quoted(name);
        text += in + " ct mark 0 ct mark set " + plain + "\n";
        text += in + " ct mark " + tunnelled + " meta mark set ct mark\n";
    }
    text += "  }\n"
            "  chain gateway {\n"
            "    type nat hook postrouting priority srcnat; policy accept;\n";
    for (const IpAddress& address : own) {
        const std::string family = family_word(address);
        const std::string own_text = address.to_string();
        text.append("    oifname ").append(device).append(" ").append(family);
        text.append(" saddr != ").append(own_text);
        text.append(" snat ").append(family).append(" to ").append(own_text).append("\n");
    }
    return text + "  }\n";
}

std::string excluded_rules(const CaptureOptions& options) {
    std::string text;
    for (const IpPrefix& prefix : options.exclude) {
        text += "    " + family_word(prefix.address) + " daddr " + prefix.to_string() + " return\n";
    }
    return text;
}

std::string set_text(const char* name, const char* type, const std::string& elements) {
    return std::string("  set ") + name + " { type " + type + "; " +
           (elements.empty() ? "" : "elements = { " + elements + " } ") + "}\n";
}

// Forwarded packets leave by the tunnel, or are answers. Packets from an uplink may go to any
// interface that is none, such as a published port of a container; ports of one bridge may reach
// each other. An interface that is not judged yet counts as neither.
std::string forward_chain(const CaptureOptions& options, const std::string& device) {
    const ForwardLinks& links = options.forward_links;
    return set_text(kUplinkSet, "ifname", quoted_names(links.uplinks)) +
           set_text(kBridgeSet, "ifname . ifname", quoted_pairs(links.bridges)) +
           "  chain plain_forward {\n"
           "    type filter hook forward priority filter + 10; policy accept;\n"
           "    oifname " +
           device +
           " return\n"
           "    ct state established,related ct direction reply return\n"
           "    iifname " +
           device + " oifname != @" + kUplinkSet + " return\n    iifname @" + kUplinkSet +
           " oifname != @" + kUplinkSet + " return\n    iifname . oifname @" + kBridgeSet +
           " return\n" + excluded_rules(options) + "    counter name " +
           std::string(kForwardCounter) +
           " drop\n"
           "  }\n";
}

// Nothing leaves plain but outer datagrams, answers to inbound connections, what is excluded, and
// what keeps the uplinks alive (DHCP, neighbour discovery). ICMP errors of the host are no such
// answers: connection tracking relates those about its own datagrams, too, which are sent to an
// address that it had, by whatever uplink it has now.
std::string kill_switch_chains(const CaptureOptions& options, const std::string& device) {
    std::string text = "  chain plain_output {\n"
                       "    type filter hook output priority filter + 10; policy accept;\n"
                       "    oifname { \"lo\", " +
                       device +
                       " } return\n"
                       "    meta mark " +
                       hexadecimal(options.fwmark) +
                       " return\n"
                       "    ct state established ct direction reply return\n"
                       "    udp sport 68 udp dport 67 return\n"
                       "    udp sport 546 udp dport 547 return\n"
                       "    ip6 daddr fe80::/10 return\n"
                       "    icmpv6 type { nd-router-solicit, nd-neighbor-solicit,"
                       " nd-neighbor-advert, mld-listener-report, mld2-listener-report } return\n" +
                       excluded_rules(options) +
                       "    counter name kill_switch drop\n"
                       "  }\n";
    return text + forward_chain(options, device);
}

// Adding the table first makes its removal succeed even if there is none.
std::string begin_table(const std::string& table) {
    return "add table " + table + "\ndelete table " + table + "\ntable " + table + " {\n";
}

}  // namespace

std::string hexadecimal(uint32_t value) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string text;
    for (unsigned shift = 32; shift > 0; shift -= 4) {
        text.push_back(kDigits[(value >> (shift - 4)) & 0xFU]);
    }
    return "0x" + text;
}

uint32_t gateway_mark(const CaptureOptions& options) {
    return options.fwmark + 1;
}

uint32_t plain_mark(const CaptureOptions& options) {
    return options.fwmark + 2;
}

std::string lan_begins_rules(const CaptureOptions& options, const std::string& prefix) {
    std::string text;
    for (const std::string& name : options.gateway_interfaces) {
        text += prefix + "iifname " + quoted(name) + " ct state new ct mark 0 ct mark set " +
                hexadecimal(gateway_mark(options)) + "\n";
    }
    return text;
}

std::string forward_sets_text(const std::string& table, const ForwardLinks& links) {
    std::string text;
    for (const auto& [name, elements] : {std::pair(kUplinkSet, quoted_names(links.uplinks)),
                                         std::pair(kBridgeSet, quoted_pairs(links.bridges))}) {
        const std::string set = table + " " + name;
        text += "flush set " + set + "\n";
        if (!elements.empty()) {
            text += "add element " + set + " { " + elements + " }\n";
        }
    }
    return text;
}

// While names go through the tunnel, resolved also asks the servers of other links with the same
// domains ("~."), each on its link. If these are refused, it takes the other answer at once.
std::string resolver_table_text(const std::string& table,
                                uint32_t user,
                                const std::vector<std::string>& links) {
    const std::string counter(kResolverCounter);
    return "table " + table + "_names {\n  flags owner;\n  counter " + counter +
           " { }\n"
           "  chain output {\n"
           "    type filter hook output priority filter; policy accept;\n"
           "    meta skuid " +
           std::to_string(user) + " oifname { " + quoted_names(links) +
           " } meta l4proto { tcp, udp } th dport { 53, 853 } counter name " + counter +
           " reject\n"
           "  }\n}\n";
}

std::string build_guard(const std::string& device,
                        const std::string& table,
                        const std::vector<IpAddress>& own) {
    return begin_table(table) + "  counter " + std::string(kLeakCounter) + " { }\n" + "  counter " +
           std::string(kInjectedCounter) + " { }\n" + leak_chain(quoted(device), own) +
           arrival_chain(quoted(device), own) + "}\n";
}

std::string build_ruleset(const CaptureOptions& options,
                          const std::string& table,
                          const std::vector<IpAddress>& own) {
    const std::string device = quoted(options.device);
    std::string text = begin_table(table);
    for (const std::string_view name :
         {kLeakCounter, kInjectedCounter, kGroupCounter, kProtocolCounter, kFedBackCounter}) {
        text += "  counter " + std::string(name) + " { }\n";
    }
    if (options.kill_switch) {
        text += "  counter " + std::string(kKillSwitchCounter) + " { }\n";
        text += "  counter " + std::string(kForwardCounter) + " { }\n";
    }
    text += refuse_chains(options, device) + written_header_chain(options, device, own) +
            leak_chain(device, own) + arrival_chain(device, own);
    // Only a gateway needs connection tracking.
    if (!options.gateway_interfaces.empty()) {
        text += gateway_chains(options, device, own);
    }
    if (options.kill_switch) {
        text += kill_switch_chains(options, device);
    }
    return text + "}\n";
}

}  // namespace continuo::cnapt::capture
