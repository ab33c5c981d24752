#include "common/session/path_set.hpp"

#include "common/base/assert.hpp"

#include <algorithm>
#include <memory>

namespace continuo::session {

using base::Duration;
using base::TimePoint;
using base::TrafficClass;

void PathSet::renew(uint8_t index) {
    std::destroy_at(&paths_[index]);
    std::construct_at(&paths_[index], context_, index);
}

void PathSet::forget(uint8_t index) {
    renew(index);
    paths_[index].give_up();
    used_ &= static_cast<PathMask>(~mask_of(index));
}

void PathSet::add(uint8_t index, const base::Endpoint& remote, uint16_t mtu, TimePoint now) {
    CTN_ASSERT(context_.role == Role::Node && index < paths_.size());
    use(index);
    renew(index);
    withdrawals_.cancel(index);
    paths_[index].start(remote, mtu, now);
}

void PathSet::remove(uint8_t index) {
    if (tells_withdrawals_ && index != wire::kTcpPath && paths_[index].lt_ld().is_known()) {
        withdrawals_.on_ended(index);
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
    CTN_ASSERT(context_.role == Role::Node && paths_[index].lt_ld().is_known());
    if (active_ && active_ != index) {
        former_ = active_;
    } else if (former_ == index) {
        former_.reset();
    }
    active_ = index;
    ++announcement_number_;
    connections_ += index == wire::kTcpPath ? 1U : 0U;
    announce_again(now);
}

void PathSet::announce_again(TimePoint now) {
    if (active_) {
        paths_[*active_].announce(Path::Asks::Validation, now);
    }
}

void PathSet::redirect(const base::Endpoint& remote, TimePoint now) {
    if (active_) {
        paths_[*active_].redirect(remote);
        paths_[*active_].announce(Path::Asks::Question, now);
    }
}

void PathSet::set_mtu(uint8_t index, uint16_t mtu, TimePoint now) {
    const bool is_other = paths_[index].set_limit(mtu);
    if (is_other && active_ == index && context_.role == Role::Node) {
        announce_again(now);
    }
}

void PathSet::on_too_big(uint8_t index, uint32_t outer_bytes, TimePoint now) {
    const auto& sizes = recovery::MtuSearch::kUsualSizes;
    const auto smaller =
        std::find_if(sizes.begin(), sizes.end(), [&](uint16_t size) { return size < outer_bytes; });
    if (smaller != sizes.end() && *smaller < paths_[index].search().limit()) {
        set_mtu(index, *smaller, now);
    }
}

void PathSet::ask(uint8_t index, TimePoint now) {
    if (active_ == index) {
        paths_[index].ask(now);
    } else {
        paths_[index].probe(now);
    }
}

// Asks the paths that may have to replace the active one or take its copies.
void PathSet::ask_others(TimePoint now) {
    for (uint8_t index = 0; index < wire::kTcpPath; ++index) {
        if (active_ != index) {
            paths_[index].probe(now);
        }
    }
}

void PathSet::keep_ready(Duration longest, TimePoint now) {
    tells_withdrawals_ = true;
    for (uint8_t index = 0; index < wire::kTcpPath; ++index) {
        Path& path = paths_[index];
        const bool is_due = path.state() == PathState::Challenged ||
                            (path.state() == PathState::Usable && now - path.heard_at() >= longest);
        if (active_ != index && is_due) {
            path.probe(now);
        }
    }
}

void PathSet::on_pause(TimePoint now) {
    for (uint8_t index = 0; index < wire::kMaxPaths; ++index) {
        paths_[index].on_pause(active_ == index, now);
    }
    announce_again(now);
}

void PathSet::forget_remapping() {
    remapped_ = 0;
    if (active_) {
        paths_[*active_].forget_remapping();
    }
}

void PathSet::on_authenticated(const wire::Space& space,
                               const base::Endpoint& from,
                               const base::Endpoint& local,
                               uint64_t bytes,
                               bool is_highest,
                               TimePoint now) {
    use(space.path);
    const bool may_carry = paths_[space.path].on_authenticated(space.traffic_class, from, local,
                                                               bytes, is_highest, now);
    if (may_carry && !active_) {
        active_ = space.path;
    }
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
        if (is_other && paths_[announce.path].lt_ld().is_known()) {
            paths_[announce.path].copy_request().on_announced(now);
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
        paths_[path].forget_other_tuples();
    }
    if (announce.mtu >= recovery::MtuSearch::kSmallest) {
        paths_[path].set_limit(announce.mtu);
    }
    // Data in an older connection is lost, as with a move.
    const bool is_new_connection = is_new && path == wire::kTcpPath;
    if (!announce.active || (active_ == path && !is_new_connection)) {
        return false;
    }
    if (active_ && active_ != path) {
        paths_[*active_].on_left(now);
    }
    paths_[path].on_chosen(now);
    active_ = path;
    return true;
}

bool PathSet::on_response(const wire::Space& space, const wire::Response& response, TimePoint now) {
    const bool is_active = active_ == space.path;
    const Path::Answered answered =
        paths_[space.path].on_response(space.traffic_class, response.token, is_active, now);
    if (is_active && answered.is_by_lt_ld) {
        remapped_ |= answered.remapped;
        former_.reset();
        end_copies();
        if (answered.was_announcing) {
            withdrawals_.repeat();
        }
    }
    const bool is_awaited = answered.is_by_lt_ld && context_.role == Role::Node &&
                            space.path != wire::kTcpPath && has_failing_active(space.path);
    return answered.is_news || is_awaited;
}

void PathSet::on_sent(const Destination& destination,
                      uint64_t bytes,
                      bool wants_answer,
                      TimePoint now) {
    Path& path = paths_[destination.path];
    path.on_sent(destination.tuple_class, bytes, wants_answer, now);
    // While the active path delivers nothing, any other that comes back is wanted at once.
    if (wants_answer && active_ == destination.path && path.state() == PathState::Dead &&
        destination.path != wire::kTcpPath) {
        any_used([&](uint8_t index) {
            if (paths_[index].announcer().due_at() - now > path::kLongestProbeInterval) {
                paths_[index].ask_again(now + path::kLongestProbeInterval);
            }
            return false;
        });
    }
}

std::optional<uint8_t> PathSet::on_time(TimePoint now) {
    std::optional<uint8_t> told;
    any_used([&](uint8_t index) {
        if (paths_[index].on_time(active_ == index, now)) {
            told = index;
        }
        return told.has_value();
    });
    if (told && told == active_ && paths_[*told].state() == PathState::Doubtful) {
        ask_others(now);
    }
    return told;
}

std::optional<Probe> PathSet::next_probe(TimePoint now) {
    while (!responses_.is_empty()) {
        const path::DueResponse due = responses_.pop();
        if (auto probe = paths_[due.space.path].response_probe(due, now)) {
            return probe;
        }
    }
    std::optional<Probe> probe;
    any_used([&](uint8_t index) {
        Path& path = paths_[index];
        const uint64_t holes = path.search().black_holes();
        probe = path.next_probe(active_ == index, now);
        has_narrowed_ = has_narrowed_ || path.search().black_holes() != holes;
        return probe.has_value();
    });
    if (!probe) {
        return has_withdrawals() ? withdrawal_probe() : std::nullopt;
    }
    if (probe->announce) {
        probe->announce->number = announcement_number_;
        const auto second = probe->announce->active ? second_path(now) : std::nullopt;
        probe->copies = second ? copies_frame(*second) : std::nullopt;
    } else if (context_.role == Role::Node && probe->asks_tuple() && is_in_doubt(now) &&
               second_path(now) == probe->path) {
        probe->copies = copies_frame(probe->path);
    }
    return probe;
}

std::optional<wire::Announce> PathSet::copies_frame(uint8_t path) const {
    wire::Announce announce;
    announce.path = path;
    announce.copy_wanted = true;
    announce.number = announcement_number_;
    return announce;
}

std::optional<Probe> PathSet::withdrawal_probe() {
    const auto ended = withdrawals_.next(*active_);
    if (!ended) {
        return std::nullopt;
    }
    const Tuple& tuple = paths_[*active_].lt_ld();
    Probe probe{*active_, TrafficClass::LtLd, tuple.remote(), tuple.local()};
    probe.announce.emplace();
    probe.announce->path = *ended;
    probe.announce->withdrawn = true;
    probe.announce->number = announcement_number_;
    return probe;
}

TimePoint PathSet::next_deadline() const {
    TimePoint earliest = !responses_.is_empty() || has_withdrawals() ? TimePoint{} : base::kNever;
    any_used([&](uint8_t index) {
        earliest = std::min(earliest, paths_[index].next_deadline(active_ == index));
        return false;
    });
    return earliest;
}

void PathSet::end_copies() {
    for (Path& path : paths_) {
        path.copy_request().end();
    }
}

}  // namespace continuo::session
