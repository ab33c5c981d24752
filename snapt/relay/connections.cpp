#include "snapt/relay/connections.hpp"

#include "common/base/log.hpp"
#include "snapt/relay/node_session.hpp"

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

TrackedShare* Connections::most_left_of_all() {
    TrackedShare* most = nullptr;
    for (auto& entry : shares_) {
        const size_t count = entry.second.left.count();
        if (count > (most == nullptr ? 0 : most->left.count())) {
            most = &entry.second;
        }
    }
    return most;
}

// A connection without a flow gives way to a flow: one of the same user, or of the user that has
// most.
void Connections::make_room(TrackedShare& share) {
    if (size() < most() || forget_oldest(share)) {
        return;
    }
    if (TrackedShare* const other = most_left_of_all()) {
        forget_oldest(*other);
    }
}

// Answers to refused packets belong to no user.
void Connections::note_ended(const Flow& flow, TimePoint now, bool may_stay) {
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

bool Connections::has_room(const UserShare& share, bool is_favoured) const {
    return GoneFlows::has_room(share.tracked->gone, share.flows.flows(), user_flows(), room_.gone(),
                               is_favoured);
}

bool Connections::forget_oldest(TrackedShare& share) {
    const auto oldest = left_.take_oldest(share.left);
    if (oldest) {
        gone_.add(*oldest, share.gone);
    }
    return oldest.has_value();
}

// Too many: after a limit was lowered, or where the kernel's table is nearly full. At most as many
// of a user as the kernel can forget soon.
void Connections::look(TimePoint now) {
    for (auto& entry : shares_) {
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
    const size_t enough = most() - most() / kMarginDivisor;
    TrackedShare* const other = size() > enough ? most_left_of_all() : nullptr;
    for (size_t i = 0; other != nullptr && i < room_.gone(); ++i) {
        if (size() <= enough || !forget_oldest(*other)) {
            break;
        }
    }
}

void Connections::set_table(const nat::ConnectionTable& table) {
    const size_t before = user_flows();
    room_.set_table(table, size());
    const size_t configured = max_user_flows_;
    if (configured != 0 && user_flows() < configured && user_flows() != before) {
        base::log(base::LogLevel::Warning,
                  "connection tracking of this host has %zu places: a user may have %zu flows at a "
                  "time, not limits.user_flows (%zu); raise net.netfilter.nf_conntrack_max",
                  table.places, user_flows(), configured);
    }
}

// True when the flow's time is up.
bool Connections::may_stay_with_nat(const Flow& flow) const {
    const size_t limit = user_flows();  // 0: none, so the NAT's own time applies
    const size_t flows = flow::details_as<NodeSession>(flow)->share->flows.flows();
    // A node that reports its flows as ended shortens their lives, not the NAT's.
    const bool has_lived = flow.expires_at - flow.last_packet_at >= flow::timeout::kUdpUnanswered;
    return flow.tuple.protocol == packet::Protocol::Udp && flow.tuple.remote_port != kDnsPort &&
           has_lived && (limit == 0 || flows <= limit / kFewFlowsDivisor);
}

// A flow that has started again keeps its kernel state.
void Connections::tell_gone() {
    auto tuples = gone_.take(
        [this](const packet::FiveTuple& tuple) { return flows_.find(tuple) != nullptr; });
    if (!tuples.empty() && !events_.on_flows_gone(std::move(tuples))) {
        gone_.finish(false);
    }
}

void Connections::hurry(const TrackedShare& share) {
    if (share.gone.flows >= room_.gone() / 2 && gone_.may_hurry()) {
        tell_gone();
    }
}

void Connections::on_forgotten() {
    gone_.finish(true);
    if (gone_.has_many()) {
        tell_gone();
    }
}

void Connections::drop_empty(const std::function<bool(const std::string& user)>& is_here) {
    std::erase_if(shares_, [&](const auto& entry) {
        return entry.second.is_empty() && !is_here(entry.first);
    });
}

}  // namespace continuo::snapt::relay
