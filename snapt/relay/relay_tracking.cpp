// Flows and what the kernel's connection tracking has of them: places for new ones, and what
// becomes of a connection when its flow ends.
#include "common/base/log.hpp"
#include "snapt/relay/relay.hpp"

#include <algorithm>
#include <utility>

namespace continuo::snapt::relay {

using base::TimePoint;
using flow::Flow;

namespace {

constexpr uint16_t kDnsPort = 53;
// Left connections of one user that are forgotten in one go, beside those that give way one by one.
constexpr size_t kMostTrimmed = 64;
// The part of the room for all nodes, as its divisor, that is free before nodes find none.
constexpr size_t kMarginDivisor = 16;

LeftConnections::Kind kind_of(const Flow& flow) {
    const flow::TcpTracking& tcp = flow.tcp;
    const bool was_open = tcp.established || flow.begun == flow::Direction::Down;
    const bool is_open = was_open && !tcp.reset && !(tcp.fin_up && tcp.fin_down);
    if (flow.tuple.protocol == packet::Protocol::Tcp && is_open) {
        return LeftConnections::Kind::Established;
    }
    return flow.was_answered ? LeftConnections::Kind::Short : LeftConnections::Kind::Unanswered;
}

}  // namespace

size_t Relay::most_flows() const {
    return std::min(room_.most().value_or(SIZE_MAX), flows_.max_flows());
}

TrackedShare* Relay::most_left_of_all() {
    TrackedShare* most = nullptr;
    for (auto& entry : tracked_) {
        const size_t count = entry.second.left.count();
        if (count > (most == nullptr ? 0 : most->left.count())) {
            most = &entry.second;
        }
    }
    return most;
}

// A connection without a flow gives way to a flow: one of the same user, or of the user that has
// most.
void Relay::make_left_room(TrackedShare& share) {
    if (connections() < room_.most().value_or(SIZE_MAX) || forget_oldest(share)) {
        return;
    }
    if (TrackedShare* const other = most_left_of_all()) {
        forget_oldest(*other);
    }
}

// The kernel's NAT still knows the binding that we have forgotten; the node gets the packet as it
// is. The node may have ended the flow: until it sends, the flow gives way, and takes no place of
// another one, nor one that is kept for DNS and TCP of nodes.
Flow* Relay::make_flow_of_answer(NodeSession& node, const packet::FiveTuple& tuple, TimePoint now) {
    if (!node.share->flows.has_room(user_flows(), false) || !flows_.has_free_place(most_flows())) {
        drops_.add(base::DropReason::FlowLimit);
        return nullptr;
    }
    return make_flow(node, tuple, base::TrafficClass::LtHd, {}, elision::kMaxFlowIndex + 1, now,
                     flow::Direction::Down);
}

// At the flow's end. Answers to refused packets belong to no user.
void Relay::note_ended(const Flow& flow, TimePoint now, bool may_stay) {
    if (flow.share == nullptr) {
        return;
    }
    TrackedShare& share = *flow::details_as<NodeSession>(flow)->share->tracked;
    if (!flow.was_answered && !may_stay) {
        gone_.add(flow.tuple, share.gone);
        return;
    }
    if (share.left.count() >= most_left()) {
        forget_oldest(share);
    }
    if (!left_.add(flow.tuple, kind_of(flow), share.left, now)) {
        gone_.add(flow.tuple, share.gone);
    }
}

bool Relay::forget_oldest(TrackedShare& share) {
    const auto oldest = left_.take_oldest(share.left);
    if (oldest) {
        gone_.add(*oldest, share.gone);
    }
    return oldest.has_value();
}

// Forgets connections whose time is over, and those that are too many: after a limit was lowered,
// or where the kernel's table is nearly full. At most as many of a user as the kernel can forget
// soon.
void Relay::look_at_left(TimePoint now) {
    for (auto& entry : tracked_) {
        TrackedShare& share = entry.second;
        for (size_t i = 0; i < kMostTrimmed && share.gone.flows < room_.gone() / 2; ++i) {
            const auto expired = left_.take_expired(share.left, now);
            if (expired) {
                gone_.add(*expired, share.gone);
            } else if (share.left.count() <= most_left() || !forget_oldest(share)) {
                break;
            }
        }
    }
    const size_t most = room_.most().value_or(SIZE_MAX);
    TrackedShare* const other =
        connections() > most - most / kMarginDivisor ? most_left_of_all() : nullptr;
    for (size_t i = 0; other != nullptr && i < room_.gone(); ++i) {
        if (connections() <= most - most / kMarginDivisor || !forget_oldest(*other)) {
            break;
        }
    }
}

void Relay::set_connection_table(const nat::ConnectionTable& table) {
    const size_t before = user_flows();
    room_.set_table(table, connections());
    const size_t configured = settings_.max_user_flows;
    if (configured != 0 && user_flows() < configured && user_flows() != before) {
        base::log(base::LogLevel::Warning,
                  "connection tracking of this host has %zu places: a user may have %zu flows at a "
                  "time, not limits.user_flows (%zu); raise net.netfilter.nf_conntrack_max",
                  table.places, user_flows(), configured);
    }
}

// True when the flow's time is up.
bool Relay::may_stay_with_nat(const Flow& flow) const {
    const size_t limit = user_flows();  // 0: none, so the NAT's own time applies
    const size_t flows = flow::details_as<NodeSession>(flow)->share->flows.flows();
    // A node that reports its flows as ended shortens their lives, not the NAT's.
    const bool has_lived = flow.expires_at - flow.last_packet_at >= flow::timeout::kUdpUnanswered;
    return flow.tuple.protocol == packet::Protocol::Udp && flow.tuple.remote_port != kDnsPort &&
           has_lived && (limit == 0 || flows <= limit / kFewFlowsDivisor);
}

// A flow that has started again keeps its kernel state.
void Relay::tell_gone() {
    auto tuples = gone_.take(
        [this](const packet::FiveTuple& tuple) { return flows_.find(tuple) != nullptr; });
    if (!tuples.empty() && !events_.on_flows_gone(std::move(tuples))) {
        gone_.finish(false);
    }
}

void Relay::on_flows_forgotten() {
    gone_.finish(true);
    drop_idle_shares();
    if (gone_.has_many()) {
        tell_gone();
    }
}

void Relay::drop_idle_shares() {
    std::erase_if(shares_, [](const auto& entry) {
        const UserShare& share = entry.second;
        // Without it a user with a used-up quota would start with nothing used, until its records
        // are read.
        const bool acts = share.meter != nullptr &&
                          (share.meter->is_stopped() || share.meter->throttled_bits_per_s() != 0);
        return share.sessions == 0 && !acts;
    });
    std::erase_if(tracked_, [this](const auto& entry) {
        return entry.second.is_empty() && !shares_.contains(entry.first);
    });
}

}  // namespace continuo::snapt::relay
