#include "common/receiving/delivery.hpp"

#include "common/flow/attribution.hpp"
#include "common/packet/rewrite.hpp"

#include <algorithm>
#include <cstring>

namespace continuo::receiving {

using base::DropReason;
using base::Duration;
using base::MutableByteView;
using base::TimePoint;
using flow::Flow;
using path::Path;
using path::Role;
using reception::ReceivedMembers;
using session::FlowOpening;
using session::SessionCore;
using session::SessionFlows;

namespace {

// The resequencer's memory is freed when it was not needed for this long.
constexpr Duration kTrimAfter = base::seconds(30);

}  // namespace

Delivery::Delivery(SessionCore& core)
    : core_(core)
    , settings_(core.settings)
    , host_(core.host)
    , scratch_(core.scratch)
    , drops_(core.drops)
    , flows_(core.flows)
    , resequencer_(core.settings.memory) {}

void Delivery::deliver(const Opened& opened, const BodyFacts& facts, TimePoint now) {
    const wire::Order* const order = facts.order ? &*facts.order : nullptr;
    scratch_.members.clear();
    Ordering ordering{order};
    for (const elision::DecodedEntry& entry : opened.epoch->decoder.entries()) {
        const size_t inner = inner_bytes(entry);
        Flow* flow = deliver_entry(opened, entry, ordering, now);
        if (flow == nullptr) {
            continue;
        }
        core_.counters.inner_bytes_received += inner;
        scratch_.members.add(*flow, static_cast<uint32_t>(inner));
    }
    for (size_t i = 0; order != nullptr && i < order->count; ++i) {
        deliver_held(order->places[i].index, now);
    }
    attribute(opened, facts);
}

// A flow's packets in this datagram share one place. The resequencer gets it once the flow is
// known: a late datagram may belong to the flow that had the index before.
bool Delivery::is_held(const Opened& opened,
                       const elision::DecodedEntry& entry,
                       Flow& flow,
                       const packet::HeaderFields& fields,
                       Ordering& ordering,
                       TimePoint now) {
    const wire::Order* const order = ordering.order;
    if (order == nullptr || flows_.at(entry.index) != &flow) {
        return false;
    }
    const wire::Order::Place* const place = order->find(entry.index);
    if (place == nullptr) {
        return false;
    }
    const Duration bound =
        settings_.classes[base::index_of(opened.header.traffic_class)].resequence;
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

void Delivery::deliver_held(uint32_t index, TimePoint now) {
    while (Resequencer::Held* held = resequencer_.take(index, now)) {
        host_.deliver(core_.session, *held->flow, held->fields, held->payload, now);
        resequencer_.done(*held);
    }
}

bool Delivery::deliver_due(TimePoint now) {
    bool is_any = false;
    while (Resequencer::Held* held = resequencer_.take_due(now)) {
        host_.deliver(core_.session, *held->flow, held->fields, held->payload, now);
        resequencer_.done(*held);
        is_any = true;
    }
    return is_any;
}

void Delivery::on_time(TimePoint now) {
    resequencer_.trim(now - std::min<Duration>(kTrimAfter, now.time_since_epoch()));
}

void Delivery::forget(uint32_t index) {
    drops_.add(DropReason::QueueFull, resequencer_.forget(index));
}

// Delivery may have ended a flow, and detach() removed it. Counters are looked up only now.
void Delivery::attribute(const Opened& opened, const BodyFacts& facts) {
    const Path& path = core_.paths.path(opened.header.path);
    uint64_t& overhead =
        core_.counters.overhead[base::index_of(opened.header.traffic_class)].received;
    auto& shares = scratch_.shares;
    shares.clear();
    for (const ReceivedMembers::Member& member : scratch_.members.all()) {
        if (member.flow != nullptr && member.flow->counters != nullptr &&
            shares.size() < flow::kMaxAttributionMembers) {
            shares.push_back({&member.flow->counters->counters, member.inner_bytes});
            if (settings_.role == Role::Snapt) {
                SessionFlows::count_way(*member.flow, path, core_.counters.handovers,
                                        member.packets, 0);
            }
        }
    }
    scratch_.members.clear();
    // The cost of pieces is booked as overhead until their packet is whole.
    overhead += facts.pieces_outer_bytes;
    const uint32_t own = opened.outer_bytes() - facts.pieces_outer_bytes;
    if (shares.empty()) {
        overhead += own;
        return;
    }
    overhead -= std::min<uint64_t>(overhead, facts.split_outer_bytes);
    const auto direction =
        settings_.role == Role::Node ? flow::Direction::Down : flow::Direction::Up;
    flow::attribute(shares, own + facts.split_outer_bytes, direction);
}

Flow* Delivery::deliver_entry(const Opened& opened,
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
        if (!packet::rewrite_node_address(whole, settings_.receives_side(),
                                          settings_.node_address(version), false)) {
            drops_.add(DropReason::MalformedPacket);
            return nullptr;
        }
        return host_.deliver_whole(core_.session, opened.header.traffic_class, whole, now);
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
        host_.deliver(core_.session, *flow, fields, entry.payload, now);
    }
    return flow;
}

// Writes the node's address to `fields`. Null: the entry is refused.
Flow* Delivery::flow_of_entry(const Opened& opened,
                              const elision::DecodedEntry& entry,
                              packet::HeaderFields& fields,
                              TimePoint now) {
    const bool is_up = settings_.receives_side() == packet::NodeSide::Source;
    base::IpAddress& node = is_up ? fields.source : fields.destination;
    const base::IpAddress& remote = is_up ? fields.destination : fields.source;
    node = settings_.node_address(remote.version);
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
    Flow* flow = flows_.at(entry.index);
    const bool is_known = flow != nullptr && flow->tuple == opening.tuple;
    if (entry.kind == elision::EntryKind::Elided) {
        // A late packet of the flow that had this index before does not belong to the new one.
        const bool is_free = flow == nullptr;
        flow = is_known ? flow : host_.find_flow(core_.session, opening.tuple);
        // The flow ended here first, or its OPEN was refused for lack of room; packets back or
        // whole ones may have made it known by its tuple since.
        if (is_free && (flow == nullptr || !flows_.owns(*flow))) {
            flow = host_.on_flow_opened(core_.session, opening, now);
        }
    } else if (!is_known ||
               (entry.open.continues && flow->traffic_class != opened.header.traffic_class)) {
        flow = host_.on_flow_opened(core_.session, opening, now);
    }
    if (flow != nullptr && flow->traffic_class != opening.traffic_class) {
        host_.on_other_class(core_.session, *flow, opening.traffic_class, now);
    }
    return flow;
}

void Delivery::open_flows(const Opened& opened, TimePoint now) {
    for (const elision::DecodedEntry& entry : opened.epoch->decoder.entries()) {
        if (entry.kind == elision::EntryKind::Opened || entry.kind == elision::EntryKind::Context) {
            packet::HeaderFields fields = entry.fields;
            flow_of_entry(opened, entry, fields, now);
        }
    }
}

}  // namespace continuo::receiving
