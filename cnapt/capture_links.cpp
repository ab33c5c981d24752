#include "cnapt/capture_links.hpp"

#include "cnapt/interface_name.hpp"
#include "cnapt/source_routes.hpp"

#include <algorithm>

namespace continuo::cnapt {

void tell_links(Node& node, const CaptureConfig& config, bool has_names, CaptureSwitch& capture) {
    capture.set_near(node.near_links(near_group(config)), node.on_link().near());
    std::vector<SourceUplink> sources;
    std::vector<std::string> in_use;
    for (const Uplink* uplink : node.uplinks().list()) {
        if (!uplink->is_borrowed) {  // its owner's way is the host's
            sources.push_back({uplink->slot, uplink->interface_index, uplink->address});
        }
        in_use.push_back(uplink->interface);
    }
    capture.set_sources(source_plan(node.network(), sources, node.snapt_addresses(),
                                    {config.routing_table, config.fwmark}));
    std::vector<std::string> closed;
    for (const std::string& name : in_use) {
        const bool is_known = std::find(closed.begin(), closed.end(), name) != closed.end();
        // Names of another VPN are its servers' business.
        const io::LinkEntry* link = node.network().link(name);
        const bool is_vpn = link != nullptr && is_tunnel(*link);
        if (has_names && !is_known && !is_vpn && is_safe_interface_name(name)) {
            closed.push_back(name);
        }
    }
    capture.set_resolver_links(std::move(closed));
    if (config.kill_switch) {
        capture.set_forward_links(forward_links(node.network(), in_use, config.device));
    }
}

}  // namespace continuo::cnapt
