// The nftables text for capturing the node's traffic (routes.hpp). Pure.
#pragma once

#include "cnapt/capture/routes.hpp"

#include <string>
#include <vector>

namespace continuo::cnapt::capture {

// The chain that lets new flows of the LAN sides into the tunnel; empty while they bypass it.
inline constexpr std::string_view kLanBeginsChain = "lan_begins";

// A mark as nftables reads it.
std::string hexadecimal(uint32_t value);
// Mark of LAN-side connections that began in the tunnel, and of packets that belong there.
uint32_t gateway_mark(const CaptureOptions& options);
// Mark of connections that stay outside the tunnel.
uint32_t plain_mark(const CaptureOptions& options);

// The rules of kLanBeginsChain, one per line, each after `prefix`.
std::string lan_begins_rules(const CaptureOptions& options, const std::string& prefix);
// Transaction that updates the interface sets of the kill switch's table.
std::string forward_sets_text(const std::string& table, const ForwardLinks& links);

// Creates a separate table (netfilter::OwnedTable, so that it ends with the process): questions of
// `user` (systemd-resolved's) to name servers on `links` are refused.
std::string
resolver_table_text(const std::string& table, uint32_t user, const std::vector<std::string>& links);

// Transactions that replace `table`; `own`: cnapt0's addresses. As in CapturePlan.
std::string build_guard(const std::string& device,
                        const std::string& table,
                        const std::vector<base::IpAddress>& own);
std::string build_ruleset(const CaptureOptions& options,
                          const std::string& table,
                          const std::vector<base::IpAddress>& own);

}  // namespace continuo::cnapt::capture
