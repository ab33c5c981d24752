#include "cnapt/capture/source_routes.hpp"

#include "cnapt/capture/rule_place.hpp"
#include "cnapt/uplinks/near_links.hpp"
#include "common/base/log.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace continuo::cnapt::capture {

using uplinks::kLongestPartOfDefault;

namespace {

using base::IpAddress;
using base::IpPrefix;
using base::IpVersion;
using base::Result;
using netlink::RouteEntry;
using netlink::RuleEntry;

constexpr size_t kMaxSourceSteps = 2;  // one is under way at most
// A link that goes down loses routes before that is reported: such a failure is no error.
constexpr unsigned kToldFailures = 3;
// Routes vanish with their interface; only its state is reported.
constexpr base::Duration kSourceLookInterval = base::seconds(5);
constexpr uint32_t kPortalTables = 2;  // the capture's and its portal's; ours are beside them

IpPrefix whole_address(const IpAddress& address) {
    return IpPrefix{address, static_cast<uint8_t>(address.is_v4() ? 32 : 128)};
}

bool is_shared(const SourceUplink& uplink, std::span<const SourceUplink> uplinks) {
    return std::any_of(uplinks.begin(), uplinks.end(), [&](const SourceUplink& other) {
        return other.slot != uplink.slot && other.address == uplink.address;
    });
}

bool is_default_route(const RouteEntry& route) {
    return route.destination.length <= kLongestPartOfDefault &&
           !uplinks::is_private(route.destination.address);
}

bool is_of(const RouteEntry& route, const SourceUplink& uplink) {
    return route.interface_index == uplink.interface_index &&
           route.destination.address.version == uplink.address.version;
}

bool has_foreign_gateway(const netlink::NetSnapshot& network, const SourceUplink& uplink) {
    return std::any_of(network.routes.begin(), network.routes.end(), [&](const RouteEntry& route) {
        return is_of(route, uplink) && uplinks::has_foreign_gateway(route);
    });
}

RouteEntry
in_table(const RouteEntry& route, const IpPrefix& destination, uint32_t table, size_t metric) {
    RouteEntry copy;
    copy.destination = destination;
    copy.interface_index = route.interface_index;
    copy.gateway = route.gateway;
    copy.is_on_link = route.is_on_link;
    copy.table = table;
    copy.metric = static_cast<uint32_t>(metric);
    return copy;
}

// Routes of the uplink that match `are_meant`, better ones first. Each has its own metric: the
// kernel falls back to another router when one is gone.
template <typename Predicate>
void add_copies(const netlink::NetSnapshot& network,
                const SourceUplink& uplink,
                Predicate are_meant,
                size_t limit,
                uint32_t table,
                SourcePlan& plan) {
    std::vector<const RouteEntry*> found;
    for (const RouteEntry& route : network.routes) {
        if (is_of(route, uplink) && are_meant(route)) {
            found.push_back(&route);
        }
    }
    std::stable_sort(found.begin(), found.end(), [](const RouteEntry* a, const RouteEntry* b) {
        return a->metric < b->metric;
    });
    const size_t kept = std::min(found.size(), limit);
    plan.left_out += found.size() - kept;
    for (size_t i = 0; i < kept; ++i) {
        plan.routes.push_back(in_table(*found[i], found[i]->destination, table, i + 1));
    }
}

bool is_on_link_route(const RouteEntry& route) {
    return !route.gateway && route.destination.length > kLongestPartOfDefault &&
           !route.destination.address.is_link_local();
}

// The uplink's own route there, if it has one.
const RouteEntry* way_to(const netlink::NetSnapshot& network,
                         const SourceUplink& uplink,
                         const IpAddress& destination) {
    const RouteEntry* best = nullptr;
    for (const RouteEntry& route : network.routes) {
        if (route.interface_index != uplink.interface_index ||
            !route.destination.contains(destination)) {
            continue;
        }
        const bool is_better =
            best == nullptr || route.destination.length > best->destination.length ||
            (route.destination.length == best->destination.length && route.metric < best->metric);
        best = is_better ? &route : best;
    }
    return best;
}

void add_snapts(const netlink::NetSnapshot& network,
                const SourceUplink& uplink,
                std::span<const IpAddress> snapts,
                uint32_t table,
                SourcePlan& plan) {
    std::vector<IpAddress> added;
    for (const IpAddress& snapt : snapts) {
        const RouteEntry* way = snapt.version == uplink.address.version &&
                                        std::find(added.begin(), added.end(), snapt) == added.end()
                                    ? way_to(network, uplink, snapt)
                                    : nullptr;
        if (way == nullptr) {
            continue;
        }
        if (added.size() == kMaxSourceSnapts) {
            ++plan.left_out;
            continue;
        }
        added.push_back(snapt);
        plan.routes.push_back(in_table(*way, whole_address(snapt), table, 1));
    }
}

void add_source_rules(const SourceUplink& uplink,
                      uint32_t table,
                      uint32_t fwmark,
                      std::vector<RuleEntry>& rules) {
    RuleEntry rule;
    rule.version = uplink.address.version;
    rule.from = whole_address(uplink.address);
    rule.priority = kSnaptRulePriority;
    rule.table = table;
    rule.fwmark = 0;
    rule.fwmark_mask = fwmark;
    rule.suppress_prefix_length = kLongestPartOfDefault;
    rules.push_back(rule);
    rule.priority = kNearSourceRulePriority;
    rule.table = netlink::kMainTable;
    rules.push_back(rule);
    rule.priority = kSourceRulePriority;
    rule.table = table;
    rule.suppress_prefix_length.reset();
    rules.push_back(rule);
}

bool is_same_way(const RouteEntry& a, const RouteEntry& b) {
    return a.table == b.table && a.destination == b.destination && a.metric == b.metric &&
           a.interface_index == b.interface_index && a.gateway == b.gateway;
}

template <typename Entry, typename Same>
bool has(const std::vector<Entry>& list, const Entry& wanted, Same same) {
    return std::any_of(list.begin(), list.end(),
                       [&](const Entry& entry) { return same(entry, wanted); });
}

class FirstError {
  public:
    // `harmless`: an error that means that nothing had to be done.
    void note(const Result<void>& done, int harmless = 0) {
        if (!done && done.error().sys_errno != harmless && result_) {
            result_ = done;
        }
    }
    Result<void> result() const { return result_; }

