// PathWorld: what it must show, and its trace.
#include "tests/sim/path_world.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <tuple>
#include <utility>

namespace continuo::tests {

using base::Duration;
using base::TimePoint;
using policy::Candidate;
using policy::PathManager;
using policy::Transport;
using recovery::Health;

Duration PathWorld::longest_doubt() const {
    if (!active()) {
        return {};
    }
    const Way& used = way(active()->uplink, active()->transport);
    return used.has_view && used.view.smoothed_rtt > Duration{} ? doubt_of(used.view)
                                                                : PathManager::kHeadStart;
}

// docs/PATHS.md, "The stall that is allowed".
Duration PathWorld::allowed(uint8_t slot, Transport transport, TimePoint since) const {
    const auto uplinks =
        std::count_if(links_.begin(), links_.end(), [](const Link& each) { return each.is_there; });
    const Duration turns = uplinks * 2 * PathManager::kHeadStart;
    std::array<Duration, policy::kTransports> longest{};
    for (const auto& ways : ways_) {
        for (size_t n = 0; n < longest.size(); ++n) {
            longest[n] =
                std::max(longest[n], ways[n].has_view ? ways[n].view.probe_timeout : Duration{});
        }
    }
    const Duration longest_timeout = longest[0] > Duration{} ? longest[0] : longest[1];
    const Duration doubt = longest_doubt();
    const Duration rtt = links_[slot].rtt;
    Duration again = PathManager::kFirstRest;
    Duration answer = rtt;
    if (transport == Transport::Tcp) {
        again = std::min<Duration>(PathManager::kLongestConnect,
                                   PathManager::kFirstRest + way(slot, transport).asked_in_vain);
        answer = 3 * rtt;
        const Way& open = way(slot, transport);
        if (open.dead_at >= since) {
            answer += doubt_of(open.view) + PathManager::kHeadStart + 3 * kStep;
        }
    }
    if (transport == Transport::Udp && !links_[slot].passes_first_port) {
        answer += PathManager::kFirstRest + std::max<Duration>(PathManager::kFirstRest, turns);
    }
    if (way(slot, transport).rest.rests(now_)) {
        answer += PathManager::kFirstRest;
    }
    // Each of the five terms ends with a step, and each turn and time-out does.
    return std::max(doubt, again) + turns + answer + std::max(longest_timeout, doubt) + rtt +
           (7 + uplinks * 2) * kStep;
}

void PathWorld::fail(const std::string& what) {
    if (fault.empty()) {
        fault = what + " at " + std::to_string(base::to_ms(now_.time_since_epoch())) + " by " +
                in_use();
    }
}

// A way that works is left for a preferred one only when that has rested as long as its failures
// ask for.
void PathWorld::account(const std::optional<Candidate>& former, bool worked) {
    const Candidate& next = *active();
    const uint32_t address = std::exchange(active_address_, addresses_[next.uplink]);
    if (former && former->uplink == next.uplink && former->transport == next.transport) {
        return;
    }
    ++moves;
    if (!former) {
        return;
    }
    const Link& link = links_[former->uplink];
    if (!link.is_there || !link.has_carrier || !link.has_route) {
        return;
    }
    Way& left = way(former->uplink, former->transport);
    if (!worked && address == addresses_[former->uplink]) {
        left.rest.begin(now_);
        left.failures.push_back(now_);
    }
    if (worked) {
        ++returns;
        if (way(next.uplink, next.transport).rest.rests(now_)) {
            fail("what has to rest is taken for what works");
        }
    }
}

// docs/PATHS.md: within T of one stall a candidate fails 1 + log2(1 + T / kFirstRest) times.
void PathWorld::watch_failures(const Way& witness, TimePoint since) {
    since = std::max({since, witness.works_since, witness.rest.until()});
    if (since > now_) {
        return;
    }
    const Duration span = now_ - since;
    longest_trouble = std::max(longest_trouble, span);
    size_t may_be = 1;
    for (Duration rest = PathManager::kFirstRest; rest <= span;
         rest += rest + PathManager::kFirstRest) {
        ++may_be;
    }
    for (const auto& ways : ways_) {
        for (const Way& each : ways) {
            const auto failures =
                static_cast<size_t>(std::count_if(each.failures.begin(), each.failures.end(),
                                                  [&](TimePoint at) { return at > since; }));
            most_failures = std::max(most_failures, static_cast<uint32_t>(failures));
            if (failures > may_be) {
                fail("one fails " + std::to_string(failures) + " times within " +
                     std::to_string(base::to_ms(span)) + " ms");
            }
        }
    }
}

void PathWorld::watch() {
    watch_rests();
    if (!is_busy_) {
        for (auto& ways : ways_) {
            for (Way& each : ways) {
                each.failures.clear();
            }
        }
        return;
    }
    const TimePoint stalls_since = std::max({delivered_at_, worse_at_, busy_since_});
    const TimePoint since = std::max(stalls_since, activated_at_);
    for (uint8_t slot = 0; slot < kUplinks; ++slot) {
        for (const Transport transport : {Transport::Udp, Transport::Tcp}) {
            Way& each = way(slot, transport);
            if (transport == Transport::Tcp && each.has_view &&
                (is_blocked(slot) || each.liveness.is_owed())) {
                each.dead_at = now_;
            }
            if (each.works_since == base::kNever) {
                continue;
            }
            watch_failures(each, stalls_since);
            const Duration stall = now_ - std::max(since, each.works_since);
            const Duration bound = allowed(slot, transport, since);
            longest_stall = std::max(longest_stall, stall);
            longest_of_allowed =
                std::max(longest_of_allowed,
                         static_cast<double>(stall.count()) / static_cast<double>(bound.count()));
            if (stall > bound) {
                fail("nothing delivered for " + std::to_string(base::to_ms(stall)) + " ms though " +
                     name(slot, transport) + " works; allowed are " +
                     std::to_string(base::to_ms(bound)));
            }
        }
    }
}

std::string PathWorld::name(uint8_t slot, Transport transport) {
    return (transport == Transport::Udp ? "udp" : "tcp") + std::to_string(slot);
}

std::string PathWorld::in_use() const {
    return active() ? name(active()->uplink, active()->transport) : "nothing";
}

// UDP that lost much within the longest rest; and TCP, which may have carried less than the UDP of
// any uplink did.
bool PathWorld::may_rest_from_trial(uint8_t slot, Transport transport) const {
    const TimePoint lost_at = transport == Transport::Udp ? way(slot, transport).lost_at : lost_at_;
    return lost_at != TimePoint{} && now_ - lost_at < 2 * PathManager::kLongestTrialRest;
}

// By the account of this world: what the manager keeps in mind beyond that is wrong.
bool PathWorld::has_to_rest(uint8_t slot, Transport transport) const {
    return way(slot, transport).rest.rests(now_) ||
           (manager_.rests_until(slot, transport) > now_ && may_rest_from_trial(slot, transport));
}

void PathWorld::watch_rests() {
    for (uint8_t slot = 0; slot < kUplinks; ++slot) {
        for (const Transport transport : {Transport::Udp, Transport::Tcp}) {
            if (links_[slot].is_there && manager_.rests_until(slot, transport) > now_ &&
                !has_to_rest(slot, transport)) {
                fail(name(slot, transport) + " rests without a reason");
            }
        }
    }
}

std::string PathWorld::best() const {
    std::string best = "nothing";
    std::tuple<Transport, uint64_t> least;
    for (uint8_t slot = 0; slot < kUplinks; ++slot) {
        for (const Transport transport : {Transport::Udp, Transport::Tcp}) {
            const std::tuple key(transport, links_[slot].cost);
            const bool may_be_used =
                name(slot, transport) == in_use() || !has_to_rest(slot, transport);
            if (carries(slot, transport) && may_be_used && (best == "nothing" || key < least)) {
                best = name(slot, transport);
                least = key;
            }
        }
    }
    return best;
}

bool PathWorld::has_rest_ended_since(TimePoint since) const {
    for (uint8_t slot = 0; slot < kUplinks; ++slot) {
        for (const Transport transport : {Transport::Udp, Transport::Tcp}) {
            const TimePoint until = manager_.rests_until(slot, transport);
            if (links_[slot].is_there && until > since && until <= now_) {
                return true;
            }
        }
    }
    return false;
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
