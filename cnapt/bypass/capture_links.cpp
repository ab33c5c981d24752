#include "cnapt/bypass/capture_links.hpp"

#include "cnapt/capture/source_routes.hpp"
#include "cnapt/uplinks/interface_name.hpp"

#include <algorithm>

namespace continuo::cnapt::bypass {

void tell_links(node::Node& node,
                const settings::CaptureConfig& config,
                bool has_names,
                capture::CaptureSwitch& capture) {
    capture.set_near(node.near_links(capture::near_group(config)),
                     node.admission().on_link().near());
    std::vector<capture::SourceUplink> sources;
    std::vector<std::string> in_use;
    for (const uplinks::Uplink* uplink : node.uplinks().list()) {
        if (!uplink->is_borrowed) {  // its owner's way is the host's
            sources.push_back({uplink->slot, uplink->interface_index, uplink->address});
        }
        in_use.push_back(uplink->interface);
    }
    capture.set_sources(capture::source_plan(node.network(), sources, snapt_addresses(node.links()),
                                             {config.routing_table, config.fwmark}));
    std::vector<std::string> closed;
    for (const std::string& name : in_use) {
        const bool is_known = std::find(closed.begin(), closed.end(), name) != closed.end();
        // Names of another VPN are its servers' business.
        const netlink::LinkEntry* link = node.network().link(name);
        const bool is_vpn = link != nullptr && uplinks::is_tunnel(*link);
        if (has_names && !is_known && !is_vpn && uplinks::is_safe_interface_name(name)) {
            closed.push_back(name);
        }
    }
    capture.set_resolver_links(std::move(closed));
    if (config.kill_switch) {
        capture.set_forward_links(capture::forward_links(node.network(), in_use, config.device));
    }
}

}  // namespace continuo::cnapt::bypass
