// The nftables text of what captures the node's traffic (routes.hpp). Pure.
#pragma once

#include "cnapt/routes.hpp"

#include <string>
#include <vector>

namespace continuo::cnapt {

// LAN sides whose new flows enter the tunnel.
inline constexpr std::string_view kCapturedSet = "captured";

// The mark of connections of the LAN sides that began in the tunnel, and of packets that belong
// there.
uint32_t gateway_mark(const CaptureOptions& options);
// The mark of connections that stay beside the tunnel.
uint32_t plain_mark(const CaptureOptions& options);

// { "one", "two" }
std::string quoted_list(const std::vector<std::string>& names);

// Transactions that replace `table`; `own` are cnapt0's addresses. As CapturePlan says.
std::string build_guard(const std::string& device,
                        const std::string& table,
                        const std::vector<base::IpAddress>& own);
std::string build_ruleset(const CaptureOptions& options,
                          const std::string& table,
                          const std::vector<base::IpAddress>& own);

}  // namespace continuo::cnapt
