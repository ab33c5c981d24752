#include "common/netlink/watched_addresses.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace continuo::netlink {

using base::IpAddress;

std::vector<IpAddress> WatchedAddresses::in_order() const {
    std::vector<IpAddress> ordered;
    std::set<IpAddress> known;
    for (const WatchRank rank : {WatchRank::First, WatchRank::Second}) {
        bool has_more = true;
        for (size_t turn = 0; std::exchange(has_more, false); ++turn) {
            for (const auto& [asker, asked] : asked_) {
                if (asked.rank != rank || turn >= asked.addresses.size()) {
                    continue;
                }
                has_more = true;
                if (known.insert(asked.addresses[turn]).second) {
                    ordered.push_back(asked.addresses[turn]);
                }
            }
        }
    }
    return ordered;
}

bool WatchedAddresses::set(const void* asker, WatchRank rank, std::vector<IpAddress> addresses) {
    const auto known = asked_.find(asker);
    if (known == asked_.end()
            ? addresses.empty()
            : known->second.rank == rank && known->second.addresses == addresses) {
        return false;
    }
    if (addresses.empty()) {
        asked_.erase(known);
    } else {
        asked_[asker] = {rank, std::move(addresses)};
    }
    const size_t all = in_order().size();
    left_out_ = all - std::min(all, kMaxWatched);
    return true;
}

std::vector<IpAddress> WatchedAddresses::list() const {
    std::vector<IpAddress> kept = in_order();
    kept.resize(std::min(kept.size(), kMaxWatched));
    std::sort(kept.begin(), kept.end());
    return kept;
}

}  // namespace continuo::netlink
