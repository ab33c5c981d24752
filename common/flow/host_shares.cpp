#include "common/flow/host_shares.hpp"

#include <algorithm>

namespace continuo::flow {

FlowShare& HostShares::of(const base::IpAddress& host) {
    const auto found = shares_.find(host);
    if (found != shares_.end()) {
        return found->second;
    }
    if (shares_.size() >= kMaxHosts) {
        std::erase_if(shares_, [](const auto& share) { return share.second.flows() == 0; });
    }
    return shares_.size() < kMaxHosts ? shares_[host] : others_;
}

Flow* HostShares::gives_way_to(bool is_favoured, bool is_reserve_left, size_t limit) const {
    const FlowShare* most = &own_;
    size_t hosts = 0;
    const auto look_at = [&](const FlowShare& share) {
        hosts += share.flows() > 0 ? 1U : 0U;
        most = share.flows() > most->flows() ? &share : most;
    };
    look_at(own_);
    look_at(others_);
    for (const auto& [host, share] : shares_) {
        look_at(share);
    }
    // The hosts of many new flows are found out later; they may all be one host.
    Flow* silent = unknown_.flows() > most->flows() ? unknown_.gives_way_to(is_favoured) : nullptr;
    silent = silent != nullptr ? silent : most->gives_way_to(is_favoured);
    // Another host may need the place. Whatever number of addresses somebody has, answered
    // connections of a host with few of them are not displaced.
    const size_t part = std::max(limit / (hosts + 1), limit / kLeastPartDivisor);
    if (silent != nullptr || most->flows() <= part) {
        return silent;
    }
    return most->oldest_answered(is_favoured || is_reserve_left);
}

}  // namespace continuo::flow
