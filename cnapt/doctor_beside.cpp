// Checks of `cnapt doctor`: what else on this host decides where traffic goes.
#include "cnapt/doctor_context.hpp"
#include "cnapt/failure_text.hpp"
#include "cnapt/tunnel_uplinks.hpp"

namespace continuo::cnapt {

using report::JsonValue;

namespace {

// As a daemon that runs would answer.
JsonValue vpns_of_host(const NodeDoctor& doctor) {
    io::EventLoop loop;
    const auto monitor = io::NetMonitor::start(loop, [](const io::NetEvent&) {});
    if (!monitor) {
        return {};  // "uplinks" has said so
    }
    std::vector<base::IpAddress> snapts;
    for (const SnaptTarget& target : doctor.targets) {
        snapts.push_back(target.endpoint.address);
    }
    report::JsonWriter json;
    write_other_vpns(json, vpns_with_default_route((*monitor)->snapshot(), snapts, doctor.mark()));
    auto parsed = JsonValue::parse(json.take());
    return parsed ? std::move(*parsed) : JsonValue{};
}

}  // namespace

void check_other_vpns(NodeDoctor& doctor) {
    const JsonValue vpns = doctor.runs() ? doctor.status.json["other_vpns"] : vpns_of_host(doctor);
    for (const JsonValue& vpn : vpns.items()) {
        const std::string remedy =
            vpn_remedy(vpn, doctor.config && doctor.config->capture.kill_switch);
        if (vpn["used"].boolean().value_or(false) ||
            vpn["takes_programs"].boolean().value_or(false)) {
            doctor.findings.warn("vpn", vpn_text(vpn), remedy);
        } else {
            doctor.findings.ok("vpn", vpn_text(vpn) + "; " + remedy);
        }
    }
}

}  // namespace continuo::cnapt
