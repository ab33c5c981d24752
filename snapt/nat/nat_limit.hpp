// Limit of the connections per lease that the kernel tracks. Relay's limit of flows alone does not
// bound them, as connection tracking forgets later than the relay. In a separate table that
// survives a new configuration and a restart: the kernel counts from the table's first packet on.
// Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace continuo::snapt::nat {

inline constexpr uint32_t kConnectionsPerUserFlow = 4;
// Most counters of all leases together. Connection tracking holds fewer by default, and an empty
// counter is removed; connections without a counter are not counted.
inline constexpr uint32_t kMaxConnectionCounts = 1'048'576;

inline constexpr std::string_view kConnectionLimitCounter = "connection_limit";

// The kernel walks a counter's connections for each new one: 16384 would take it 10 ms. So a lease
// has several counters, and the kernel's own id of a connection selects one. Some connections of a
// lease are refused from three quarters of the limit on, all above it.
struct ConnectionCounts {
    uint32_t counts = 1;  // per lease and IP version; a power of two
    uint32_t each = 0;    // connections at most
    uint32_t limit() const { return counts * each; }

    bool operator==(const ConnectionCounts&) const = default;
};
// For a limit of `user_flows`, which must not be 0.
ConnectionCounts connection_counts(uint32_t user_flows);

// "inet continuo_connections_<device>", as relay_table().
std::string limit_table(std::string_view device);
// A chain whose name encodes the limits of the table: if it exists, the table is up to date.
std::string limit_chain(const ConnectionCounts& counts);
// One transaction that replaces the table; all counts start anew.
std::string build_limit_ruleset(std::string_view device, const ConnectionCounts& counts);

}  // namespace continuo::snapt::nat
