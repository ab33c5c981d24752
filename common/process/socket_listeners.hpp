// Ports of this network namespace with a listener, of any process or of the kernel itself:
// sock_diag(7). Needs no rights.
#pragma once

#include "common/base/result.hpp"

#include <cstdint>
#include <tuple>
#include <vector>

namespace continuo::process {

struct ListeningPort {
    bool is_tcp = false;
    uint16_t port = 0;

    bool operator==(const ListeningPort&) const = default;
    bool operator<(const ListeningPort& other) const {
        return std::tie(is_tcp, port) < std::tie(other.is_tcp, other.port);
    }
};

// TCP sockets that listen, and UDP sockets that are bound and not connected, of both IP versions
// and on any address; sorted, each once. Errors: NotFound (a kernel without diagnosis of one of the
// two), System.
base::Result<std::vector<ListeningPort>> listening_ports();

}  // namespace continuo::process
