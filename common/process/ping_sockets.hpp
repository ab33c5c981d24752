// Sockets for echo requests without privileges (SOCK_DGRAM of ICMP), as the kernel lists them in
// /proc/net/icmp and icmp6. sock_diag does not list them, and nothing tells which raw socket sent
// an echo.
#pragma once

#include "common/base/result.hpp"
#include "common/packet/five_tuple.hpp"

#include <cstdint>
#include <string_view>

namespace continuo::process {

struct PingSocket {
    uint64_t inode = 0;
    uint32_t user_id = 0;
};

// The socket with the echo identifier and addresses of `tuple` in such a list. Errors: NotFound.
base::Result<PingSocket> find_ping_socket(std::string_view list, const packet::FiveTuple& tuple);
// Finds a ping socket in the kernel's list. Errors: NotFound, LimitReached, System.
base::Result<PingSocket> find_ping_socket(const packet::FiveTuple& tuple);

}  // namespace continuo::process
