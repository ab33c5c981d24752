#include "common/session/router.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace continuo::session {

using base::Duration;
using base::index_of;
using base::PathMode;
using base::Striping;
using base::TimePoint;
using base::TrafficClass;
using flow::Flow;
using flow::FlowPaths;

namespace {

// Classes that do not wait for order are not striped over paths that differ more.
constexpr Duration kUnorderedDifference = base::milliseconds(100);
// Paths in reserve are heard so often, before their mappings end.
constexpr Duration kKeepReady = base::seconds(15);
// As long after the last packet: an idle node asks nothing.
constexpr Duration kReadyFor = base::seconds(60);
// Part of the flows that a path was given, counted after another second.
constexpr double kKeptCount = 0.8;
// Round trips that differ less are alike for a flow of a low-delay class.
constexpr Duration kAlikeRtt = base::milliseconds(5);

// A TCP segment without payload; of one that cannot be told, false.
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

// The row that the packet is striped in; none: it takes the active path.
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

void Router::count(const Flow& flow, int change) {
    size_t& flows = by_mode_[static_cast<size_t>(flow.paths.mode)];
    flows = static_cast<size_t>(static_cast<int64_t>(flows) + change);
    wants_ready_paths_ = wants_ready_paths_ || flow.paths.mode != PathMode::Handover;
}

void Router::unpin(Flow& flow, TrafficClass traffic_class) {
    if (flow.paths.pinned != FlowPaths::kNone) {
        double& flows = pinned_flows_[index_of(traffic_class)][flow.paths.pinned];
        flows = std::max(flows - 1.0, 0.0);
        flow.paths.pinned = FlowPaths::kNone;
    }
}

PathMask Router::spread(const ClassSettings& settings, TimePoint now) const {
    const Duration wait = settings.resequence;
    return paths_.spread(wait == Duration{} ? kUnorderedDifference : wait, now);
}

// A flow stays where it is while that path delivers. A new one goes where fewest are for the rate
// of the path; one of a low-delay class rather where the round trip is known and shortest.
uint8_t Router::path_for(const Flow& flow, PathMask paths) const {
    const uint8_t pinned = flow.paths.pinned;
    if (pinned != FlowPaths::kNone && (paths & mask_of(pinned)) != 0) {
        return pinned;
    }
    const auto& counts = pinned_flows_[index_of(flow.traffic_class)];
    const PathWeights weights = weights_of(paths_, paths);
    const auto load = [&](uint8_t index) { return (counts[index] + 1.0) / weights[index]; };
    const auto is_better = [&](uint8_t index, uint8_t other) {
        const Duration own = paths_.path(index).smoothed_rtt();
        const Duration theirs = paths_.path(other).smoothed_rtt();
        const Duration difference = own > theirs ? own - theirs : theirs - own;
        if (base::is_low_delay(flow.traffic_class) &&
            (own == Duration{}) != (theirs == Duration{})) {
            return theirs == Duration{};  // whose round trip is not known
        }
        if (base::is_low_delay(flow.traffic_class) && difference > kAlikeRtt) {
            return own < theirs;
        }
        return load(index) < load(other);
    };
    auto best = static_cast<uint8_t>(std::countr_zero(paths));
    for (uint8_t index = best; index < wire::kMaxPaths; ++index) {
        if ((paths & mask_of(index)) != 0 && is_better(index, best)) {
            best = index;
        }
    }
    return best;
}

// The path of a striped row on which the next datagram is there first; while too little is known,
// each has its share. What is under way on a path that has been silent for the bound of the class
// is not waited for any more. False: none takes it.
bool Router::choose_path(Way& way,
                         TrafficClass traffic_class,
                         const ClassSettings& settings,
                         TimePoint now) const {
    auto path = static_cast<uint8_t>(std::countr_zero(way.paths));
    if (!std::has_single_bit(way.paths)) {
        const PathMask usable = paths_.answering(way.paths, Duration{}, now);
        way.paths = usable | paths_.answering(way.paths, settings.resequence, now);
        if (const auto soonest = paths_.soonest(usable, traffic_class, now)) {
            path = *soonest;
            way.shares = 0;
            // Nothing comes by the others: a loss is known by what follows on those that carry.
            way.paths = paths_.carrying(way.paths, now) | mask_of(path);
        } else {
            way.shares = paths_.with_room(usable, traffic_class);
            path = stripers_[static_cast<size_t>(way.row)].next(way.shares);
        }
    }
    const auto destination = paths_.destination_on(path, traffic_class, now);
    if (!destination) {
        return false;
    }
    way.destination = *destination;
    return true;
}

std::optional<Way> Router::usual_way(TrafficClass traffic_class, TimePoint now) const {
    const auto destination = paths_.destination(traffic_class, now);
    return destination ? std::optional(Way{*destination}) : std::nullopt;
}

std::optional<Way> Router::way_of(const Flow& flow,
                                  const packet::Packet& packet,
                                  const ClassSettings& settings,
                                  TimePoint now) const {
    const TrafficClass traffic_class = flow.traffic_class;
    const PathMode mode = flow.paths.mode;
    Way way;
    if (mode == PathMode::Flow || mode == PathMode::Packet) {
        way.paths = spread(settings, now);
    }
    if (way.paths != 0 && mode == PathMode::Flow) {
        const uint8_t path = path_for(flow, way.paths);
        if (const auto destination = paths_.destination_on(path, traffic_class, now)) {
            way.destination = *destination;
            way.is_pinned = true;
            return way;
        }
    } else if (way.paths != 0) {
        if (const auto row = row_of(packet, settings.striping)) {
            way.row = *row;
            way.is_striped = choose_path(way, traffic_class, settings, now);
        }
    }
    return way.is_striped ? std::optional(way) : usual_way(traffic_class, now);
}

Way Router::next_in_row(Way way,
                        TrafficClass traffic_class,
                        const ClassSettings& settings,
                        TimePoint now) const {
    choose_path(way, traffic_class, settings, now);
    return way;
}

std::optional<CopyWay>
Router::copy_way(TrafficClass traffic_class, const Way& way, TimePoint now) const {
    const uint8_t original = way.destination.path;
    if (base::is_low_delay(traffic_class)) {
        if (const auto to = paths_.copy_destination(traffic_class, original, false, now)) {
            return CopyWay{*to, true};
        }
    }
    if (!copies_all()) {
        return std::nullopt;
    }
    const auto to = paths_.copy_destination(traffic_class, original, true, now);
    return to ? std::optional(CopyWay{*to, false}) : std::nullopt;
}

void Router::commit(Flow& flow, const Way& way) {
    const uint8_t path = way.destination.path;
    if (!way.is_pinned || flow.paths.pinned == path) {
        return;
    }
    unpin(flow, flow.traffic_class);
    ++pinned_flows_[index_of(flow.traffic_class)][path];
    flow.paths.pinned = path;
}

void Router::on_sent(const Way& way, size_t outer_bytes) {
    if (way.is_striped) {
        stripers_[static_cast<size_t>(way.row)].on_sent(way.destination.path, way.shares, way.paths,
                                                        weights_of(paths_, way.paths), outer_bytes);
    }
}

void Router::on_packets(TimePoint now) {
    wants_ready_paths_ = wants_ready_paths_ || !is_used(now);
    packets_at_ = now;
}

bool Router::is_used(TimePoint now) const {
    return now - packets_at_ <= kReadyFor;
}

void Router::keep_ready(TimePoint now) {
    if (role_ == Role::Node && uses_several_paths()) {
        paths_.keep_ready(kKeepReady, now);
    }
}

void Router::keep_ready_for_new_use(TimePoint now) {
    if (std::exchange(wants_ready_paths_, false)) {
        keep_ready(now);
    }
}

void Router::on_housekeeping(TimePoint now) {
    if (is_used(now) || copies_all()) {
        keep_ready(now);
    }
    if (spreads()) {
        for (auto& counts : pinned_flows_) {
            for (double& flows : counts) {
                flows *= kKeptCount;
            }
        }
    }
}

}  // namespace continuo::session
