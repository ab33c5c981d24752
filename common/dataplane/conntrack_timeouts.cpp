#include "common/dataplane/conntrack_timeouts.hpp"

#include "common/flow/flow_table.hpp"

#include <chrono>
#include <string>

namespace continuo::dataplane {

namespace {

// Time-out of UDP that was answered; not shorter than the kernel's default.
constexpr base::Duration kUdpStream = base::seconds(300);

host::SysctlSetting at_least(const std::string& name, base::Duration timeout) {
    const auto seconds = std::chrono::ceil<std::chrono::seconds>(timeout).count();
    return {"net/netfilter/nf_conntrack_" + name, std::to_string(seconds), true, true};
}

}  // namespace

std::vector<host::SysctlSetting> conntrack_timeouts() {
    namespace timeout = flow::timeout;
    std::vector<host::SysctlSetting> settings = {
        at_least("udp_timeout", timeout::kUdp),
        at_least("udp_timeout_stream", kUdpStream),
        at_least("icmp_timeout", timeout::kIcmpEcho),
        at_least("icmpv6_timeout", timeout::kIcmpEcho),
    };
    // One side is closed, or neither, or one does not acknowledge.
    for (const char* state :
         {"established", "fin_wait", "close_wait", "max_retrans", "unacknowledged"}) {
        settings.push_back(at_least("tcp_timeout_" + std::string(state), timeout::kTcpEstablished));
    }
    // The last data of it is repeated.
    settings.push_back(at_least("tcp_timeout_last_ack", timeout::kTcpTransitory));
    return settings;
}

}  // namespace continuo::dataplane
