#include "common/routing/path_set.hpp"

#include "common/base/assert.hpp"

#include <algorithm>

namespace continuo::routing {

using base::Duration;
using base::TimePoint;

PathSet::RolePaths PathSet::make_role(PathTable& table) {
    return table.is_node() ? RolePaths(std::in_place_type<NodePaths>, table)
                           : RolePaths(std::in_place_type<SnaptPaths>, table);
}

PathSet::PathSet(Role role, base::Random& random, base::MemoryBudget* memory)
    : table_(role, random, memory), role_(make_role(table_)) {}

NodePaths& PathSet::node() {
    CTN_ASSERT(as_node() != nullptr);
    return *as_node();
}

SnaptPaths& PathSet::snapt() {
    auto* const snapt = std::get_if<SnaptPaths>(&role_);
    CTN_ASSERT(snapt != nullptr);
    return *snapt;
}

bool PathSet::is_known(const base::Endpoint& from) const {
    return table_.any_used(
        [&](uint8_t index) { return table_.paths[index].validation().is_known_at(from); });
}

Duration PathSet::largest_rtt() const {
    Duration largest{};
    table_.any_used([&](uint8_t index) {
        const Path& path = table_.paths[index];
        largest =
            is_live(path.state()) ? std::max(largest, path.feedback().smoothed_rtt()) : largest;
        return false;
    });
    return largest;
}

uint32_t PathSet::connections() const {
    return as_node() != nullptr ? as_node()->connections() : 0;
}

void PathSet::on_authenticated(const wire::Space& space,
                               const base::Endpoint& from,
                               const base::Endpoint& local,
                               uint64_t bytes,
                               bool is_highest,
                               TimePoint now) {
    table_.use(space.path);
    const bool may_carry = table_.paths[space.path].on_authenticated(space.traffic_class, from,
                                                                     local, bytes, is_highest, now);
    if (may_carry && !table_.active) {
        table_.active = space.path;
    }
}

bool PathSet::on_response(const wire::Space& space, const wire::Response& response, TimePoint now) {
    const bool is_active = table_.active == space.path;
    const Path::Answered answered =
        table_.paths[space.path].on_response(space.traffic_class, response.token, is_active, now);
    NodePaths* const node = as_node();
    return node != nullptr ? node->on_answered(space.path, answered)
                           : snapt().on_answered(space.path, answered);
}

void PathSet::on_sent(const Destination& destination,
                      uint64_t bytes,
                      bool wants_answer,
                      TimePoint now) {
    table_.paths[destination.path].on_sent(destination.tuple_class, bytes, wants_answer, now);
    NodePaths* const node = as_node();
    if (wants_answer && node != nullptr) {
        node->on_sent(destination.path, now);
    }
}

void PathSet::on_numbered(const recovery::SentRun& run, TimePoint now) {
    const auto space = wire::space_from_number(run.space.space);
    table_.paths[space.path].feedback().on_numbered(space.traffic_class, run, now);
}

void PathSet::on_app_limited() {
    table_.any_used([&](uint8_t index) {
        if (recovery::Delivery* const delivery = table_.paths[index].feedback().delivery()) {
            delivery->on_app_limited();
        }
        return false;
    });
}

void PathSet::set_mtu(uint8_t index, uint16_t mtu, TimePoint now) {
    const bool is_other = table_.paths[index].set_limit(mtu);
    NodePaths* const node = as_node();
    if (is_other && table_.active == index && node != nullptr) {
        node->announce_again(now);
    }
}

void PathSet::on_too_big(uint8_t index, uint32_t outer_bytes, TimePoint now) {
    const auto& sizes = recovery::MtuSearch::kUsualSizes;
    const auto smaller =
        std::find_if(sizes.begin(), sizes.end(), [&](uint16_t size) { return size < outer_bytes; });
    if (smaller != sizes.end() && *smaller < table_.paths[index].mtu_search().limit()) {
        set_mtu(index, *smaller, now);
    }
}

std::optional<uint8_t> PathSet::on_time(TimePoint now) {
    std::optional<uint8_t> told;
    table_.any_used([&](uint8_t index) {
        if (table_.paths[index].on_time(table_.active == index, now)) {
            told = index;
        }
        return told.has_value();
    });
    NodePaths* const node = as_node();
    const bool is_in_doubt =
        told && told == table_.active && table_.paths[*told].state() == PathState::Doubtful;
    if (is_in_doubt && node != nullptr) {
        node->ask_others(now);
    }
    return told;
}

std::optional<Probe> PathSet::next_probe(TimePoint now) {
    while (!responses_.is_empty()) {
        const path::DueResponse due = responses_.pop();
        if (auto probe = table_.paths[due.space.path].response_probe(due, now)) {
            return probe;
        }
    }
    std::optional<Probe> probe;
    table_.any_used([&](uint8_t index) {
        Path& path = table_.paths[index];
        const uint64_t holes = path.mtu_search().black_holes();
        probe = path.next_probe(table_.active == index, now);
        has_narrowed_ = has_narrowed_ || path.mtu_search().black_holes() != holes;
        return probe.has_value();
    });
    NodePaths* const node = as_node();
    if (node == nullptr) {
        return probe;
    }
    if (!probe) {
        return node->withdrawal();
    }
    node->complete(*probe, selector_, now);
    return probe;
}

TimePoint PathSet::next_deadline() const {
    const bool has_withdrawals = as_node() != nullptr && as_node()->has_withdrawals();
    TimePoint earliest = !responses_.is_empty() || has_withdrawals ? TimePoint{} : base::kNever;
    table_.any_used([&](uint8_t index) {
        earliest = std::min(earliest, table_.paths[index].next_deadline(table_.active == index));
        return false;
    });
    return earliest;
}

}  // namespace continuo::routing
