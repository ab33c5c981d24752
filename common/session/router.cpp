#include "common/session/router.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace continuo::session {

using base::Duration;
using base::PathMode;
using base::Striping;
using base::TimePoint;
using base::TrafficClass;
using flow::Flow;

namespace {

// Classes without resequencing are not spread over paths whose delays differ by more.
constexpr Duration kUnorderedDifference = base::milliseconds(100);
// A low-delay flow treats round trips that differ by less as equal.
constexpr Duration kAlikeRtt = base::milliseconds(5);

// Fractions of the square roots of the first 16 primes, in units of 2^-64.
constexpr std::array<uint64_t, wire::kMaxPaths> kRoots = {
    0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
    0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179,
    0xcbbb9d5dc1059ed8, 0x629a292a367cd507, 0x9159015a3070dd17, 0x152fecd8f70e5939,
    0x67332667ffc00b31, 0x8eb44a8768581511, 0xdb0c2e0d64f98fa7, 0x47b5481dbefa4fa4};

// A hash of flow and path, in (0, 1). Consecutive flows are spread evenly over all paths together
// (Kronecker's sequence; Weyl 1916), so that few flows share as many do. Independent hashes would
// put all of six flows on one of two paths in 3 % of cases.
double hash_of(uint32_t flow_index, uint8_t path) {
    constexpr unsigned kMantissaBits = 53;
    const uint64_t point = (uint64_t{flow_index} + 1) * kRoots[path];
    return std::ldexp(static_cast<double>(point >> (64 - kMantissaBits)) + 0.5, -53);
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

// The row that the packet is striped in; nothing: it takes the active path.
std::optional<StripeRow> row_of(const packet::Packet& packet, Striping striping) {
    if (striping == Striping::Packet) {
        return StripeRow::Data;
    }
    if (is_pure_ack(packet)) {
        return striping == Striping::Data ? std::nullopt : std::optional(StripeRow::Acks);
    }
    return striping == Striping::Ack ? std::nullopt : std::optional(StripeRow::Data);
}

}  // namespace

PathMask Router::spread(const ClassSettings& settings, TimePoint now) const {
    const Duration wait = settings.resequence;
    return paths_.spread(wait == Duration{} ? kUnorderedDifference : wait, now);
}

// Those of `paths` with the shortest round trips; all while none is known.
PathMask Router::fastest(PathMask paths) const {
    const auto rtt_of = [this](unsigned left) {
        const Duration rtt =
            paths_.path(static_cast<uint8_t>(std::countr_zero(left))).smoothed_rtt();
        return rtt == Duration{} ? Duration::max() : rtt;
    };
    Duration shortest = Duration::max();
    for (unsigned left = paths; left != 0; left &= left - 1) {
        shortest = std::min(shortest, rtt_of(left));
    }
    PathMask mask = 0;
    for (unsigned left = paths; left != 0; left &= left - 1) {
        if (rtt_of(left) - kAlikeRtt <= shortest) {
            mask |= mask_of(static_cast<uint8_t>(std::countr_zero(left)));
        }
    }
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
    const PathWeights weights = weights_of(paths_, mask);
    uint8_t best = 0;
    double highest = -1;
    for (unsigned left = mask; left != 0; left &= left - 1) {
        const auto index = static_cast<uint8_t>(std::countr_zero(left));
        const double score = -weights[index] / std::log(hash_of(flow.index, index));
        if (score > highest) {
            highest = score;
            best = index;
        }
    }
    return best;
}

std::optional<Way> Router::route(TrafficClass traffic_class, TimePoint now) const {
    const auto destination = paths_.destination(traffic_class, now);
    return destination ? std::optional(Way{*destination}) : std::nullopt;
}

std::optional<Way> Router::route(const Flow& flow,
                                 const packet::Packet& packet,
                                 const ClassSettings& settings,
                                 TimePoint now) const {
    if (flow.paths.mode != PathMode::Flow && flow.paths.mode != PathMode::Packet) {
        return route(flow.traffic_class, now);
    }
    const PathMask paths = spread(settings, now);
    const auto row = row_of(packet, settings.striping);
    std::optional<Way> way;
    if (paths != 0 && flow.paths.mode == PathMode::Flow) {
        const auto destination =
            paths_.destination_on(path_of(flow, paths), flow.traffic_class, now);
        if (destination) {
            way.emplace();
            way->destination = *destination;
            way->is_pinned = true;
        }
    } else if (paths != 0 && row) {
        way.emplace();
        way->is_striped = true;
        way->row = *row;
        way->paths = paths;
    }
    return way ? way : route(flow.traffic_class, now);
}

std::optional<CopyWay> Router::copy(TrafficClass traffic_class,
                                    uint8_t original,
                                    bool has_redundant,
                                    TimePoint now) const {
    if (base::is_low_delay(traffic_class)) {
        if (const auto to = paths_.copy_destination(traffic_class, original, false, now)) {
            return CopyWay{*to, true};
        }
    }
    const auto to =
        has_redundant ? paths_.copy_destination(traffic_class, original, true, now) : std::nullopt;
    return to ? std::optional(CopyWay{*to, false}) : std::nullopt;
}

}  // namespace continuo::session
