#include "common/host/library_lookup.hpp"

#include <array>

#include <netdb.h>
#include <sys/socket.h>

namespace continuo::host {

std::vector<base::IpAddress> look_up_by_library(const std::string& name) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_DGRAM;
    addrinfo* list = nullptr;
    std::vector<base::IpAddress> found;
    if (::getaddrinfo(name.c_str(), nullptr, &hints, &list) != 0) {
        return found;
    }
    for (const addrinfo* at = list; at != nullptr; at = at->ai_next) {
        std::array<char, NI_MAXHOST> text{};
        if (::getnameinfo(at->ai_addr, at->ai_addrlen, text.data(), text.size(), nullptr, 0,
                          NI_NUMERICHOST) == 0) {
            if (const auto parsed = base::IpAddress::parse(text.data())) {
                found.push_back(*parsed);
            }
        }
    }
    ::freeaddrinfo(list);
    return found;
}

}  // namespace continuo::host
