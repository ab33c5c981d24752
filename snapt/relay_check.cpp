#include "snapt/relay_check.hpp"

#include "common/daemon/forward_rules.hpp"
#include "common/daemon/host_links.hpp"

namespace continuo::snapt {

void check_relay(const SnaptConfig& config, report::Findings& findings) {
    daemon::check_links("egress ", config.relay.egress, "relay.egress", findings);
    std::vector<std::string> interfaces = {config.inner.device};
    interfaces.insert(interfaces.end(), config.relay.egress.begin(), config.relay.egress.end());
    daemon::check_forward_rules(interfaces, findings);
}

}  // namespace continuo::snapt
