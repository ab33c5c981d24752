// Packets of a received datagram: restored, put in order, delivered to the daemon, counted.
#include "common/flow/counter_values.hpp"
#include "common/packet/rewrite.hpp"
#include "common/session/session.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace continuo::session {

using base::DropReason;
using base::Duration;
using base::MutableByteView;
using base::TimePoint;
using flow::Flow;

namespace {

size_t inner_bytes(const elision::DecodedEntry& entry) {
    switch (entry.kind) {
    case elision::EntryKind::Context:
        return 0;
    case elision::EntryKind::Whole:
        return entry.payload.size();
    default:
        return entry.payload.size() + entry.fields.header_bytes();
    }
}

}  // namespace

// Charges the packets of the datagram to the session's expansion budget. As many bytes as were
// received are free, and compressed sections are already paid for. False: the budget is used up.
// The body is then void, so that the sender and the resequencer know that nothing was delivered.
bool Session::pays_for_packets(const Opened& opened, TimePoint now) {
    if (settings_.role != Role::Snapt) {
        return true;
    }
    size_t inner = 0;
    for (const elision::DecodedEntry& entry : opened.epoch->decoder.entries()) {
        inner += inner_bytes(entry);
    }
    if (expansion_.spend(inner - std::min(paid_bytes_, inner), now)) {
        return true;
    }
    drops_.add(DropReason::InflationLimit);
    return false;
}

void Session::deliver_entries(const Opened& opened, const wire::Order* order, TimePoint now) {
    const auto entries = opened.epoch->decoder.entries();
    const uint32_t own = outer_bytes_of(opened);
    scratch_.members.clear();
    Ordering ordering{order};
    for (const elision::DecodedEntry& entry : entries) {
        const size_t inner = inner_bytes(entry);
        Flow* flow = deliver_entry(opened, entry, ordering, now);
        if (flow == nullptr) {
            continue;
        }
        counters_.inner_bytes_received += inner;
        scratch_.members.add(*flow, static_cast<uint32_t>(inner));
    }
    for (size_t i = 0; order != nullptr && i < order->count; ++i) {
        deliver_held(order->places[i].index, now);
    }
    attribute_received(opened.header.path, own,
                       counters_.overhead[base::index_of(opened.header.traffic_class)].received);
}

// A flow's packets in this datagram share one place. The resequencer gets it once the flow is
// known: a late datagram may belong to the flow that had the index before.
bool Session::is_held(const Opened& opened,
                      const elision::DecodedEntry& entry,
                      Flow& flow,
                      const packet::HeaderFields& fields,
                      Ordering& ordering,
                      TimePoint now) {
    const wire::Order* const order = ordering.order;
    if (order == nullptr || flow_at(entry.index) != &flow) {
        return false;
    }
    const wire::Order::Place* const place = order->find(entry.index);
    if (place == nullptr) {
        return false;
    }
    const Duration bound =
        classes_[base::index_of(opened.header.traffic_class)].settings.resequence;
    const uint32_t bit = 1U << (place - order->places.data());
    if ((ordering.met & bit) == 0) {
        ordering.met |= bit;
        const bool waits =
            resequencer_.arrive(*place, opened.header.path, order->paths, bound, now);
        ordering.waiting |= waits ? bit : 0U;
    }
    return (ordering.waiting & bit) != 0 &&
           resequencer_.hold(*place, flow, fields, entry.payload, bound, now);
}

void Session::deliver_held(uint32_t index, TimePoint now) {
    while (Resequencer::Held* held = resequencer_.take(index, now)) {
        host_.deliver(*this, *held->flow, held->fields, held->payload, now);
        resequencer_.done(*held);
    }
}

// True when there was something to deliver.
bool Session::deliver_due(TimePoint now) {
    bool is_any = false;
    while (Resequencer::Held* held = resequencer_.take_due(now)) {
        host_.deliver(*this, *held->flow, held->fields, held->payload, now);
        resequencer_.done(*held);
        is_any = true;
    }
    return is_any;
}

// Delivery may have ended a flow, and detach() removed it. Counters are looked up only now.
void Session::attribute_received(uint8_t path, uint32_t own, uint64_t& overhead) {
    auto& shares = scratch_.shares;
    shares.clear();
    for (const ReceivedMembers::Member& member : scratch_.members.all()) {
        if (member.flow != nullptr && member.flow->counters != nullptr &&
            shares.size() < flow::kMaxAttributionMembers) {
            shares.push_back({&member.flow->counters->counters, member.inner_bytes});
            count_way(*member.flow, path, member.packets, 0);
        }
    }
    scratch_.members.clear();
    // The cost of pieces is booked as overhead until their packet is whole.
    overhead += pieces_outer_bytes_;
    own -= pieces_outer_bytes_;
    if (shares.empty()) {
        overhead += own;
        return;
    }
    overhead -= std::min<uint64_t>(overhead, split_outer_bytes_);
    const auto direction =
        settings_.role == Role::Node ? flow::Direction::Down : flow::Direction::Up;
    flow::attribute(shares, own + split_outer_bytes_, direction);
}

