// The nftables text that makes a UDP server on this host answer from the address that was asked. A
// socket on 0.0.0.0 or :: has no source when it answers, and would be captured like a new flow of
// this host. Pure.
#pragma once

#include "cnapt/capture/routes.hpp"

#include <string>
#include <vector>

namespace continuo::cnapt::capture {

// Entries of each set and map, per IP version. Further answers go through the tunnel, as they would
// without this, and kAskedFullCounter counts the requests. A choice, not measured.
inline constexpr size_t kMaxAsked = 65536;
// Time since the last datagram in either direction; as connection tracking keeps answered UDP.
inline constexpr unsigned kAskedSeconds = 120;

// Named counters of the table.
inline constexpr std::string_view kAnsweredCounter = "answered";
inline constexpr std::string_view kAskedFullCounter = "asked_full";

// "inet continuo_cnapt_<device>_answers"
std::string answers_table(std::string_view device);

// A transaction that replaces `table`. It fails on kernels without nft_socket.
// `own`: cnapt0's addresses.
std::string build_answers(const CaptureOptions& options,
                          const std::string& table,
                          const std::vector<base::IpAddress>& own);

}  // namespace continuo::cnapt::capture
