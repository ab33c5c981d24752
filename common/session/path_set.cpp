#include "common/session/path_set.hpp"

#include "common/base/assert.hpp"

#include <algorithm>
#include <utility>

namespace continuo::session {

using base::Duration;
using base::index_of;
using base::milliseconds;
using base::TimePoint;
using base::TrafficClass;

namespace {

// Losing all of them costs SNAPT some datagrams until it notices missing answers.
constexpr uint8_t kWithdrawals = 3;

}  // namespace

std::string_view to_string(PathState state) {
    switch (state) {
    case PathState::Unknown:
        return "unknown";
    case PathState::Challenged:
        return "challenged";
    case PathState::Usable:
        return "usable";
    case PathState::Doubtful:
        return "doubtful";
    case PathState::Dead:
        return "dead";
    }
    return "unknown";
}

void PathSet::add(uint8_t index, const base::Endpoint& remote, uint16_t mtu, TimePoint now) {
    CTN_ASSERT(role_ == Role::Node && index < paths_.size());
    use(index);
    Path& path = paths_[index];
    path = Path{};
    forget_delivery(index);
    class_ways_[index].reset();
    withdrawals_due_[index] = 0;
    withdrawing_ &= static_cast<PathMask>(~mask_of(index));
    ended_ &= static_cast<PathMask>(~mask_of(index));
    path.validation = Validation::Pending;
    settle(path);
    path.search.begin(mtu);
    path.mtu = path.search.size();
    path.heard_at = now;
    path.tuples.fill(Tuple::of_snapt(remote, now));
}

void PathSet::forget(uint8_t index) {
    paths_[index] = Path{};
    paths_[index].validation = Validation::Failed;
    settle(paths_[index]);
    forget_delivery(index);
    class_ways_[index].reset();
    used_ &= static_cast<PathMask>(~mask_of(index));
}

void PathSet::remove(uint8_t index) {
    if (tells_withdrawals_ && index != wire::kTcpPath && paths_[index].tuples[kLtLd].is_known()) {
        withdrawals_due_[index] = kWithdrawals;
        withdrawing_ |= mask_of(index);
        ended_ |= mask_of(index);
    }
    forget(index);
    if (active_ == index) {
        active_.reset();
    }
    if (former_ == index) {
        former_.reset();
    }
}

void PathSet::activate(uint8_t index, TimePoint now) {
    CTN_ASSERT(role_ == Role::Node && paths_[index].tuples[kLtLd].is_known());
    if (active_ && active_ != index) {
        former_ = active_;
    } else if (former_ == index) {
        former_.reset();
    }
    active_ = index;
    ++announcement_number_;
    announce_again(now);
}

void PathSet::probe(uint8_t index, TimePoint now) {
    Path& path = paths_[index];
    Tuple& tuple = path.tuples[kLtLd];
    if (!tuple.challenge().is_open() &&
        (path.state == PathState::Challenged || path.state == PathState::Usable)) {
        start_challenge(path, tuple, now, Asks::Validation);
    }
}

void PathSet::announce_again(TimePoint now) {
    announce_anew(Asks::Validation, now);
}

void PathSet::announce_anew(Asks asks, TimePoint now) {
    if (!active_) {
        return;
    }
    Path& path = paths_[*active_];
    path.announcer.start(wire::kAnnounceCopies, kFirstProbeInterval, now);
    distrust_round_trip(*active_, now);
    start_challenge(path, path.tuples[kLtLd], now, asks);
    path.tuples[kLtLd].challenge().leave_to_announcements();
}

void PathSet::on_authenticated(const wire::Space& space,
                               const base::Endpoint& from,
                               const base::Endpoint& local,
                               uint64_t bytes,
                               bool is_highest,
                               TimePoint now) {
    use(space.path);
    Path& path = paths_[space.path];
    path.heard_at = now;
    path.was_left_silent = false;
    const bool was_silent = path.liveness.unheard_since() != base::kNever;
    path.liveness.on_heard(now);
    // Without a log no answer can come, and without packets there is none: it may carry again.
    if (role_ == Role::Snapt && deliveries_[space.path] == nullptr) {
        path.liveness.forget_judgement();
    }
    path.life_requests.on_heard(ask_after(path), now);
    ++path.received_datagrams;
    Tuple& tuple = path.tuples[index_of(space.traffic_class)];
    if (role_ == Role::Node) {
        tuple.on_heard(now);
        // Not for each of many datagrams while nothing goes out.
        if (path.is_failing() && was_silent) {
            hasten(space.path, now);
        }
        return;
    }
    const bool is_same = tuple.is_heard_from(from, local);
    if (!is_same && !is_highest) {
        return;
    }
    if (!is_same) {
        move_tuple(space, from, local, now);
    }
    tuple.on_heard(now);
    if (!tuple.is_proven()) {
        tuple.on_received_unproven(bytes);
        if (tuple.challenge().is_open()) {
            tuple.challenge().resume(now);
        } else {
            start_challenge(path, tuple, now, Asks::Validation);
        }
    }
    if (!active_) {
        active_ = space.path;
    }
}

void PathSet::move_tuple(const wire::Space& space,
                         const base::Endpoint& from,
                         const base::Endpoint& local,
                         TimePoint now) {
    Path& path = paths_[space.path];
    Tuple& tuple = path.tuples[index_of(space.traffic_class)];
    const bool was_known = tuple.is_known();
    const bool was_proven = tuple.is_proven() || tuple.is_remapped();
    const bool is_lt_ld = space.traffic_class == TrafficClass::LtLd;
    if (is_lt_ld && tuple.remote().address != from.address) {
        forget_round_trips(space.path);  // another network; a changed port is a NAT's doing
        class_ways_[space.path].reset();
    }
    if (is_lt_ld) {
        path.search.distrust();
    }
    tuple = Tuple::of_node(from, local, was_proven);
    if (is_lt_ld || (!was_known && path.state != PathState::Usable)) {
        path.validation = Validation::Pending;
    }
    start_challenge(path, tuple, now, Asks::Validation);
}

bool PathSet::on_announce(uint8_t path, const wire::Announce& announce, TimePoint now) {
    const bool is_old = has_announcement_ && announcement_number_ != announce.number &&
                        !wire::is_newer_announcement(announce.number, announcement_number_);
    if (is_old || announce.path >= paths_.size()) {
        return false;
    }
    if (announcement_number_ != announce.number) {
        end_copies();
    }
    announcement_number_ = announce.number;
    has_announcement_ = true;
    if (announce.copy_wanted && !announce.active) {
        const bool is_other = announce.path != wire::kTcpPath && active_ != announce.path;
        if (is_other && paths_[announce.path].tuples[kLtLd].is_known()) {
            paths_[announce.path].copy_request.on_announced(now);
        }
        return false;
    }
    if (announce.withdrawn) {
        // Announced on another path: the withdrawn one has ended.
        if (announce.path != active_) {
            forget(announce.path);
        }
        return false;
    }
    if (announce.path != path) {
        return false;
    }
    const bool is_new = announce.active && activation_number_ != announce.number;
    if (is_new) {
        activation_number_ = announce.number;
        forget_other_tuples(paths_[path]);
    }
    if (announce.mtu >= path::MtuSearch::kSmallest) {
        set_limit(paths_[path], announce.mtu);
    }
    // Data in an older connection is lost, as with a move.
    const bool is_new_connection = is_new && path == wire::kTcpPath;
    if (!announce.active || (active_ == path && !is_new_connection)) {
        return false;
    }
    if (active_ && active_ != path) {
        paths_[*active_].was_left_silent = is_overdue(*active_, now);
    }
    for (const uint8_t any : {active_.value_or(path), path}) {
        paths_[any].liveness.forget_silence();  // nobody may be there to answer
        if (class_ways_[any] != nullptr) {
            class_ways_[any]->forget_sent();  // it is repeated on another path
        }
    }
    active_ = path;
    paths_[path].heard_at = now;
    return true;
}

// The index is reused with other sockets, or LtLd has a new NAT mapping: the other classes may have
// new ones too. LtLd serves all classes until they are heard.
void PathSet::forget_other_tuples(Path& path) {
    for (size_t i = 0; i < path.tuples.size(); ++i) {
        if (i != kLtLd) {
            path.tuples[i] = Tuple{};
        }
    }
}

void PathSet::on_sent(const Destination& destination,
                      uint64_t bytes,
                      bool wants_answer,
                      TimePoint now) {
    Path& path = paths_[destination.path];
    if (wants_answer) {
        path.liveness.note_sent(now);
        // While the active path delivers nothing, any other that comes back is wanted at once.
        if (active_ == destination.path && path.state == PathState::Dead &&
            destination.path != wire::kTcpPath) {
            any_used([&](uint8_t index) {
                if (paths_[index].announcer.due_at() - now > kLongestProbeInterval) {
                    ask_again(index, now + kLongestProbeInterval);
                }
                return false;
            });
        }
    }
    if (path.room_bytes != UINT64_MAX) {
        path.room_bytes -= std::min(path.room_bytes, bytes);
    }
    path.tuples[index_of(destination.tuple_class)].on_sent(bytes);
}

std::optional<Probe> PathSet::next_probe(TimePoint now) {
    while (response_count_ > 0) {
        const DueResponse due = responses_[--response_count_];
        if (paths_[due.space.path].tuples[index_of(due.space.traffic_class)].is_known()) {
            return response_probe(due, now);
        }
    }
    std::optional<Probe> probe;
    any_used([&](uint8_t index) {
        if (!(probe = announce_probe(index, now)) && !(probe = challenge_probe(index, now)) &&
            !(probe = class_probe(index, now)) && !(probe = ping_probe(index))) {
            probe = mtu_probe(index, now);
        }
        return probe.has_value();
    });
    return probe || !has_withdrawals() ? probe : withdrawal_probe();
}

std::optional<Probe> PathSet::announce_probe(uint8_t index, TimePoint now) {
    Path& path = paths_[index];
    if (path.announcer.due_at() > now) {
        return std::nullopt;
    }
    Tuple& announced = path.tuples[kLtLd];
    path.announcer.on_sent(active_ == index, path.heard_at, now);
    expect_answer(index, now);
    wire::Announce announce;
    announce.path = index;
    announce.mtu = path.search.limit();
    announce.active = active_ == index;
    announce.number = announcement_number_;
    const wire::Challenge challenge = announced.challenge().next_sending(now);
    // Padded, so that SNAPT may send the waiting data at once. Every second repetition is short,
    // since the path may not take padded ones; a path silent for long is only asked.
    const bool is_padded = path.state != PathState::Dead && !announced.challenge().is_unmarked();
    Probe probe{index, TrafficClass::LtLd, announced.remote(), announced.local()};
    probe.announce = announce;
    probe.challenge = challenge;
    probe.is_padded = is_padded;
    probe.way = way_of_sending(announced);
    probe.wants_ack = has_unconfirmed_class(index, now);
    probe.has_ping = !is_padded && take_ping(index);
    if (const auto second = announce.active ? second_path(now) : std::nullopt) {
        probe.copies = copies_frame(*second);
    }
    return probe;
}

TimePoint PathSet::next_deadline() const {
    TimePoint earliest = response_count_ > 0 || has_withdrawals() ? TimePoint{} : base::kNever;
    any_used([&](uint8_t index) {
        const Path& path = paths_[index];
        earliest = std::min(
            {earliest, path.announcer.due_at(), health_deadline(index), path.search.deadline()});
        if (role_ == Role::Snapt) {
            earliest = std::min(earliest, request_deadline(index));
        }
        if ((pings_due_ & mask_of(index)) != 0) {
            earliest = TimePoint{};
        }
        if (asks_by_class(index)) {
            earliest = std::min(earliest, class_ways_[index]->deadline(class_times(index)));
        }
        for (const Tuple& tuple : path.tuples) {
            earliest = std::min(earliest, tuple.challenge().due_at());
        }
        return false;
    });
    return earliest;
}

bool PathSet::is_live(const Path& path) const {
    return path.state != PathState::Unknown && path.state != PathState::Dead;
}

}  // namespace continuo::session
