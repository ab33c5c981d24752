#include "snapt/nat/nat_limit.hpp"

#include "snapt/nat/nat.hpp"

namespace continuo::snapt::nat {

namespace {

constexpr uint32_t kConnectionsOfACount = 64;
constexpr uint32_t kMaxCountsOfALease = 65'536;

// `family`: ip or ip6.
std::string lease_set(std::string_view name, std::string_view family) {
    return "  set " + std::string(name) + " { typeof " + std::string(family) +
           " saddr . ct id; size " + std::to_string(kMaxConnectionCounts) + "; flags dynamic; }\n";
}

// Only the first packet of a connection: an unanswered one stays "new".
std::string count_rule(std::string_view device,
                       std::string_view set,
                       std::string_view family,
                       const ConnectionCounts& counts) {
    return "    iifname \"" + std::string(device) + "\" ct state new ct status ! confirmed add @" +
           std::string(set) + " { " + std::string(family) + " saddr . ct id & " +
           std::to_string(counts.counts - 1) + " ct count over " + std::to_string(counts.each) +
           " } goto refuse\n";
}

}  // namespace

ConnectionCounts connection_counts(uint32_t user_flows) {
    const uint64_t limit = uint64_t{user_flows} * kConnectionsPerUserFlow;
    ConnectionCounts counts;
    while (counts.counts < kMaxCountsOfALease &&
           limit / (uint64_t{2} * counts.counts) >= kConnectionsOfACount) {
        counts.counts *= 2;
    }
    counts.each = static_cast<uint32_t>(limit / counts.counts);
    return counts;
}

std::string limit_table(std::string_view device) {
    constexpr std::string_view kOfRelay = "inet continuo_snapt_";
    std::string name = relay_table(device);
    return name.replace(0, kOfRelay.size(), "inet continuo_connections_");
}

std::string limit_chain(const ConnectionCounts& counts) {
    return "at_most_" + std::to_string(counts.counts) + "x" + std::to_string(counts.each);
}

std::string build_limit_ruleset(std::string_view device, const ConnectionCounts& counts) {
    const std::string table = limit_table(device);
    return "add table " + table + "\ndelete table " + table + "\ntable " + table + " {\n" +
           "  counter " + std::string(kConnectionLimitCounter) + " { }\n" +
           lease_set("leases4", "ip") + lease_set("leases6", "ip6") +
           "  chain refuse {\n"
           "    counter name " +
           std::string(kConnectionLimitCounter) +
           "\n"
           "    meta l4proto tcp reject with tcp reset\n"
           "    reject with icmpx type admin-prohibited\n"
           "  }\n"
           // After the relay's own chain: packets refused there are not counted. Most packets leave
           // at the first rule.
           "  chain " +
           limit_chain(counts) +
           " {\n"
           "    type filter hook forward priority filter + 10; policy accept;\n"
           "    ct state established accept\n" +
           count_rule(device, "leases4", "ip", counts) +
           count_rule(device, "leases6", "ip6", counts) + "  }\n}\n";
}

}  // namespace continuo::snapt::nat
