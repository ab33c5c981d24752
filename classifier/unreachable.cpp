#include "classifier/unreachable.hpp"

#include <algorithm>
#include <functional>
#include <optional>

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
    // Some flow may match both; false only when it is certain that none does.
    bool may_overlap(const RuleMatch& left, const RuleMatch& right) {
        ++comparisons_;
        const ProtocolSet one = protocols_of(left);
        const ProtocolSet other = protocols_of(right);
        const bool has_protocol =
            (one.tcp && other.tcp) || (one.udp && other.udp) || (one.icmp && other.icmp);
        return has_protocol && may_meet(left.ports, right.ports, do_ranges_meet) &&
               may_meet(left.destinations, right.destinations, do_prefixes_meet);
    }
    bool is_tired() const { return comparisons_ >= kMaxComparisons; }

  private:
    static bool do_ranges_meet(const config::PortRange& left, const config::PortRange& right) {
        return left.first <= right.last && right.first <= left.last;
    }
    static bool do_prefixes_meet(const base::IpPrefix& left, const base::IpPrefix& right) {
        return is_prefix_inside(left, right) || is_prefix_inside(right, left);
    }
    template <typename T, typename Meet>
    bool may_meet(const std::vector<T>& left, const std::vector<T>& right, Meet meet) {
        comparisons_ += left.size() * right.size();
        if (left.empty() || right.empty() || is_tired()) {
            return true;
        }
        return std::any_of(left.begin(), left.end(), [&](const T& one) {
            return std::any_of(right.begin(), right.end(),
                               [&](const T& other) { return meet(one, other); });
        });
    }
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

bool is_bypass(const Rule& rule) {
    return rule.action == Action::Bypass;
}

// The bypass rule that takes every packet of a rule with conditions that routing cannot evaluate.
// An earlier rule that routing can evaluate may leave that rule some flows.
std::optional<size_t>
find_bypass(std::span<const Rule> rules, const RuleMatch& match, Comparer& comparer) {
    for (size_t other = 0; other < rules.size() && !comparer.is_tired(); ++other) {
        const Rule& rule = rules[other];
        if (is_bypass(rule)
                ? comparer.includes(rule.match, match)
                : rule.match.is_known_to_routing() && comparer.may_overlap(rule.match, match)) {
            return is_bypass(rule) ? std::optional(other) : std::nullopt;
        }
    }
    return std::nullopt;
}

std::optional<size_t> find_earlier(std::span<const Rule> rules, size_t index, Comparer& comparer) {
    for (size_t earlier = 0; earlier < index; ++earlier) {
        if (comparer.includes(rules[earlier].match, rules[index].match)) {
            return earlier;
        }
    }
    return std::nullopt;
}

}  // namespace

std::vector<Unreachable> unreachable_rules(std::span<const Rule> rules) {
    std::vector<Unreachable> found;
    // Separate limits, so that one search does not change the result of the other.
    Comparer comparer;
    Comparer bypass_comparer;
    const bool has_bypass = std::any_of(rules.begin(), rules.end(), is_bypass);
    for (size_t index = 0; index < rules.size() && !comparer.is_tired(); ++index) {
        const RuleMatch& match = rules[index].match;
        const auto bypass = has_bypass && !match.is_known_to_routing()
                                ? find_bypass(rules, match, bypass_comparer)
                                : std::nullopt;
        if (bypass) {
            found.push_back({index, *bypass, true});
        } else if (const auto earlier = find_earlier(rules, index, comparer)) {
            found.push_back({index, *earlier, false});
        }
    }
    return found;
}

}  // namespace continuo::classifier
