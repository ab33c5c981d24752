#include "snapt/relay/gone_flows.hpp"

#include "common/flow/flow_share.hpp"

namespace continuo::snapt::relay {

bool GoneFlows::has_room(
    const Share& share, size_t flows, size_t limit, size_t most, bool is_favoured) {
    const size_t reserve = is_favoured ? 0 : most / flow::kReserveDivisor;
    return limit == 0 || flows + share.flows < limit + most - reserve;
}

void GoneFlows::add(const packet::FiveTuple& tuple, Share& share) {
    if (waiting_.size() >= kMost) {
        ++left_;
        return;
    }
    waiting_.push_back({tuple, &share});
    ++share.flows;
}

std::vector<packet::FiveTuple>
GoneFlows::take(const std::function<bool(const packet::FiveTuple&)>& is_back) {
    std::vector<packet::FiveTuple> tuples;
    if (!taken_.empty()) {
        return tuples;
    }
    size_t looked_at = 0;
    for (; looked_at < waiting_.size() && looked_at < kMostInOneGo; ++looked_at) {
        const Gone& gone = waiting_[looked_at];
        if (is_back(gone.tuple)) {
            --gone.share->flows;
            continue;
        }
        taken_.push_back(gone);
        tuples.push_back(gone.tuple);
    }
    waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(looked_at));
    return tuples;
}

void GoneFlows::finish(bool are_forgotten) {
    if (are_forgotten) {
        for (const Gone& gone : taken_) {
            --gone.share->flows;
        }
    } else {
        waiting_.insert(waiting_.begin(), taken_.begin(), taken_.end());
    }
    taken_.clear();
    was_refused_ = !are_forgotten;
}

}  // namespace continuo::snapt::relay
