// The nftables text of what captures the node's traffic (routes.hpp). Pure.
#pragma once

#include "cnapt/routes.hpp"

#include <string>
#include <vector>

namespace continuo::cnapt {

// The chain that lets new flows of the LAN sides into the tunnel; empty while they go plain.
inline constexpr std::string_view kLanBeginsChain = "lan_begins";

// The mark of connections of the LAN sides that began in the tunnel, and of packets that belong
// there.
uint32_t gateway_mark(const CaptureOptions& options);
// The mark of connections that stay beside the tunnel.
uint32_t plain_mark(const CaptureOptions& options);

// The rules of kLanBeginsChain, a line each behind `prefix`.
std::string lan_begins_rules(const CaptureOptions& options, const std::string& prefix);
// Transaction that tells the table of the kill switch which interfaces there are.
std::string forward_sets_text(const std::string& table, const ForwardLinks& links);

// Makes a table of its own (io::OwnedTable, so that it goes with the process): what `user`
// (systemd-resolved's) asks name servers by `links` is refused.
std::string
resolver_table_text(const std::string& table, uint32_t user, const std::vector<std::string>& links);

// Transactions that replace `table`; `own` are cnapt0's addresses. As CapturePlan says.
std::string build_guard(const std::string& device,
                        const std::string& table,
                        const std::vector<base::IpAddress>& own);
std::string build_ruleset(const CaptureOptions& options,
                          const std::string& table,
                          const std::vector<base::IpAddress>& own);

}  // namespace continuo::cnapt
