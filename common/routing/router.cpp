#include "common/routing/router.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace continuo::routing {

using base::Duration;
using base::PathMode;
using base::Striping;
using base::TimePoint;
using base::TrafficClass;
using flow::Flow;

namespace {

// Classes without resequencing are not spread over paths whose delays differ by more.
constexpr Duration kUnorderedDifference = base::milliseconds(100);
constexpr Duration spread_bound(Duration resequence) {
    return resequence == Duration{} ? kUnorderedDifference : resequence;
}
// A low-delay flow treats round trips that differ by less as equal.
constexpr Duration kAlikeRtt = base::milliseconds(5);

// A hash of flow and path, in (0, 1): number flow_index * kMaxPaths + path of SplitMix64 with seed
// 0 (Steele, Lea and Flood, OOPSLA 2014). Flows are spread as by independent choices, whatever
// indices lie between them.
double hash_of(uint32_t flow_index, uint8_t path) {
    constexpr int kBits = 52;  // so that the half is exact
    uint64_t mixed = (uint64_t{flow_index} * wire::kMaxPaths + path + 1) * 0x9E3779B97F4A7C15U;
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9U;
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBU;
    mixed ^= mixed >> 31;
    return std::ldexp(static_cast<double>(mixed >> (64 - kBits)) + 0.5, -kBits);
}

// A TCP segment without payload; false if that cannot be determined.
bool is_pure_ack(const packet::Packet& packet) {
    constexpr size_t kIpv6Header = 40;
    constexpr uint8_t kTcp = 6;
    const base::ByteView bytes = packet.bytes();
    if (bytes.size() < 40 || packet.offload.gso != packet::GsoType::None) {
        return false;
    }
    const bool is_v4 = bytes[0] >> 4 == 4;
    const size_t ip = is_v4 ? size_t{bytes[0] & 0x0FU} * 4 : kIpv6Header;
    if (bytes[is_v4 ? 9 : 6] != kTcp || bytes.size() < ip + 20) {
        return false;
    }
    return ip + (bytes[ip + 12] >> 4U) * size_t{4} == bytes.size();
}

// False: the packet takes the active path.
bool is_striped(const packet::Packet& packet, Striping striping) {
    switch (striping) {
    case Striping::Packet:
    case Striping::DataAck:
        return true;
    case Striping::Data:
        return !is_pure_ack(packet);
    case Striping::Ack:
        return is_pure_ack(packet);
    }
    return true;
}

template <typename Visit>
void each_of(PathMask paths, const Visit& visit) {
    for (unsigned left = paths; left != 0; left &= left - 1) {
        visit(static_cast<uint8_t>(std::countr_zero(left)));
    }
}

// The rate of each path for sharing out flows. A path that was never full has not shown its rate:
// it counts as fast as the fastest path that has; all are equal where none has.
using Weights = std::array<double, wire::kMaxPaths>;
Weights weights_of(const PathSet& paths, PathMask mask) {
    Weights weights{};
    double fastest = 0;
    each_of(mask, [&](uint8_t index) {
        weights[index] = static_cast<double>(paths.path(index).feedback().measured().bytes_per_s);
        fastest = paths.path(index).feedback().measured().was_full
                      ? std::max(fastest, weights[index])
                      : fastest;
    });
    each_of(mask, [&](uint8_t index) {
        if (fastest == 0) {
            weights[index] = 1.0;
        } else if (!paths.path(index).feedback().measured().was_full) {
            weights[index] = std::max(weights[index], fastest);
        }
    });
    return weights;
}

}  // namespace

// Those of `paths` with the shortest round trips; all while none is known.
PathMask Router::fastest(PathMask paths) const {
    const auto rtt_of = [this](uint8_t index) {
        const recovery::RttEstimator& rtt = paths_.path(index).feedback().rtt();
        return rtt.has_sample() ? rtt.smoothed() : Duration::max();
    };
    Duration shortest = Duration::max();
    each_of(paths, [&](uint8_t index) { shortest = std::min(shortest, rtt_of(index)); });
    PathMask mask = 0;
    each_of(paths, [&](uint8_t index) {
        mask |= rtt_of(index) - kAlikeRtt <= shortest ? mask_of(index) : PathMask{0};
    });
    return mask;
}

// A flow stays on its path while that can be used, so that changing rates move no flow. Another is
// chosen by rendezvous hashing (Thaler and Ravishankar 1998), in proportion to the rates by
// -weight / ln(hash) (Schindelhauer and Schomaker 2005). `paths` must not be 0.
uint8_t Router::path_of(const Flow& flow, PathMask paths) const {
    if (flow.paths.pinned != flow::FlowPaths::kNone && (paths & mask_of(flow.paths.pinned)) != 0) {
        return flow.paths.pinned;
    }
    const PathMask mask = base::is_low_delay(flow.traffic_class) ? fastest(paths) : paths;
    const Weights weights = weights_of(paths_, mask);
    uint8_t best = 0;
    double highest = -1;
    each_of(mask, [&](uint8_t index) {
        const double score = -weights[index] / std::log(hash_of(flow.index, index));
        if (score > highest) {
            highest = score;
            best = index;
        }
    });
    return best;
}

