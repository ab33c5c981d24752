// Answers of the running cnapt to status, flows, paths and snapts: JSON whose names are fixed
// (docs/OPERATIONS.md). Data loop only; answers are built at once.
#pragma once

#include "cnapt/names/dns_switch.hpp"
#include "cnapt/node/node.hpp"

#include <string>
#include <string_view>

namespace continuo::cnapt::bypass {
class PlainControl;
}

namespace continuo::cnapt {

// Daemon state that the Node does not have.
struct DaemonInfo {
    std::string version;
    std::string node;  // name
    std::string state_directory;
    base::TimePoint started_at{};
    base::TimePoint now{};
    uint64_t slow_iterations = 0;  // iterations of the data loop
    size_t sources_left_out = 0;   // SourcePlan::left_out
    bool is_capturing = false;     // new flows are let into the tunnel
    bool is_kill_switch = false;
    bool captures_ipv4 = true;  // as configured
    bool captures_ipv6 = true;
    const record::PacketRecorder* recorder = nullptr;
    const names::DnsSwitch* dns = nullptr;
    const bypass::PlainControl* plain = nullptr;
};

// "up": a SNAPT can be used and new flows go there; "down": none answers; "degraded": in between.
std::string_view daemon_state(const node::Node& node, bool is_capturing);

// The fate of new flows: "all" go through the tunnel; "new_flows_plain": they go outside it, as if
// cnapt were not there; "blocked": they wait for a SNAPT.
std::string_view tunnel_state(const node::Node& node, bool is_capturing);

// `command` is status, paths, snapts or flows, of which one page is given: that behind place
// `after` (dataplane::flows_json). Whatever else gives {"error":"…"}.
std::string
answer(node::Node& node, const DaemonInfo& info, std::string_view command, size_t after = 0);

}  // namespace continuo::cnapt
