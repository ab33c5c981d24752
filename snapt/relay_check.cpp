#include "snapt/relay_check.hpp"

#include "common/daemon/forward_rules.hpp"
#include "common/daemon/host_links.hpp"
#include "common/io/netlink_route.hpp"

namespace continuo::snapt {

namespace {

// An address of the Internet that nobody has (RFC 5737): the way to it is the default one.
constexpr uint32_t kSomewhere = 0xCB007101;

}  // namespace

std::vector<std::string> ways_out(const SnaptConfig& config) {
    std::vector<std::string> interfaces = config.relay.egress;
    auto routes = io::RouteClient::open();
    if (interfaces.empty() && routes) {
        if (const auto way = routes->interface_to(base::IpAddress::v4(kSomewhere))) {
            interfaces.push_back(*way);
        }
    }
    return interfaces;
}

void check_relay(const SnaptConfig& config, report::Findings& findings) {
    daemon::check_links("egress ", config.relay.egress, "relay.egress", findings);
    std::vector<std::string> interfaces = {config.inner.device};
    interfaces.insert(interfaces.end(), config.relay.egress.begin(), config.relay.egress.end());
    daemon::check_forward_rules(interfaces, findings);
}

}  // namespace continuo::snapt