// One-way delays without queues, of which only the differences mean something: those in ACKs are
// between the same two clocks. Until these cover all paths, half the round trips stand in. A path
// without a sample counts as fast as the fastest: nothing but an ACK of what takes it measures it.
Router::Delays Router::delays(PathMask paths) const {
    const auto smallest = [this](uint8_t index) -> std::optional<uint32_t> {
        const recovery::Delivery* const delivery = paths_.path(index).feedback().delivery();
        return delivery != nullptr ? delivery->relative_delay().smallest() : std::nullopt;
    };
    const auto first = smallest(static_cast<uint8_t>(std::countr_zero(paths)));
    bool is_told = true;
    Duration shortest = Duration::max();
    each_of(paths, [&](uint8_t index) {
        const recovery::RttEstimator& rtt = paths_.path(index).feedback().rtt();
        is_told = is_told && smallest(index).has_value();
        shortest = rtt.has_sample() ? std::min(shortest, rtt.minimum()) : shortest;
    });
    Delays delays{};
    each_of(paths, [&](uint8_t index) {
        const recovery::RttEstimator& rtt = paths_.path(index).feedback().rtt();
        delays[index] =
            is_told ? wire::kAckTimeUnit * recovery::RelativeDelay::above(*smallest(index), *first)
                    : (rtt.has_sample() ? rtt.minimum() - shortest : Duration{}) / 2;
    });
    return delays;
}

// Earliest delivery path first (EDPF: Chebrolu and Rao, IEEE Transactions on Mobile Computing 5(4),
// 2006): a datagram is there after the delay of the path, what is queued on it and itself, both at
// the path's rate.
Router::Arrival Router::earliest(PathMask paths, const Delays& delays, TimePoint now) const {
    Arrival best;
    each_of(paths, [&](uint8_t index) {
        const uint16_t mtu = paths_.path(index).mtu();
        const recovery::Delivery* const delivery = paths_.path(index).feedback().delivery();
        const Duration queueing =
            delivery != nullptr
                ? delivery->queueing(mtu, now)
                : recovery::Delivery::time_for(mtu, recovery::Delivery::kAssumedBytesPerS);
        const TimePoint at = now + delays[index] + queueing;
        best = at < best.at ? Arrival{index, at} : best;
    });
    return best;
}

// Datagrams under way on a path that was silent for the bound of the class are no longer waited
// for, nor those on paths that do not carry any more: those on the others reveal a loss.
std::optional<Way>
Router::stripe(const Flow& flow, PathMask paths, Duration bound, TimePoint now) const {
    Way way;
    way.is_striped = true;
    way.paths = paths;
    auto path = static_cast<uint8_t>(std::countr_zero(paths));
    if (!std::has_single_bit(paths)) {
        const PathMask usable = paths_.selector().answering(paths, Duration{}, now);
        const Delays delays = this->delays(usable);
        const Arrival first = earliest(usable, delays, now);
        const PathMask open = paths_.selector().with_room(usable, flow.traffic_class);
        const Arrival instead = open != usable ? earliest(open, delays, now) : first;
        // Later than the receiver waits is no better than waiting for room.
        path = instead.at - first.at <= spread_bound(bound) ? instead.path : first.path;
        way.paths = usable | paths_.selector().answering(paths, bound, now);
        way.paths = paths_.selector().carrying(way.paths, now) | mask_of(path);
    }
    const auto destination = paths_.selector().destination_on(path, flow.traffic_class, now);
    if (!destination) {
        return std::nullopt;
    }
    way.destination = *destination;
    return way;
}

std::optional<Way> Router::route(TrafficClass traffic_class, TimePoint now) const {
    const auto destination = paths_.selector().destination(traffic_class, now);
    return destination ? std::optional(Way{*destination}) : std::nullopt;
}

std::optional<Way> Router::route(const Flow& flow,
                                 const packet::Packet& packet,
                                 const SpreadKnobs& knobs,
                                 TimePoint now) const {
    if (flow.paths.mode != PathMode::Flow && flow.paths.mode != PathMode::Packet) {
        return route(flow.traffic_class, now);
    }
    const PathMask paths = paths_.selector().spread(spread_bound(knobs.resequence), now);
    std::optional<Way> way;
    if (paths != 0 && flow.paths.mode == PathMode::Flow) {
        const uint8_t path = path_of(flow, paths);
        if (const auto to = paths_.selector().destination_on(path, flow.traffic_class, now)) {
            way = Way{.destination = *to, .is_pinned = true};
        }
    } else if (paths != 0 && is_striped(packet, knobs.striping)) {
        way = stripe(flow, paths, knobs.resequence, now);
    }
    return way ? way : route(flow.traffic_class, now);
}

std::optional<CopyWay> Router::copy(TrafficClass traffic_class,
                                    uint8_t original,
                                    bool has_redundant,
                                    TimePoint now) const {
    if (base::is_low_delay(traffic_class)) {
        if (const auto to =
                paths_.selector().copy_destination(traffic_class, original, false, now)) {
            return CopyWay{*to, true};
        }
    }
    const auto to = has_redundant
                        ? paths_.selector().copy_destination(traffic_class, original, true, now)
                        : std::nullopt;
    return to ? std::optional(CopyWay{*to, false}) : std::nullopt;
}

}  // namespace continuo::routing
