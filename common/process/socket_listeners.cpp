#include "common/process/socket_listeners.hpp"

#include "common/netlink/netlink.hpp"

#include <algorithm>

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

namespace continuo::process {

namespace {

using base::Result;

// The kernel calls an unconnected UDP socket "closed".
constexpr uint32_t states_of(bool is_tcp) {
    return uint32_t{1} << (is_tcp ? unsigned{TCP_LISTEN} : unsigned{TCP_CLOSE});
}

Result<void> list_into(netlink::NetlinkSocket& netlink,
                       uint8_t family,
                       bool is_tcp,
                       std::vector<ListeningPort>& ports) {
    inet_diag_req_v2 wanted{};
    wanted.sdiag_family = family;
    wanted.sdiag_protocol = is_tcp ? IPPROTO_TCP : IPPROTO_UDP;
    wanted.idiag_states = states_of(is_tcp);
    netlink::NetlinkRequest request(SOCK_DIAG_BY_FAMILY, NLM_F_DUMP);
    request.fixed(wanted);
    // A restarted list repeats itself: the caller removes duplicates.
    return netlink.list(request, "list listening sockets",
                        [&](const netlink::NetlinkMessage& message) {
                            const auto socket = message.fixed<inet_diag_msg>();
                            if (const uint16_t port = ntohs(socket.id.idiag_sport); port != 0) {
                                ports.push_back({is_tcp, port});
                            }
                        });
}

}  // namespace

Result<std::vector<ListeningPort>> listening_ports() {
    auto netlink = CTN_TRY(netlink::NetlinkSocket::open(NETLINK_SOCK_DIAG));
    std::vector<ListeningPort> ports;
    for (const bool is_tcp : {true, false}) {
        for (const uint8_t family : {uint8_t{AF_INET}, uint8_t{AF_INET6}}) {
            CTN_TRY(list_into(netlink, family, is_tcp, ports));
        }
    }
    std::sort(ports.begin(), ports.end());
    ports.erase(std::unique(ports.begin(), ports.end()), ports.end());
    return ports;
}

}  // namespace continuo::process
