// PathSet: MTU search of the paths.
#include "common/session/path_set.hpp"

#include <algorithm>

namespace continuo::session {

using base::TimePoint;

void PathSet::set_limit(Path& path, uint16_t mtu) {
    path.search.set_limit(mtu);
    path.mtu = path.search.size();
}

void PathSet::set_mtu(uint8_t index, uint16_t mtu, TimePoint now) {
    Path& path = paths_[index];
    if (path.search.limit() == mtu) {
        return;
    }
    set_limit(path, mtu);
    if (active_ == index && role_ == Role::Node) {
        announce_again(now);
    }
}

void PathSet::on_too_big(uint8_t index, uint32_t outer_bytes, TimePoint now) {
    const auto& sizes = path::MtuSearch::kUsualSizes;
    const auto smaller =
        std::find_if(sizes.begin(), sizes.end(), [&](uint16_t size) { return size < outer_bytes; });
    if (smaller != sizes.end() && *smaller < paths_[index].search.limit()) {
        set_mtu(index, *smaller, now);
    }
}

// Expects no answer: a size that does not pass does not make the path silent.
std::optional<Probe> PathSet::mtu_probe(uint8_t index, TimePoint now) {
    Path& path = paths_[index];
    if (path.search.deadline() > now) {
        return std::nullopt;
    }
    const Tuple& tuple = path.tuples[base::index_of(base::TrafficClass::LtLd)];
    const bool may_ask = tuple.is_known() && tuple.is_proven() &&
                         (role_ == Role::Snapt || path.state == PathState::Usable);
    if (!may_ask) {
        path.search.give_up();
        return std::nullopt;
    }
    const uint64_t holes = path.search.black_holes();
    const auto probe = path.search.next(path.smoothed_rtt(), path.rtt_variation(), random_, now);
    has_narrowed_ = has_narrowed_ || path.search.black_holes() != holes;
    path.mtu = path.search.size();
    if (!probe) {
        return std::nullopt;
    }
    Probe result{index, base::TrafficClass::LtLd, tuple.remote(), tuple.local()};
    result.challenge = wire::Challenge{probe->token};
    result.outer_bytes = probe->outer_bytes;
    return result;
}

}  // namespace continuo::session
