// PathWorld: what it must show, and its trace.
#include "tests/sim/path_world.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <tuple>

namespace continuo::tests {

using base::Duration;
using base::TimePoint;
using path::Health;
using policy::Candidate;
using policy::PathManager;
using policy::Transport;

Duration PathWorld::longest_doubt() const {
    if (!active()) {
        return {};
    }
    const Way& used = way(active()->uplink, active()->transport);
    return used.has_view && used.view.smoothed_rtt > Duration{} ? doubt_of(used.view)
                                                                : PathManager::kHeadStart;
}

// docs/PATHS.md, "The stall that is allowed".
Duration PathWorld::allowed(uint8_t slot, Transport transport) const {
    const auto uplinks =
        std::count_if(links_.begin(), links_.end(), [](const Link& each) { return each.is_there; });
    const Duration turns = uplinks * 2 * PathManager::kHeadStart;
    Duration longest_timeout{};
    for (const auto& ways : ways_) {
        for (const Way& each : ways) {
            longest_timeout =
                std::max(longest_timeout, each.has_view ? each.view.probe_timeout : Duration{});
        }
    }
    const Duration doubt = longest_doubt();
    const Duration rtt = links_[slot].rtt;
    Duration again = PathManager::kFirstRest;
    Duration answer = rtt;
    if (transport == Transport::Tcp) {
        again = std::min<Duration>(PathManager::kLongestConnect,
                                   PathManager::kFirstRest + way(slot, transport).asked_in_vain);
        answer = 3 * rtt;
    }
    // Each of the five terms ends with a step.
    return std::max(doubt, again) + turns + answer + std::max(longest_timeout, doubt) + rtt +
           5 * kStep;
}

void PathWorld::watch() {
    if (!is_busy_) {
        tries_ = 0;
        return;
    }
    const TimePoint since = std::max({delivered_at_, activated_at_, worse_at_, busy_since_});
    bool has_witness = false;
    for (uint8_t slot = 0; slot < kUplinks; ++slot) {
        for (const Transport transport : {Transport::Udp, Transport::Tcp}) {
            const Way& each = way(slot, transport);
            if (each.works_since == base::kNever) {
                continue;
            }
            has_witness = true;
            const Duration stall = now_ - std::max(since, each.works_since);
            const Duration bound = allowed(slot, transport);
            longest_stall = std::max(longest_stall, stall);
            longest_of_allowed =
                std::max(longest_of_allowed,
                         static_cast<double>(stall.count()) / static_cast<double>(bound.count()));
            if (stall > bound && fault.empty()) {
                fault = "nothing delivered for " + std::to_string(base::to_ms(stall)) + " ms at " +
                        std::to_string(base::to_ms(now_.time_since_epoch())) + " by " + in_use() +
                        ", though " + name(slot, transport) + " works; allowed are " +
                        std::to_string(base::to_ms(bound));
            }
        }
    }
    tries_ = has_witness ? tries_ : 0;
}

std::string PathWorld::name(uint8_t slot, Transport transport) {
    return (transport == Transport::Udp ? "udp" : "tcp") + std::to_string(slot);
}

std::string PathWorld::in_use() const {
    return active() ? name(active()->uplink, active()->transport) : "nothing";
}

std::string PathWorld::best() const {
    std::string best;
    std::tuple<Transport, uint64_t> least;
    for (uint8_t slot = 0; slot < kUplinks; ++slot) {
        for (const Transport transport : {Transport::Udp, Transport::Tcp}) {
            const std::tuple key(transport, links_[slot].cost);
            const bool may_be_used =
                name(slot, transport) == in_use() || manager_.rests_until(slot, transport) <= now_;
            if (carries(slot, transport) && may_be_used && (best.empty() || key < least)) {
                best = name(slot, transport);
                least = key;
            }
        }
    }
    return best;
}

// With CONTINUO_TRACE what the manager says is printed.
void PathWorld::trace(const policy::PathPlan& plan) const {
    static const bool is_on = std::getenv("CONTINUO_TRACE") != nullptr;
    if (!is_on) {
        return;
    }
    std::printf("%lld", static_cast<long long>(base::to_ms(now_.time_since_epoch())));
    if (plan.activate) {
        std::printf(" activate %s", name(plan.activate->uplink, plan.activate->transport).c_str());
    }
    for (const Candidate& each : plan.probe) {
        std::printf(" ask %s", name(each.uplink, each.transport).c_str());
    }
    std::printf(", by %s;", in_use().c_str());
    for (uint8_t slot = 0; slot < kUplinks; ++slot) {
        for (const Transport transport : {Transport::Udp, Transport::Tcp}) {
            const Way& each = way(slot, transport);
            if (links_[slot].is_there) {
                std::printf(" %s%s%s%s", name(slot, transport).c_str(),
                            carries(slot, transport) ? "+" : "-",
                            !each.has_view                       ? " none"
                            : each.view.has_hole                 ? " hole"
                            : !each.view.is_validated            ? " unproven"
                            : each.view.health == Health::Usable ? " usable"
                                                                 : " silent",
                            manager_.rests_until(slot, transport) > now_ ? " rests" : "");
            }
        }
    }
    std::printf("\n");
}

}  // namespace continuo::tests
