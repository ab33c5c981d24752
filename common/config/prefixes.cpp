#include "common/config/prefixes.hpp"

#include <algorithm>
#include <utility>

namespace continuo::config {

std::vector<base::IpPrefix> read_prefixes(Section& section, std::string_view key) {
    std::vector<base::IpPrefix> prefixes =
        section.list<base::IpPrefix>(key, base::IpPrefix::parse, kPrefixForm);
    std::vector<std::pair<base::IpPrefix, const Node*>> sorted;
    for (const Node* item : section.items(key)) {
        if (const auto prefix = base::IpPrefix::parse(item->text)) {
            sorted.emplace_back(*prefix, item);
        }
    }
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const auto& left, const auto& right) { return left.first < right.first; });
    // A prefix sorts before all that it contains.
    const base::IpPrefix* outer = nullptr;
    for (const auto& [prefix, item] : sorted) {
        if (outer == nullptr || !outer->contains(prefix.address)) {
            outer = &prefix;
        } else if (*outer != prefix) {
            section.warning_at(*item,
                               quote(key) + " holds " + item->describe() + ", a part of " +
                                   quote(outer->to_string()),
                               "prefixes that do not overlap");
        }
    }
    return prefixes;
}

std::vector<HostPort> read_hosts(Section& section, std::string_view key) {
    std::vector<HostPort> hosts = section.list<HostPort>(key, HostPort::parse, kHostPortForm);
    if (section.has(key) && section.items(key).empty()) {
        section.error(key, quote(key) + " is an empty list", "at least one address");
    }
    for (const Node* item : section.items(key)) {
        const auto host = HostPort::parse(item->text);
        const auto endpoint = host ? host->endpoint() : std::nullopt;
        if (endpoint && !is_unicast(endpoint->address)) {
            section.error_at(*item,
                             quote(key) + " holds " + item->describe() + ", which no host has",
                             "an address that nodes can reach");
        }
    }
    return hosts;
}

}  // namespace continuo::config
