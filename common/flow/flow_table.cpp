#include "common/flow/flow_table.hpp"

#include "common/base/assert.hpp"
#include "common/packet/header_fields.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace continuo::flow {
namespace {

using packet::FiveTuple;
using packet::Protocol;

constexpr uint16_t kDnsPort = 53;

uint64_t mix(uint64_t value) {
    value = (value ^ (value >> 32)) * 0xD6E8FEB86659FD93U;
    return value ^ (value >> 32);
}

uint64_t fold(uint64_t hash, const base::IpAddress& address) {
    uint64_t first = 0;
    std::memcpy(&first, address.octets.data(), sizeof first);
    hash = mix(hash ^ first);
    if (!address.is_v4()) {
        std::memcpy(&first, address.octets.data() + sizeof first, sizeof first);
        hash = mix(hash ^ first);
    }
    return hash;
}

base::Duration idle_timeout(const Flow& flow) {
    if (flow.state == FlowState::Refused) {
        return timeout::kRefused;
    }
    switch (flow.tuple.protocol) {
    case Protocol::Tcp:
        return flow.state == FlowState::Open && flow.tcp.established ? timeout::kTcpEstablished
                                                                     : timeout::kTcpTransitory;
    case Protocol::Udp:
        if (flow.tuple.remote_port == kDnsPort) {
            return timeout::kDns;
        }
        return flow.state == FlowState::Opening ? timeout::kUdpUnanswered : timeout::kUdp;
    case Protocol::Icmp:
    case Protocol::IcmpV6:
        break;
    }
    return timeout::kIcmpEcho;
}

bool starts_anew(const Flow& flow, Direction direction, uint8_t tcp_flags) {
    namespace flag = packet::tcp_flag;
    return flow.tuple.protocol == Protocol::Tcp && flow.state == FlowState::Closing &&
           direction == Direction::Up && (tcp_flags & (flag::kSyn | flag::kAck)) == flag::kSyn;
}

void advance_tcp(Flow& flow, Direction direction, uint8_t tcp_flags) {
    namespace flag = packet::tcp_flag;
    TcpTracking& tcp = flow.tcp;
    if ((tcp_flags & flag::kRst) != 0) {
        tcp.reset = true;
    } else if ((tcp_flags & (flag::kSyn | flag::kAck)) == flag::kAck &&
               flow.state == FlowState::Open) {
        tcp.established = true;
    }
    if ((tcp_flags & flag::kFin) != 0) {
        (direction == Direction::Up ? tcp.fin_up : tcp.fin_down) = true;
    }
    if (tcp.reset || (tcp.fin_up && tcp.fin_down)) {
        flow.state = FlowState::Closing;
    }
}

}  // namespace

bool is_favoured(const FiveTuple& tuple, base::TrafficClass traffic_class) {
    return tuple.protocol == Protocol::Tcp || traffic_class == base::TrafficClass::LtLd ||
           (tuple.protocol == Protocol::Udp && tuple.remote_port == kDnsPort);
}

uint64_t keyed_hash(const FiveTuple& tuple, uint64_t seed) {
    const uint64_t rest = uint64_t{tuple.local_port} << 32 | uint64_t{tuple.remote_port} << 16 |
                          uint64_t{static_cast<uint8_t>(tuple.protocol)};
    return fold(fold(mix(seed ^ rest), tuple.local), tuple.remote);
}

FlowTable::FlowTable(size_t max_flows, SlotSource& slots, const FlowTableOptions& options)
    : slots_(slots)
    , options_(options)
    , max_flows_(max_flows)
    , buckets_(std::bit_ceil(std::max<size_t>(max_flows, 1)), nullptr)
    , next_flow_id_(options.first_flow_id) {}

FlowTable::~FlowTable() {
    for_each([this](Flow& flow) {
        leave_shares(flow);
        slots_.release(flow.counters, Cause::SessionEnd);
    });
}

void FlowTable::join_shares(Flow& flow) {
    all_.add(flow);
    if (flow.share != nullptr) {
        flow.share->add(flow);
    }
}

