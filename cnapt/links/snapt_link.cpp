#include "cnapt/links/snapt_link.hpp"

#include <algorithm>

namespace continuo::cnapt::links {

namespace {

// The part of a SNAPT's limit, as its divisor, by which the node stays below it: flows end at the
// two ends at different times, and word of an end may be lost. A choice.
constexpr size_t kLimitMarginDivisor = 16;

}  // namespace

// A connection outlives its path: the next one may have the longer headers of IPv6.
uint16_t SnaptLink::largest_segment(const flow::Flow& flow, base::TimePoint now) const {
    auto destination = session->paths()
                           .selector()
                           .destination(flow.traffic_class, now)
                           .value_or(path::Destination{});
    if (addresses.has(base::IpVersion::V6)) {
        destination.to = addresses.v6;
    }
    return session::largest_segment(destination, flow.paths.mode);
}

bool SnaptLink::goes_nowhere() const {
    return session && active_slot() && !is_on_stream() &&
           is_failing(session->paths().path(*active_slot()).state());
}

Fitness SnaptLink::fitness() const {
    if (!session || !is_up) {
        return Fitness::None;
    }
    if (!forwards()) {
        return Fitness::NotForwarding;
    }
    if (!is_listed) {
        return Fitness::Unlisted;
    }
    return is_control_open ? Fitness::Good : Fitness::WithoutControl;
}

std::vector<base::IpAddress> snapt_addresses(const SnaptLinks& links) {
    std::vector<base::IpAddress> snapts;
    for (const auto& link : links) {
        // A SNAPT known from hearsay must not make a tunnel an uplink by its address.
        if (link->is_learned && !link->session) {
            continue;
        }
        for (const base::IpVersion version : uplinks::kBothVersions) {
            if (link->addresses.has(version)) {
                snapts.push_back(link->addresses.of(version).address);
            }
        }
    }
    return snapts;
}

bool has_listed_link(const SnaptLinks& links) {
    return std::any_of(links.begin(), links.end(),
                       [](const auto& link) { return link->fitness() > Fitness::Unlisted; });
}

Fitness best_fitness(const SnaptLinks& links, base::IpVersion version) {
    Fitness best = Fitness::None;
    for (const auto& link : links) {
        best = std::max(best, link->fitness(version));
    }
    return best;
}

bool carries(const SnaptLinks& links, base::IpVersion version) {
    return best_fitness(links, version) != Fitness::None;
}

bool refuses(const SnaptLinks& links, base::IpVersion version) {
    const bool is_any_up = std::any_of(links.begin(), links.end(), [](const auto& link) {
        return link->fitness() != Fitness::None;
    });
    return is_any_up && !carries(links, version);
}

size_t flow_limit(const SnaptLinks& links, base::IpVersion version, size_t most) {
    const Fitness best = best_fitness(links, version);
    size_t limit = most;
    for (const auto& link : links) {
        const Fitness fit = link->fitness(version);
        const bool may_get_it =
            fit != Fitness::None && (fit == best || fit == Fitness::WithoutControl);
        const size_t there = link->accept.user_flows;
        if (may_get_it && there != 0) {
            limit = std::min(limit, there - there / kLimitMarginDivisor);
        }
    }
    return limit;
}

}  // namespace continuo::cnapt::links
