// Choice of the path for each packet, and for copies of it (docs/PROTOCOL.md section 5.9).
#include "common/session/session.hpp"

#include <algorithm>
#include <bit>

namespace continuo::session {

using base::ByteWriter;
using base::Duration;
using base::index_of;
using base::PathMode;
using base::Striping;
using base::TimePoint;
using base::TrafficClass;
using flow::Flow;
using flow::FlowPaths;

namespace {

// Longest COPY frame: type, space, varint of 28 bits.
constexpr uint32_t kMaxCopyFrameBytes = 6;
// A path with less room for a body carries no copies.
constexpr uint32_t kMinCopyBodyBytes = 200;
// Classes without resequencing are not striped over paths whose delays differ by more.
constexpr Duration kUnorderedDifference = base::milliseconds(100);
// Flows passed over in the search for one that can share the datagram.
constexpr size_t kMaxPasses = 4;
// Flows passed over when they wait for the full socket of one path, before nothing is sent.
constexpr size_t kMaxPassesToSend = 64;
// Interval at which reserve paths are refreshed, so that their mappings do not expire.
constexpr Duration kKeepReady = base::seconds(15);
// For this long after the last packet; an idle node asks nothing.
constexpr Duration kReadyFor = base::seconds(60);
// Share of the count of flows per path that remains after each second.
constexpr double kKeptCount = 0.8;
// A low-delay flow treats round trips that differ by less as equal.
constexpr Duration kAlikeRtt = base::milliseconds(5);

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

void Session::count_mode(const Flow& flow, int change) {
    size_t& count = flows_by_mode_[static_cast<size_t>(flow.paths.mode)];
    count = static_cast<size_t>(static_cast<int64_t>(count) + change);
    wants_ready_paths_ = wants_ready_paths_ || flow.paths.mode != PathMode::Handover;
}

void Session::set_mode(Flow& flow, PathMode mode) {
    if (flow.paths.mode == mode) {
        return;
    }
    const bool is_attached = flow.owner == this && flow_at(flow.index) == &flow;
    if (is_attached) {
        count_mode(flow, -1);
    }
    unpin(flow, flow.traffic_class);
    flow.paths.mode = mode;
    if (is_attached) {
        count_mode(flow, 1);
    }
}

void Session::unpin(Flow& flow, TrafficClass traffic_class) {
    if (flow.paths.pinned != FlowPaths::kNone) {
        double& count = pinned_flows_[index_of(traffic_class)][flow.paths.pinned];
        count = std::max(count - 1.0, 0.0);
        flow.paths.pinned = FlowPaths::kNone;
    }
}

PathMask Session::spread(TrafficClass traffic_class, TimePoint now) {
    const Duration wait = classes_[index_of(traffic_class)].settings.resequence;
    return paths_.spread(wait == Duration{} ? kUnorderedDifference : wait, now);
}

// A flow stays on its path while that delivers. A new flow goes to the path with the fewest flows
// for its rate; a low-delay one prefers a path whose round trip is known and shortest.
uint8_t Session::pinned_path(Flow& flow, PathMask paths) {
    if (flow.paths.pinned != FlowPaths::kNone && (paths & mask_of(flow.paths.pinned)) != 0) {
        return flow.paths.pinned;
    }
    unpin(flow, flow.traffic_class);
    auto& counts = pinned_flows_[index_of(flow.traffic_class)];
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
    ++counts[best];
    flow.paths.pinned = best;
    return best;
}

// For a striped row: the path on which the next datagram arrives first; while too little is known,
// each path has its share. Datagrams under way on a path that was silent for the bound of the class
// are no longer waited for. False: no path takes it.
bool Session::choose_path(Way& way, TrafficClass traffic_class, TimePoint now) {
    auto path = static_cast<uint8_t>(std::countr_zero(way.paths));
    if (!std::has_single_bit(way.paths)) {
        const Duration bound = classes_[index_of(traffic_class)].settings.resequence;
        const PathMask usable = paths_.answering(way.paths, Duration{}, now);
        way.paths = usable | paths_.answering(way.paths, bound, now);
        Striper& striper = stripers_[static_cast<size_t>(way.row)];
        if (const auto soonest = paths_.soonest(usable, traffic_class, now)) {
            path = *soonest;
            striper.begin_anew();
            // No new datagrams use the other paths: those on the carrying paths reveal a loss.
            way.paths = paths_.carrying(way.paths, now) | mask_of(path);
        } else {
            path = striper.next(paths_.with_room(usable, traffic_class));
        }
    }
    const auto destination = paths_.destination_on(path, traffic_class, now);
    if (!destination) {
        return false;
    }
    way.destination = *destination;
    return true;
}

std::optional<Way> Session::way_of(Flow& flow, const packet::Packet& packet, TimePoint now) {
    const TrafficClass traffic_class = flow.traffic_class;
    Way way;
    std::optional<Destination> destination;
    if (flow_at(flow.index) == &flow &&
        (flow.paths.mode == PathMode::Flow || flow.paths.mode == PathMode::Packet)) {
        const Striping striping = classes_[index_of(traffic_class)].settings.striping;
        way.paths = spread(traffic_class, now);
        const auto row = row_of(packet, striping);
        if (way.paths != 0 && flow.paths.mode == PathMode::Flow) {
            destination = paths_.destination_on(pinned_path(flow, way.paths), traffic_class, now);
        } else if (way.paths != 0 && row) {
            way.row = *row;
            way.is_striped = choose_path(way, traffic_class, now);
        }
    }
    if (way.is_striped) {
        return way;
    }
    if (!destination) {
        destination = paths_.destination(traffic_class, now);
    }
    if (!destination) {
        return std::nullopt;
    }
    way.destination = *destination;
    return way;
}

std::optional<Way> Session::next_way(ClassState& state, TrafficClass traffic_class, TimePoint now) {
    const packet::Packet* next =
        has_spread_flows() && state.split_entry.empty() ? state.queue.peek() : nullptr;
    if (next != nullptr) {
        return way_of(*state.queue.peek_flow(), *next, now);
    }
    const auto destination = paths_.destination(traffic_class, now);
    return destination ? std::optional(Way{*destination}) : std::nullopt;
}

// A flow that waits for its path does not hold up the others.
std::optional<Way>
Session::sendable_way(ClassState& state, TrafficClass traffic_class, TimePoint now) {
    for (size_t passes = 0;; ++passes) {
        const auto way = next_way(state, traffic_class, now);
        if (way && way->destination.budget_bytes >= way->destination.mtu) {
            return way;
        }
        const size_t most = std::min<size_t>(kMaxPassesToSend, state.queue.flows());
        if (passes >= most || !has_spread_flows() || !state.queue.pass_turn()) {
            return std::nullopt;
        }
    }
}

// Whether the next packet in the queue can share a datagram on that path; passes over some flows
// that cannot.
bool Session::goes_along(const Way& way, ClassState& state, TimePoint now) {
    for (size_t passes = 0;; ++passes) {
        const packet::Packet* next = state.queue.peek();
        if (next == nullptr) {
            return false;
        }
        Flow& flow = *state.queue.peek_flow();
        const auto own = way_of(flow, *next, now);
        const bool is_alike =
            own && own->is_striped == way.is_striped &&
            (way.is_striped ? own->row == way.row : own->destination.path == way.destination.path);
        if (is_alike) {
            return true;
        }
        if (passes == kMaxPasses || !state.queue.pass_turn()) {
            return false;
        }
    }
}

std::optional<CopyWay>
Session::copy_way(TrafficClass traffic_class, const Way& way, TimePoint now) const {
    const uint8_t original = way.destination.path;
    if (base::is_low_delay(traffic_class)) {
        if (const auto to = paths_.copy_destination(traffic_class, original, false, now)) {
            return CopyWay{*to, true};
        }
    }
    if (flows_by_mode_[static_cast<size_t>(PathMode::Redundant)] == 0) {
        return std::nullopt;
    }
    const auto to = paths_.copy_destination(traffic_class, original, true, now);
    return to ? std::optional(CopyWay{*to, false}) : std::nullopt;
}

// Limits the draft so that its copy fits the copy's path.
void Session::leave_room(Draft& draft, const std::optional<CopyWay>& copy) const {
    if (!copy) {
        return;
    }
    const ClassSettings& settings = classes_[index_of(draft.header.traffic_class)].settings;
    const uint32_t outer = settings.max_bytes != 0
                               ? std::min<uint32_t>(settings.max_bytes, copy->destination.mtu)
                               : copy->destination.mtu;
    const uint32_t beside = outer_overhead(copy->destination.to.address) +
                            static_cast<uint32_t>(wire::kLongHeaderBytes) +
                            static_cast<uint32_t>(draft.epoch->sealer->tag_bytes()) +
                            kMaxCopyFrameBytes;
    if (outer >= beside + kMinCopyBodyBytes) {
        draft.body_limit = std::min(draft.body_limit, outer - beside);
    }
}

// `bytes`: approximate size of the original.
bool Session::may_copy(const CopyWay& copy, size_t count, size_t bytes, TimePoint now) {
    bool is_redundant = false;
    for (size_t i = 0; i < count; ++i) {
        const Flow& flow = *scratch_.packets[i].item.flow;
        is_redundant = is_redundant || flow.paths.mode == PathMode::Redundant;
    }
    if (is_redundant) {
        return true;
    }
    if (!copy.is_doubt) {
        return false;
    }
    if (!copy_budget_.take(bytes, now)) {
        ++counters_.copies_unsent;
        return false;
    }
    return true;
}

// Encodes the packets of the datagram sealed last anew, for another path.
void Session::send_copy(const wire::Copy& original,
                        ClassState& state,
                        size_t count,
                        const CopyWay& copy,
                        TransmitBatch& batch,
                        TimePoint now) {
    auto draft = start_draft(copy.destination, original.space.traffic_class, batch);
    if (!draft) {
        return;
    }
    elision::Encoder& encoder = draft->epoch->encoder;
    encoder.begin_datagram(draft->space_number, draft->space->next, now,
                           elision::Setting::Forbidden);
    ByteWriter body(draft->datagram.subspan(draft->header.size(), draft->body_limit));
    original.serialize(body);
    if (scratch_.order.count > 0) {
        scratch_.order.serialize(body);
    }
    for (size_t i = 0; i < count; ++i) {
        scratch_.packets[i].is_announced = false;  // only sets announce a flow for good
    }
    if (!encode(*draft, state, count, body)) {
        encoder.abort_datagram();
        ++counters_.copies_unsent;
        return;
    }
    encoder.end_datagram();
    finish_draft(*draft, body.size(), batch, now);
    ++counters_.copies_sent;
}

void Session::send_piece_copy(const wire::Copy& original,
                              const wire::Fragment& piece,
                              const CopyWay& copy,
                              TransmitBatch& batch,
                              TimePoint now) {
    auto draft = start_draft(copy.destination, original.space.traffic_class, batch);
    if (!draft) {
        return;
    }
    ByteWriter body(draft->datagram.subspan(draft->header.size(), draft->body_limit));
    original.serialize(body);
    piece.serialize(body);
    if (!body.ok()) {
        ++counters_.copies_unsent;
        return;
    }
    elision::Encoder& encoder = draft->epoch->encoder;
    encoder.begin_datagram(draft->space_number, draft->space->next, now,
                           elision::Setting::Forbidden);
    encoder.end_datagram();
    finish_draft(*draft, body.size(), batch, now);
    ++counters_.copies_sent;
}

void Session::fade_pinned_flows() {
    if (has_spread_flows()) {
        for (auto& counts : pinned_flows_) {
            for (double& count : counts) {
                count *= kKeptCount;
            }
        }
    }
}

void Session::note_use(TimePoint now) {
    wants_ready_paths_ = wants_ready_paths_ || !is_used(now);
    packets_at_ = now;
}

bool Session::is_used(TimePoint now) const {
    return now - packets_at_ <= kReadyFor;
}

void Session::keep_paths_ready(TimePoint now) {
    const size_t handover = flows_by_mode_[static_cast<size_t>(PathMode::Handover)];
    if (settings_.role == Role::Node && attached_ > handover) {
        paths_.keep_ready(kKeepReady, now);
    }
}

}  // namespace continuo::session