  private:
    Result<void> result_;
};

// Adds missing entries; returns the superfluous ones.
std::vector<RouteEntry> set_routes(netlink::RouteClient& client,
                                   const SourcePlan& plan,
                                   std::span<const uint32_t> tables,
                                   FirstError& first) {
    std::vector<RouteEntry> in_vain;
    for (const uint32_t table : tables) {
        for (const IpVersion version : {IpVersion::V4, IpVersion::V6}) {
            const auto there = client.routes(version, table);
            if (!there) {
                first.note(there.error());
                continue;
            }
            for (const RouteEntry& route : plan.routes) {
                const bool is_meant =
                    route.table == table && route.destination.address.version == version;
                if (is_meant && !has(*there, route, is_same_way)) {
                    first.note(client.set_route(route));
                }
            }
            for (const RouteEntry& route : *there) {
                if (route.protocol == netlink::kRouteProtocol &&
                    !has(plan.routes, route, is_same_way)) {
                    in_vain.push_back(route);
                }
            }
        }
    }
    return in_vain;
}

// The first ones precede those of others.
std::vector<RuleEntry> placed(std::vector<RuleEntry> rules, uint32_t place) {
    for (RuleEntry& rule : rules) {
        if (rule.priority == kSnaptRulePriority) {
            rule.priority = place - 1;
        }
    }
    return rules;
}

void set_rules(netlink::RouteClient& client, const SourcePlan& plan, FirstError& first) {
    const auto place = rule_place(client);
    if (!place) {
        return first.note(place.error());
    }
    const std::vector<RuleEntry> wanted = placed(plan.rules, *place);
    const auto is_same = [](const RuleEntry& a, const RuleEntry& b) { return a == b; };
    for (const IpVersion version : {IpVersion::V4, IpVersion::V6}) {
        const auto there = client.rules(version);
        if (!there) {
            first.note(there.error());
            continue;
        }
        for (const RuleEntry& rule : wanted) {
            if (rule.version == version && !has(*there, rule, is_same)) {
                first.note(client.add_rule(rule));
            }
        }
        for (const RuleEntry& rule : *there) {
            if (is_source_rule(rule) && !has(wanted, rule, is_same)) {
                first.note(client.remove_rule(rule), ENOENT);
            }
        }
    }
}

}  // namespace

bool is_source_rule(const RuleEntry& rule) {
    const bool has_place =
        (rule.priority >= kLowestRulePriority && rule.priority <= kSnaptRulePriority) ||
        rule.priority == kNearSourceRulePriority || rule.priority == kSourceRulePriority;
    // Capture rules match a whole mark, or none.
    return rule.protocol == netlink::kRouteProtocol && has_place && rule.from &&
           rule.fwmark == 0U && rule.fwmark_mask != UINT32_MAX;
}

