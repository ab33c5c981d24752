#include "common/process/socket_destroy.hpp"

#include "common/netlink/netlink.hpp"

#include <algorithm>
#include <cerrno>
#include <vector>

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

namespace continuo::process {

namespace {

using base::Errc;
using base::Error;
using base::IpAddress;
using base::Result;

constexpr uint32_t kAllButListeners = UINT32_MAX & ~(uint32_t{1} << unsigned{TCP_LISTEN});

inet_diag_req_v2 request_for(const IpAddress& local, uint8_t protocol) {
    inet_diag_req_v2 request{};
    request.sdiag_family = local.is_v4() ? AF_INET : AF_INET6;
    request.sdiag_protocol = protocol;
    request.idiag_states = kAllButListeners;
    return request;
}

Result<std::vector<inet_diag_sockid>>
list_connected(netlink::NetlinkSocket& netlink, const IpAddress& local, uint8_t protocol) {
    std::vector<inet_diag_sockid> found;
    netlink::NetlinkRequest request(SOCK_DIAG_BY_FAMILY, NLM_F_DUMP);
    request.fixed(request_for(local, protocol));
    CTN_TRY(netlink.list(
        request, "list sockets",
        [&](const netlink::NetlinkMessage& message) {
            const auto socket = message.fixed<inet_diag_msg>();
            const base::ByteView own = local.bytes();
            const bool has_address = std::memcmp(socket.id.idiag_src, own.data(), own.size()) == 0;
            if (has_address && socket.id.idiag_dport != 0) {
                found.push_back(socket.id);
            }
        },
        [&] { found.clear(); }));
    return found;
}

}  // namespace

Result<size_t> destroy_sockets(const IpAddress& local) {
    auto netlink = CTN_TRY(netlink::NetlinkSocket::open(NETLINK_SOCK_DIAG));
    size_t destroyed = 0;
    for (const uint8_t protocol : {uint8_t{IPPROTO_TCP}, uint8_t{IPPROTO_UDP}}) {
        const auto sockets = list_connected(netlink, local, protocol);
        if (!sockets && sockets.error().code == Errc::NotFound) {
            continue;  // a kernel without diagnosis of that protocol
        }
        for (const inet_diag_sockid& id : CTN_TRY(sockets)) {
            netlink::NetlinkRequest request(SOCK_DESTROY, NLM_F_ACK);
            inet_diag_req_v2 wanted = request_for(local, protocol);
            wanted.id = id;
            request.fixed(wanted);
            const auto done = netlink.change(request, "end sockets");
            if (!done && done.error().sys_errno == EOPNOTSUPP) {
                return Error{Errc::Unsupported, "end sockets", EOPNOTSUPP};
            }
            if (!done && done.error().code != Errc::NotFound) {
                return done.error();
            }
            destroyed += done ? 1U : 0U;
        }
    }
    return destroyed;
}

}  // namespace continuo::process
