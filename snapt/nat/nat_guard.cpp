#include "snapt/nat/nat_guard.hpp"

#include <array>
#include <cinttypes>
#include <cstdio>

namespace continuo::snapt::nat {

namespace {

std::string hexadecimal(uint32_t number) {
    std::array<char, 16> text{};
    std::snprintf(text.data(), text.size(), "0x%08" PRIx32, number);
    return text.data();
}

}  // namespace

std::vector<netlink::RuleEntry> guard_rules(std::string_view device) {
    std::vector<netlink::RuleEntry> rules;
    for (const base::IpVersion version : {base::IpVersion::V4, base::IpVersion::V6}) {
        netlink::RuleEntry& rule = rules.emplace_back();
        rule.version = version;
        rule.priority = kGuardPriority;
        rule.action = netlink::RuleAction::Blackhole;
        rule.fwmark = 0;
        rule.fwmark_mask = kPassMark;
        rule.input_interface = device;
    }
    return rules;
}

std::string set_pass_mark() {
    return "meta mark set meta mark | " + hexadecimal(kPassMark);
}

std::string clear_pass_mark() {
    return "meta mark set meta mark & " + hexadecimal(~kPassMark);
}

std::string guard_table(std::string_view device) {
    constexpr std::string_view kOfRelay = "inet continuo_snapt_";
    std::string name = relay_table(device);
    return name.replace(0, kOfRelay.size(), "inet snapt_guard_");
}

// The kernel tracks and translates as long as a chain of type nat and a rule on connection state
// exist.
std::string build_guard_ruleset(const RelayOptions& options) {
    std::string text = "table " + guard_table(options.device) +
                       " {\n"
                       "  flags owner;\n"
                       "  chain translates {\n"
                       "    type nat hook postrouting priority srcnat + 20; policy accept;\n"
                       "  }\n"
                       "  chain tracks {\n"
                       "    ct state new accept\n"
                       "  }\n"
                       "  chain leak {\n"
                       "    type filter hook postrouting priority srcnat + 30; policy accept;\n";
    for (const auto& lease : {options.lease_ipv4, options.lease_ipv6}) {
        if (lease) {
            text += std::string("    ") + (lease->address.is_v4() ? "ip" : "ip6") + " saddr " +
                    lease->to_string() + " " + leaves_host(options.device) + " drop\n";
        }
    }
    return text + "  }\n}\n";
}

}  // namespace continuo::snapt::nat
