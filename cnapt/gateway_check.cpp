#include "cnapt/gateway_check.hpp"

#include "common/daemon/forward_rules.hpp"
#include "common/daemon/host_links.hpp"
#include "common/io/sysctl.hpp"

namespace continuo::cnapt {
namespace {

bool is_on(std::string_view key) {
    const auto value = io::read_sysctl(key);
    return value && *value != "0";
}

void check_forwarding(const CaptureConfig& config, report::Findings& findings) {
    const std::string check = "forwarding";
    std::string off;
    const auto note = [&off](std::string_view setting) {
        off += (off.empty() ? "" : " ") + std::string(setting);
    };
    if (config.ipv4 && !is_on("net/ipv4/ip_forward")) {
        note("net.ipv4.ip_forward=1");
    }
    if (config.ipv6 && !is_on("net/ipv6/conf/all/forwarding")) {
        note("net.ipv6.conf.all.forwarding=1");
    }
    if (off.empty()) {
        findings.ok(check, "on");
    } else {
        findings.fail(check, "is off: nothing of the LAN gets through", "sysctl -w " + off);
    }
}

}  // namespace

void check_gateway(const CaptureConfig& config, report::Findings& findings) {
    if (config.gateway_interfaces.empty()) {
        return;
    }
    daemon::check_links("gateway ", config.gateway_interfaces, "capture.gateway_interfaces",
                        findings);
    check_forwarding(config, findings);
    std::vector<daemon::ForwardWay> ways;
    std::string names = config.device;
    for (const std::string& name : config.gateway_interfaces) {
        ways.push_back({name, config.device});
        names += " and " + name;
    }
    daemon::check_forward_rules(ways, names, findings);
}

}  // namespace continuo::cnapt