void FlowTable::leave_shares(Flow& flow) {
    all_.remove(flow);
    if (flow.share != nullptr) {
        flow.share->remove(flow);
    }
}

void FlowTable::set_share(Flow& flow, FlowShare& share) {
    if (flow.share != &share) {
        if (flow.share != nullptr) {
            flow.share->remove(flow);
        }
        flow.share = &share;
        share.add(flow);
    }
}

void FlowTable::set_standing(Flow& flow, bool gives_way, bool is_favoured) {
    if (flow.gives_way != gives_way || flow.is_favoured != is_favoured) {
        leave_shares(flow);
        flow.gives_way = gives_way;
        flow.is_favoured = is_favoured;
        join_shares(flow);
    }
}

void FlowTable::count_refusal() {
    ++limit_hits_;
    if (options_.drops != nullptr) {
        options_.drops->add(base::DropReason::FlowLimit);
    }
}

size_t FlowTable::bucket_of(const FiveTuple& tuple) const {
    return keyed_hash(tuple, options_.hash_seed) & (buckets_.size() - 1);
}

Flow* FlowTable::find(const FiveTuple& tuple) const {
    Flow* flow = buckets_[bucket_of(tuple)];
    while (flow != nullptr && flow->tuple != tuple) {
        flow = flow->next_in_bucket;
    }
    return flow;
}

Flow* FlowTable::take_flow() {
    if (size_ >= max_flows_) {
        return nullptr;
    }
    if (free_ == nullptr) {
        auto& slab = slabs_.emplace_back(std::make_unique<Flow[]>(kFlowsPerSlab));
        for (size_t i = kFlowsPerSlab; i > 0; --i) {
            slab[i - 1].next_in_bucket = free_;
            free_ = &slab[i - 1];
        }
    }
    Flow* flow = free_;
    free_ = flow->next_in_bucket;
    flow->next_in_bucket = nullptr;
    return flow;
}

LiveSlot*
FlowTable::take_slot(const Flow& flow, uint32_t session_number, uint64_t id, base::TimePoint at) {
    SlotRequest request;
    request.flow_id = id;
    request.session_number = session_number;
    request.traffic_class = flow.traffic_class;
    request.protocol = static_cast<uint8_t>(flow.tuple.protocol);
    request.app = flow.app;
    request.remote = flow.tuple.remote;
    request.remote_port = flow.tuple.remote_port;
    request.opened_at_us = utc_us(at);
    request.writer = options_.writer;
    return slots_.take(request);
}

Flow* FlowTable::create(const FiveTuple& tuple,
                        base::TrafficClass traffic_class,
                        base::TimePoint now,
                        const FlowOrigin& origin) {
    CTN_ASSERT(find(tuple) == nullptr);
    Flow* flow = take_flow();
    if (flow != nullptr) {
        flow->tuple = tuple;
        flow->traffic_class = traffic_class;
        flow->app = origin.app;
        flow->counters = take_slot(*flow, origin.session_number, next_flow_id_, now);
        if (flow->counters == nullptr) {
            give_back(*flow);
            flow = nullptr;
        }
    }
    if (flow == nullptr) {
        count_refusal();
        return nullptr;
    }
    flow->id = FlowId(next_flow_id_++);
    flow->index = origin.index;
    flow->created_at = now;
    flow->last_packet_at = now;
    Flow*& bucket = buckets_[bucket_of(tuple)];
    flow->next_in_bucket = bucket;
    bucket = flow;
    ++size_;
    flow->begun = origin.begun;
    flow->is_favoured = origin.begun == Direction::Up && is_favoured(tuple, traffic_class);
    flow->share = origin.share;
    flow->gives_way = true;
    join_shares(*flow);
    wheel_.arm(*flow, now + idle_timeout(*flow), now);
    return flow;
}

void FlowTable::erase(Flow& flow, Cause cause) {
    CTN_ASSERT(flow.counters != nullptr);
    CTN_ASSERT(flow.queue.head == nullptr && !flow.queue.in_round);
    wheel_.remove(flow);
    leave_shares(flow);
    Flow** link = &buckets_[bucket_of(flow.tuple)];
    while (*link != &flow) {
        CTN_ASSERT(*link != nullptr);
        link = &(*link)->next_in_bucket;
    }
    *link = flow.next_in_bucket;
    slots_.release(flow.counters, cause);
    give_back(flow);
    --size_;
}

