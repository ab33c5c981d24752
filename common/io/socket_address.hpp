// SocketAddress: a base::Endpoint in the form of the socket interface.
#pragma once

#include "common/base/ip_address.hpp"

#include <optional>

#include <netinet/in.h>
#include <sys/socket.h>

namespace continuo::io {

class SocketAddress {
  public:
    SocketAddress() = default;
    explicit SocketAddress(const base::Endpoint& endpoint);

    // Nothing when it is not an IP address. IPv4 in IPv6 stays IPv6.
    std::optional<base::Endpoint> endpoint() const;
    sockaddr* data() { return reinterpret_cast<sockaddr*>(&storage_); }
    const sockaddr* data() const { return reinterpret_cast<const sockaddr*>(&storage_); }
    socklen_t size() const {
        return storage_.v4.sin_family == AF_INET ? socklen_t{sizeof(sockaddr_in)}
                                                 : socklen_t{sizeof(sockaddr_in6)};
    }
    static constexpr socklen_t capacity() { return sizeof(Storage); }

  private:
    union Storage {
        sockaddr_in6 v6;
        sockaddr_in v4;
    };
    Storage storage_{};
};

}  // namespace continuo::io