uint32_t source_table(uint32_t routing_table, uint8_t slot) {
    constexpr uint32_t kFirstOfKernel = 253;
    constexpr uint32_t kLastOfKernel = 255;
    constexpr uint32_t kRange = kPortalTables + wire::kTcpPath;
    const bool is_before = routing_table < kFirstOfKernel - kRange;
    const bool is_behind = routing_table > kLastOfKernel && routing_table < UINT32_MAX - kRange;
    const uint32_t distance = kPortalTables + slot;
    return is_before || is_behind ? routing_table + distance : routing_table - distance;
}

SourcePlan source_plan(const netlink::NetSnapshot& network,
                       std::span<const SourceUplink> uplinks,
                       std::span<const IpAddress> snapts,
                       const SourceNumbers& numbers) {
    SourcePlan plan;
    for (const SourceUplink& uplink : uplinks) {
        if (is_shared(uplink, uplinks) || has_foreign_gateway(network, uplink)) {
            continue;
        }
        const uint32_t table = source_table(numbers.routing_table, uplink.slot);
        const size_t before = plan.routes.size();
        add_copies(network, uplink, is_default_route, kMaxSourceDefaults, table, plan);
        add_snapts(network, uplink, snapts, table, plan);
        if (plan.routes.size() > before) {
            add_copies(network, uplink, is_on_link_route, kMaxSourceOnLink, table, plan);
            add_source_rules(uplink, table, numbers.fwmark, plan.rules);
        }
    }
    return plan;
}

// Rules must lead to existing routes: routes are added first, and removed last.
Result<void> apply_source_plan(const SourcePlan& plan, std::span<const uint32_t> tables) {
    auto client = CTN_TRY(netlink::RouteClient::open());
    FirstError first;
    const auto in_vain = set_routes(client, plan, tables, first);
    set_rules(client, plan, first);
    for (const RouteEntry& route : in_vain) {
        first.note(client.remove_route(route), ESRCH);
    }
    return first.result();
}

SourceRoutes::SourceRoutes(io::EventLoop& loop, uint32_t routing_table)
    : loop_(loop)
    , routing_table_(routing_table)
    , worker_(std::make_unique<io::WorkerThread>(loop, "cnapt-sources", kMaxSourceSteps)) {}

std::vector<uint32_t> SourceRoutes::tables(bool all) const {
    std::vector<uint32_t> list;
    for (uint8_t slot = 0; slot < wire::kTcpPath; ++slot) {
        const uint32_t table = source_table(routing_table_, slot);
        const bool is_used =
            std::any_of(wish_.routes.begin(), wish_.routes.end(),
                        [&](const RouteEntry& route) { return route.table == table; });
        if (all || is_used) {
            list.push_back(table);
        }
    }
    return list;
}

void SourceRoutes::set(SourcePlan plan) {
    if (plan.left_out > told_left_out_) {
        base::log(base::LogLevel::Warning,
                  "%zu routes of uplinks are too many: a strict reverse path filter drops what "
                  "comes in from there",
                  plan.left_out);
    }
    told_left_out_ = std::max(told_left_out_, plan.left_out);
    wish_ = std::move(plan);
    const bool is_another = !done_ || *done_ != wish_;
    is_due_ = is_due_ || is_another || is_suspect_ || loop_.now() >= look_at_;
    follow();
}

void SourceRoutes::follow() {
    if (!is_due_ || is_busy_ || worker_ == nullptr) {
        return;
    }
    struct Step {
        SourcePlan plan;
        std::vector<uint32_t> tables;
        Result<void> result;
    };
    const bool is_another = !done_ || *done_ != wish_;
    auto step = std::make_shared<Step>(Step{wish_, tables(is_another), {}});
    is_due_ = is_suspect_ = false;
    look_at_ = loop_.now() + kSourceLookInterval;
    is_busy_ = worker_->submit(
        [step] { step->result = apply_source_plan(step->plan, step->tables); },
        [this, step] {
            is_busy_ = false;
            failures_ = step->result ? 0 : failures_ + 1;
            done_ = step->result ? std::optional(step->plan) : std::nullopt;
            if (failures_ == kToldFailures) {
                base::log(base::LogLevel::Warning,
                          "cannot set routing rules for the addresses of uplinks: %.*s: %s",
                          static_cast<int>(step->result.error().where.size()),
                          step->result.error().where.data(),
                          std::strerror(step->result.error().sys_errno));
            }
            follow();
        });
}

void SourceRoutes::end() {
    worker_.reset();
    wish_ = {};
    if (const auto removed = apply_source_plan(wish_, tables(true)); !removed) {
        base::log(base::LogLevel::Error, "cannot remove all routing rules of uplinks: %.*s: %s",
                  static_cast<int>(removed.error().where.size()), removed.error().where.data(),
                  std::strerror(removed.error().sys_errno));
    }
    done_.reset();
}

}  // namespace continuo::cnapt::capture