// Records the path that `packets` packets of the flow took; at SNAPT only, which keeps the records.
// Moves of the session count for a flow from its first packet on. `waited_us`: of the packets
// together, here.
void Session::count_way(Flow& flow, uint8_t path, uint32_t packets, uint64_t waited_us) const {
    if (settings_.role != Role::Snapt || packets == 0) {
        return;
    }
    flow::LiveCounters& counters = flow.counters->counters;
    const auto moves = static_cast<uint32_t>(counters_.handovers);
    const uint32_t seen = std::exchange(flow.paths.moves_seen, moves);
    if (seen != moves && seen != flow::FlowPaths::kNotSeen) {
        flow::add(counters.handovers, moves - seen);
    }
    const recovery::RttEstimator& rtt = paths_.path(path).feedback().rtt();
    if (rtt.has_sample()) {
        const auto one_way_us = static_cast<uint64_t>(base::to_us(rtt.smoothed() / 2));
        flow::count_delay(counters, one_way_us + waited_us / packets,
                          static_cast<uint64_t>(base::to_us(rtt.variation() / 2)), packets);
    }
}

Flow* Session::deliver_entry(const Opened& opened,
                             const elision::DecodedEntry& entry,
                             Ordering& ordering,
                             TimePoint now) {
    if (entry.kind == elision::EntryKind::Whole) {
        if (entry.payload.empty() || entry.payload.size() > packet::kLargeBufferBytes) {
            drops_.add(DropReason::MalformedPacket);
            return nullptr;
        }
        const MutableByteView whole(scratch_.whole.get(), entry.payload.size());
        std::memcpy(whole.data(), entry.payload.data(), whole.size());
        const auto version = whole[0] >> 4 == 6 ? base::IpVersion::V6 : base::IpVersion::V4;
        if (!packet::rewrite_node_address(whole, receives_side(), node_address(version), false)) {
            drops_.add(DropReason::MalformedPacket);
            return nullptr;
        }
        return host_.deliver_whole(*this, opened.header.traffic_class, whole, now);
    }
    packet::HeaderFields fields = entry.fields;
    Flow* flow = flow_of_entry(opened, entry, fields, now);
    if (flow == nullptr) {
        drops_.add(DropReason::FlowLimit);
        return nullptr;
    }
    if (entry.kind == elision::EntryKind::Context) {
        return flow;
    }
    if (!is_held(opened, entry, *flow, fields, ordering, now)) {
        host_.deliver(*this, *flow, fields, entry.payload, now);
    }
    return flow;
}

// Writes the node's address to `fields`. Null: the entry is refused.
Flow* Session::flow_of_entry(const Opened& opened,
                             const elision::DecodedEntry& entry,
                             packet::HeaderFields& fields,
                             TimePoint now) {
    const bool is_up = receives_side() == packet::NodeSide::Source;
    base::IpAddress& node = is_up ? fields.source : fields.destination;
    const base::IpAddress& remote = is_up ? fields.destination : fields.source;
    node = node_address(remote.version);
    FlowOpening opening;
    opening.index = entry.index;
    opening.traffic_class = opened.header.traffic_class;
    opening.open = entry.open;
    opening.fields = &fields;
    opening.has_packet = entry.kind != elision::EntryKind::Context;
    const bool is_echo =
        fields.protocol == packet::Protocol::Icmp || fields.protocol == packet::Protocol::IcmpV6;
    opening.tuple.local = node;
    opening.tuple.remote = remote;
    opening.tuple.local_port = is_up || is_echo ? fields.source_port : fields.destination_port;
    opening.tuple.remote_port =
        is_echo ? uint16_t{0} : (is_up ? fields.destination_port : fields.source_port);
    opening.tuple.protocol = fields.protocol;
    Flow* flow = flow_at(entry.index);
    const bool is_known = flow != nullptr && flow->tuple == opening.tuple;
    if (entry.kind == elision::EntryKind::Elided) {
        // A late packet of the flow that had this index before does not belong to the new one.
        const bool is_free = flow == nullptr;
        flow = is_known ? flow : host_.find_flow(*this, opening.tuple);
        // The flow ended here first, or its OPEN was refused for lack of room; packets back or
        // whole ones may have made it known by its tuple since.
        if (is_free && (flow == nullptr || flow->owner != this)) {
            flow = host_.on_flow_opened(*this, opening, now);
        }
    } else if (!is_known ||
               (entry.open.continues && flow->traffic_class != opened.header.traffic_class)) {
        flow = host_.on_flow_opened(*this, opening, now);
    }
    if (flow != nullptr && flow->traffic_class != opening.traffic_class) {
        host_.on_other_class(*this, *flow, opening.traffic_class, now);
    }
    return flow;
}

// The original's packets came before, as a copy, which opens no flow that it carries whole: without
// this, such a flow would not be opened at all.
void Session::open_flows(const Opened& opened, TimePoint now) {
    for (const elision::DecodedEntry& entry : opened.epoch->decoder.entries()) {
        if (entry.kind == elision::EntryKind::Opened || entry.kind == elision::EntryKind::Context) {
            packet::HeaderFields fields = entry.fields;
            flow_of_entry(opened, entry, fields, now);
        }
    }
}

}  // namespace continuo::session
