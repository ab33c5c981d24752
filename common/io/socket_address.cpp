#include "common/io/socket_address.hpp"

#include <cstring>

namespace continuo::io {

using base::Endpoint;
using base::IpAddress;

SocketAddress::SocketAddress(const Endpoint& endpoint) {
    if (endpoint.address.is_v4()) {
        storage_.v4.sin_family = AF_INET;
        storage_.v4.sin_port = htons(endpoint.port);
        std::memcpy(&storage_.v4.sin_addr, endpoint.address.octets.data(), sizeof(in_addr));
    } else {
        storage_.v6.sin6_family = AF_INET6;
        storage_.v6.sin6_port = htons(endpoint.port);
        std::memcpy(&storage_.v6.sin6_addr, endpoint.address.octets.data(), sizeof(in6_addr));
    }
}

std::optional<Endpoint> SocketAddress::endpoint() const {
    if (storage_.v4.sin_family == AF_INET) {
        return Endpoint{IpAddress::v4(ntohl(storage_.v4.sin_addr.s_addr)),
                        ntohs(storage_.v4.sin_port)};
    }
    if (storage_.v6.sin6_family == AF_INET6) {
        return Endpoint{IpAddress::v6(base::ByteView(storage_.v6.sin6_addr.s6_addr)),
                        ntohs(storage_.v6.sin6_port)};
    }
    return std::nullopt;
}

}  // namespace continuo::io
