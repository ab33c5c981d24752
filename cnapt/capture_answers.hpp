// The nftables text that makes a UDP server of this host answer from the address that was asked. A
// socket on 0.0.0.0 or :: has no source when it answers, and would be captured as anything that
// begins here. Pure.
#pragma once

#include "cnapt/routes.hpp"

#include <string>
#include <vector>

namespace continuo::cnapt {

// Entries of each set and map, for each IP version. Beyond, an answer goes through the tunnel as
// without them, and kAskedFullCounter counts who asked. A choice, not measured.
inline constexpr size_t kMaxAsked = 65536;
// Since the last datagram either way; as connection tracking keeps UDP that was answered.
inline constexpr unsigned kAskedSeconds = 120;

// Named counters of the table.
inline constexpr std::string_view kAnsweredCounter = "answered";
inline constexpr std::string_view kAskedFullCounter = "asked_full";

// A transaction that adds to `table`, which is there. It fails on kernels without nft_socket.
// `own` are cnapt0's addresses.
std::string build_answers(const CaptureOptions& options,
                          const std::string& table,
                          const std::vector<base::IpAddress>& own);

}  // namespace continuo::cnapt
