#include "snapt/settings/self_service.hpp"

namespace continuo::snapt::settings {
namespace {

constexpr std::string_view kTcp = "tcp/";
constexpr std::string_view kUdp = "udp/";
constexpr std::string_view kPing = "ping";

}  // namespace

std::optional<SelfService> SelfService::parse(std::string_view text) {
    if (text == kPing) {
        return SelfService{Kind::Ping, {}};
    }
    const bool is_tcp = text.starts_with(kTcp);
    if (!is_tcp && !text.starts_with(kUdp)) {
        return std::nullopt;
    }
    const auto ports = config::PortRange::parse(text.substr(kTcp.size()));
    return ports ? std::optional(SelfService{is_tcp ? Kind::Tcp : Kind::Udp, *ports})
                 : std::nullopt;
}

std::string SelfService::to_string() const {
    if (kind == Kind::Ping) {
        return std::string(kPing);
    }
    return std::string(kind == Kind::Tcp ? kTcp : kUdp) + ports.to_string();
}

std::vector<SelfService> read_self_services(config::Section& section) {
    auto services = section.list<SelfService>(
        "allow_self", SelfService::parse,
        R"(a service of this host: "tcp/PORT", "udp/PORT", also "A-B" for PORT, or "ping")");
    if (services.size() > kMaxSelfServices) {
        section.error("allow_self", std::to_string(services.size()) + " services",
                      std::to_string(kMaxSelfServices) + " at most");
    }
    return services;
}

std::string self_service_rules(const std::vector<SelfService>& services) {
    std::string text;
    for (const SelfService& service : services) {
        if (service.kind == SelfService::Kind::Ping) {
            text += "    icmp type echo-request accept\n"
                    "    icmpv6 type echo-request accept\n";
            continue;
        }
        text += "    " + std::string(service.kind == SelfService::Kind::Tcp ? "tcp" : "udp") +
                " dport " + service.ports.to_string() + " accept\n";
    }
    // ICMP errors of the way to a node, which its connections to a service need.
    return services.empty() ? text : text + "    ct state related accept\n";
}

}  // namespace continuo::snapt::settings