void FlowTable::give_back(Flow& flow) {
    flow = Flow{};
    flow.next_in_bucket = free_;
    free_ = &flow;
}

Flow* FlowTable::next_expired(base::TimePoint now) {
    while (Flow* flow = wheel_.pop_due(now)) {
        if (flow->queue.head == nullptr) {
            return flow;
        }
        wheel_.arm(*flow, now + idle_timeout(*flow), now);
    }
    return nullptr;
}

PacketVerdict FlowTable::on_packet(Flow& flow,
                                   Direction direction,
                                   const packet::PacketSummary& summary,
                                   base::TimePoint now) {
    if (summary.is_icmp_error || flow.state == FlowState::Refused) {
        return PacketVerdict::Accepted;
    }
    if (starts_anew(flow, direction, summary.tcp_flags)) {
        return PacketVerdict::NewConnection;
    }
    const base::Duration gap = std::min(now - flow.last_packet_at, kMaxActiveGap);
    if (gap > base::Duration::zero() && !kCounts) {
        flow.last_packet_at = now;
    } else if (gap > base::Duration::zero()) {
        const auto gap_us = static_cast<uint64_t>(base::to_us(now.time_since_epoch()) -
                                                  base::to_us((now - gap).time_since_epoch()));
        add(flow.counters->counters.active_us, gap_us);
        flow.last_packet_at = now;
        flow.counters->last_at_us.store(utc_us(now), std::memory_order_relaxed);
    }
    if (flow.state == FlowState::Opening) {
        flow.was_answered = flow.was_answered || direction == Direction::Down;
        flow.state = direction == flow.begun ? FlowState::Opening : FlowState::Open;
    }
    if (flow.tuple.protocol == Protocol::Tcp) {
        advance_tcp(flow, direction, summary.tcp_flags);
    }
    const bool is_nodes = flow.begun == Direction::Up || direction == Direction::Up;
    set_standing(flow, flow.state == FlowState::Opening || flow.state == FlowState::Closing,
                 flow.is_favoured || (is_nodes && is_favoured(flow.tuple, flow.traffic_class)));
    wheel_.arm(flow, now + idle_timeout(flow), now);
    return PacketVerdict::Accepted;
}

void FlowTable::refuse(Flow& flow, base::TimePoint now) {
    flow.state = FlowState::Refused;
    wheel_.arm(flow, now + idle_timeout(flow), now);
}

void FlowTable::on_ended_there(Flow& flow, base::TimePoint now) {
    if (flow.state != FlowState::Refused) {
        wheel_.arm(flow, std::min(flow.expires_at, now + timeout::kEndedThere), now);
    }
}

bool FlowTable::reclassify(Flow& flow, base::TrafficClass traffic_class, base::TimePoint now) {
    if (traffic_class == flow.traffic_class) {
        return true;
    }
    const base::TrafficClass before = flow.traffic_class;
    flow.traffic_class = traffic_class;
    const bool keeps_number = flow.class_changes < kMostClassChanges;
    const uint64_t id = keeps_number ? flow.id.value() | (uint64_t{flow.class_changes} + 1)
                                                             << kFlowNumberBits
                                     : next_flow_id_;
    LiveSlot* slot = take_slot(flow, flow.counters->session_number, id, now);
    if (slot == nullptr) {
        flow.traffic_class = before;
        return false;
    }
    if (keeps_number) {
        ++flow.class_changes;
    } else {
        ++next_flow_id_;
    }
    slots_.release(flow.counters, Cause::ClassChange);
    flow.counters = slot;
    set_standing(flow, flow.gives_way, flow.is_favoured || is_favoured(flow.tuple, traffic_class));
    return true;
}

int64_t FlowTable::utc_us(base::TimePoint at) const {
    return base::to_us(at.time_since_epoch()) + utc_offset_us_;
}

}  // namespace continuo::flow
