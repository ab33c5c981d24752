// How many connections of a lease the kernel tracks at a time. Relay's limit of flows alone does
// not bound them, as connection tracking forgets later than the relay. A table of its own, which a
// new configuration or a restart leaves alone: the kernel counts from the table's first packet on.
// Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace continuo::snapt {

inline constexpr uint32_t kConnectionsPerUserFlow = 4;
// The counts of all leases together. More than connection tracking holds by default, and one that
// is empty goes: what finds no room is not counted.
inline constexpr uint32_t kMaxConnectionCounts = 1'048'576;

inline constexpr std::string_view kConnectionLimitCounter = "connection_limit";

// The kernel walks a count's connections with each new one, up to all of them: 16384 would take it
// 10 ms. So a lease has many counts, and what the kernel itself numbers a connection by chooses
// one. Some connections of a lease are refused from three quarters of the limit on, all above it.
struct ConnectionCounts {
    uint32_t counts = 1;  // of a lease and IP version; a power of two
    uint32_t each = 0;    // connections at most
    uint32_t limit() const { return counts * each; }

    bool operator==(const ConnectionCounts&) const = default;
};
// For a limit of `user_flows`, which is not 0.
ConnectionCounts connection_counts(uint32_t user_flows);

// "inet continuo_connections_<device>", as relay_table().
std::string limit_table(std::string_view device);
// The chain that says of what limits the table is: where there is one of this name, the table is as
// it must be.
std::string limit_chain(const ConnectionCounts& counts);
// One transaction that replaces the table; all counts begin anew.
std::string build_limit_ruleset(std::string_view device, const ConnectionCounts& counts);

}  // namespace continuo::snapt
