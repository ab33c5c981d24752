#include "classifier/unreachable.hpp"

#include <algorithm>

namespace continuo::classifier {
namespace {

constexpr size_t kMaxComparisons = 2'000'000;

class Comparer {
  public:
    // Every flow that matches `narrow` matches `wide`.
    bool includes(const RuleMatch& wide, const RuleMatch& narrow) {
        return has_protocols(wide, narrow) && covers(wide.dscp, narrow.dscp, std::equal_to<>()) &&
               covers(wide.ports, narrow.ports, is_range_inside) &&
               covers(wide.destinations, narrow.destinations, is_prefix_inside) &&
               covers_users(wide, narrow) &&
               covers(wide.processes, narrow.processes, std::equal_to<>()) &&
               covers(wide.parents, narrow.parents, std::equal_to<>()) &&
               covers(wide.cgroups, narrow.cgroups, std::equal_to<>());
    }
    bool is_tired() const { return comparisons_ >= kMaxComparisons; }

  private:
    static bool is_range_inside(const config::PortRange& outer, const config::PortRange& inner) {
        return outer.first <= inner.first && inner.last <= outer.last;
    }
    static bool is_prefix_inside(const base::IpPrefix& outer, const base::IpPrefix& inner) {
        return outer.length <= inner.length && outer.contains(inner.address);
    }
    // Ports are asked of TCP and UDP only.
    static ProtocolSet protocols_of(const RuleMatch& match) {
        const bool is_any = match.protocols.is_empty();
        return {is_any || match.protocols.tcp, is_any || match.protocols.udp,
                (is_any || match.protocols.icmp) && match.ports.empty()};
    }
    bool has_protocols(const RuleMatch& wide, const RuleMatch& narrow) {
        ++comparisons_;
        const ProtocolSet outer = protocols_of(wide);
        const ProtocolSet inner = protocols_of(narrow);
        return (outer.tcp || !inner.tcp) && (outer.udp || !inner.udp) &&
               (outer.icmp || !inner.icmp);
    }
    // A user is known by name or by number, and either list may name him.
    bool covers_users(const RuleMatch& wide, const RuleMatch& narrow) {
        if (!wide.has_user()) {
            return true;
        }
        const auto holds_all = [this](const auto& outer, const auto& inner) {
            return inner.empty() || (!outer.empty() && covers(outer, inner, std::equal_to<>()));
        };
        return narrow.has_user() && holds_all(wide.user_names, narrow.user_names) &&
               holds_all(wide.user_ids, narrow.user_ids);
    }
    // Every one of `narrow` lies inside one of `wide`. An empty list asks nothing.
    template <typename T, typename Inside>
    bool covers(const std::vector<T>& wide, const std::vector<T>& narrow, Inside is_inside) {
        if (wide.empty()) {
            return true;
        }
        comparisons_ += wide.size() * narrow.size();
        if (narrow.empty() || is_tired()) {
            return false;
        }
        return std::all_of(narrow.begin(), narrow.end(), [&](const T& inner) {
            return std::any_of(wide.begin(), wide.end(),
                               [&](const T& outer) { return is_inside(outer, inner); });
        });
    }

    size_t comparisons_ = 0;
};

}  // namespace

std::vector<Unreachable> unreachable_rules(std::span<const Rule> rules) {
    std::vector<Unreachable> found;
    Comparer comparer;
    for (size_t index = 1; index < rules.size() && !comparer.is_tired(); ++index) {
        for (size_t earlier = 0; earlier < index; ++earlier) {
            if (comparer.includes(rules[earlier].match, rules[index].match)) {
                found.push_back({index, earlier});
                break;
            }
        }
    }
    return found;
}

}  // namespace continuo::classifier
