#include "cnapt/capture_answers.hpp"

#include "cnapt/capture_ruleset.hpp"

namespace continuo::cnapt {

namespace {

// Names that depend on the IP version. nftables 1.0.6 handles keys of at most 16 bytes in an
// updated map: over IPv6 the address that was asked is therefore keyed by the peer's address alone.
struct Words {
    std::string family;   // "ip"
    std::string suffix;   // of names
    std::string type;     // of a key
    std::string inbound;  // key of a datagram that comes in
    std::string outbound;
    std::string map_type;  // the same of the map
    std::string map_inbound;
    std::string map_outbound;
};

Words words_of(const base::IpAddress& address) {
    const bool is_v4 = address.is_v4();
    Words words;
    words.family = is_v4 ? "ip" : "ip6";
    words.suffix = is_v4 ? "4" : "6";
    const std::string address_type = "ipv" + words.suffix + "_addr";
    const std::string source = words.family + " saddr";
    const std::string destination = words.family + " daddr";
    words.type = "inet_service . inet_service . " + address_type;
    words.inbound = "udp sport . udp dport . " + source;
    words.outbound = "udp dport . udp sport . " + destination;
    words.map_type = is_v4 ? words.type : address_type;
    words.map_inbound = is_v4 ? words.inbound : source;
    words.map_outbound = is_v4 ? words.outbound : destination;
    return words;
}

std::string kept(const std::string& what, const std::string& type) {
    return "  " + what + " { type " + type + "; flags dynamic,timeout; size " +
           std::to_string(kMaxAsked) + "; timeout " + std::to_string(kAskedSeconds) + "s; }\n";
}

std::string sets_of(const Words& words) {
    return kept("map address" + words.suffix, words.map_type + " : ipv" + words.suffix + "_addr") +
           kept("set asked" + words.suffix, words.type) +
           kept("set answered" + words.suffix, words.type) +
           kept("set tunnelled" + words.suffix, words.type);
}

// Flows in the tunnel stay there even if a datagram of them is forged. Otherwise the peer of a
// socket on the wildcard address is noted; a socket connected since then has cnapt0's address,
// where it gets its datagrams.
std::string asked_rules(const Words& words, const std::string& own) {
    const std::string address =
        " @address" + words.suffix + " { " + words.map_inbound + " : " + words.family + " daddr }";
    // An update alone keeps the address that was asked first.
    const std::string note = " delete" + address + " update" + address + " update @asked" +
                             words.suffix + " { " + words.inbound + " }";
    return "    " + words.inbound + " @tunnelled" + words.suffix + " return\n    " + words.inbound +
           " @answered" + words.suffix + note + " " + words.family + " daddr set " + own +
           " return\n    meta nfproto ipv" + words.suffix + " socket wildcard 1" + note +
           " return\n";
}

std::string answer_rules(const Words& words, const std::string& own) {
    const std::string from_own = "    " + words.family + " saddr " + own + " ";
    const std::string note = "{ " + words.outbound + " }";
    return from_own + words.outbound + " @asked" + words.suffix + " " + words.family +
           " saddr set " + words.map_outbound + " map @address" + words.suffix +
           " update @answered" + words.suffix + " " + note + " counter name " +
           std::string(kAnsweredCounter) + " return\n" + from_own + "update @tunnelled" +
           words.suffix + " " + note + "\n";
}

}  // namespace

std::string answers_table(std::string_view device) {
    return capture_table(device) + "_answers";
}

// The tunnel's own datagrams, of marked sockets, come first: each would cost two look-ups in sets
// and two of its socket. Packets of such a socket leave beside the tunnel anyway.
std::string build_answers(const CaptureOptions& options,
                          const std::string& table,
                          const std::vector<base::IpAddress>& own) {
    const std::string device = "\"" + options.device + "\"";
    std::string sets;
    std::string asked;
    std::string answers;
    for (const base::IpAddress& address : own) {
        const Words words = words_of(address);
        sets += sets_of(words);
        asked += asked_rules(words, address.to_string());
        answers += answer_rules(words, address.to_string());
    }
    return "add table " + table + "\ndelete table " + table + "\ntable " + table +
           " {\n  counter " + std::string(kAnsweredCounter) + " { }\n  counter " +
           std::string(kAskedFullCounter) + " { }\n" + sets +
           "  chain asked {\n"
           "    type filter hook input priority mangle; policy accept;\n"
           "    iifname " +
           device +
           " return\n"
           "    iifname \"lo\" return\n"
           "    meta l4proto != udp return\n"
           "    meta pkttype != host return\n"
           "    ip6 daddr fe80::/10 return\n"
           "    socket mark " +
           hexadecimal(options.fwmark) + " return\n" + asked +
           "    socket wildcard 1 counter name " + std::string(kAskedFullCounter) +
           "\n"
           "  }\n"
           "  chain answers {\n"
           "    type route hook output priority raw; policy accept;\n"
           "    oifname != " +
           device +
           " return\n"
           "    meta l4proto != udp return\n" +
           answers + "  }\n}\n";
}

}  // namespace continuo::cnapt
