#include "common/session/path_set.hpp"

#include "common/base/assert.hpp"

#include <algorithm>
#include <utility>

namespace continuo::session {

using base::Duration;
using base::TimePoint;

namespace {

// What is not heard of them costs SNAPT some datagrams until it misses answers.
constexpr uint8_t kWithdrawals = 3;
// A peer that tells a longer interval is not believed: it could put off every probe time-out.
constexpr Duration kLongestAckInterval = base::seconds(2);

}  // namespace

void PathSet::set_active(std::optional<uint8_t> index) {
    if (active_) {
        paths_[*active_].set_active(false);
    }
    active_ = index;
    if (active_) {
        paths_[*active_].set_active(true);
    }
}

// --- Node

void PathSet::add(uint8_t index, const base::Endpoint& remote, uint16_t mtu, TimePoint now) {
    CTN_ASSERT(role_ == Role::Node && index < paths_.size());
    use(index);
    paths_[index].begin(remote, mtu, now);
    withdrawals_due_[index] = 0;
    withdrawing_ &= static_cast<PathMask>(~mask_of(index));
    ended_ &= static_cast<PathMask>(~mask_of(index));
}

void PathSet::forget(uint8_t index) {
    paths_[index].end();
    used_ &= static_cast<PathMask>(~mask_of(index));
}

void PathSet::remove(uint8_t index) {
    if (tells_withdrawals_ && index != wire::kTcpPath && paths_[index].first_tuple().is_known) {
        withdrawals_due_[index] = kWithdrawals;
        withdrawing_ |= mask_of(index);
        ended_ |= mask_of(index);
    }
    forget(index);
    if (active_ == index) {
        set_active(std::nullopt);
    }
    if (former_ == index) {
        former_.reset();
    }
}

void PathSet::activate(uint8_t index, TimePoint now) {
    CTN_ASSERT(role_ == Role::Node && paths_[index].first_tuple().is_known);
    if (active_ && active_ != index) {
        former_ = active_;
    } else if (former_ == index) {
        former_.reset();
    }
    set_active(index);
    if (paths_[index].state() == PathState::Dead) {
        paths_[index].forgive();
    }
    ++announcement_number_;
    announce_again(now);
}

void PathSet::announce_again(TimePoint now) {
    if (active_) {
        paths_[*active_].announce(now);
    }
}

void PathSet::on_pause(TimePoint now) {
    for (Path& path : paths_) {
        path.on_pause(now);
    }
    announce_again(now);
}

// Who may have to take the active path's place, or copies.
void PathSet::ask_others(TimePoint now) {
    for (uint8_t index = 0; index < wire::kTcpPath; ++index) {
        if (active_ != index) {
            paths_[index].probe(now);
        }
    }
}

// --- MTU

void PathSet::set_mtu(uint8_t index, uint16_t mtu, TimePoint now) {
    Path& path = paths_[index];
    if (path.search().limit() == mtu) {
        return;
    }
    path.set_limit(mtu);
    if (active_ == index && role_ == Role::Node) {
        announce_again(now);
    }
}

void PathSet::on_too_big(uint8_t index, uint32_t outer_bytes, TimePoint now) {
    const auto& sizes = path::MtuSearch::kUsualSizes;
    const auto smaller =
        std::find_if(sizes.begin(), sizes.end(), [&](uint16_t size) { return size < outer_bytes; });
    if (smaller != sizes.end() && *smaller < paths_[index].search().limit()) {
        set_mtu(index, *smaller, now);
    }
}

// --- What came

bool PathSet::on_authenticated(const wire::Space& space,
                               const base::Endpoint& from,
                               const base::Endpoint& local,
                               uint64_t bytes,
                               bool is_highest,
                               TimePoint now) {
    use(space.path);
    Path& path = paths_[space.path];
    const bool ends_doubt = path.on_authenticated(space.traffic_class, now);
    if (role_ == Role::Snapt &&
        path.on_source(space.traffic_class, from, local, bytes, is_highest, now) && !active_) {
        set_active(space.path);
    }
    return ends_doubt;
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
        if (is_other && paths_[announce.path].first_tuple().is_known) {
            paths_[announce.path].want_copies(now);
        }
        return false;
    }
    if (announce.withdrawn) {
        // Told on another path: the withdrawn one has ended.
        if (announce.path != active_) {
            forget(announce.path);
        }
        return false;
    }
    if (announce.path != path) {
        return false;
    }
    const bool is_new = announce.active && activation_number_ != announce.number;
    // The node left this path and has come back: what it announced meanwhile was lost.
    const bool is_return = is_new && activation_number_ && active_ == path;
    if (is_new) {
        activation_number_ = announce.number;
    }
    paths_[path].on_announced(announce.mtu, is_new);
    // What an older connection still had is lost, as with a move.
    const bool is_new_connection = is_new && path == wire::kTcpPath;
    if (!announce.active || (active_ == path && !is_return && !is_new_connection)) {
        return false;
    }
    if (active_ && active_ != path) {
        paths_[*active_].leave(now);
    }
    set_active(path);
    paths_[path].enter(now);
    return true;
}

void PathSet::on_challenge(const wire::Space& space,
                           const wire::Challenge& challenge,
                           bool was_padded) {
    for (size_t i = 0; i < response_count_; ++i) {
        if (responses_[i].space == space && responses_[i].response.token == challenge.token) {
            return;
        }
    }
    const DueResponse due{space, {challenge.token}, was_padded};
    if (response_count_ < kMaxResponses) {
        responses_[response_count_++] = due;
        return;
    }
    // Where many sendings of one challenge come at once, the newest tells most.
    const auto oldest = std::find_if(responses_.begin(), responses_.end(),
                                     [&](const DueResponse& any) { return any.space == space; });
    if (oldest != responses_.end()) {
        *oldest = due;
    }
}

bool PathSet::on_response(const wire::Space& space, const wire::Response& response, TimePoint now) {
    const Path::Answer answer =
        paths_[space.path].on_response(space.traffic_class, response.token, now);
    if (answer.is_of_path && active_ == space.path) {
        end_doubt();
        if (answer.was_announced) {
            withdraw_again();
        }
    }
    return answer.is_news;
}

// --- What left

void PathSet::on_sent(const Destination& destination,
                      uint64_t bytes,
                      bool wants_answer,
                      TimePoint now) {
    Path& path = paths_[destination.path];
    path.on_sent(destination.tuple_class, bytes, wants_answer, now);
    // While nothing gets through, any other that comes back is wanted at once.
    if (wants_answer && path.is_active() && path.state() == PathState::Dead &&
        destination.path != wire::kTcpPath) {
        any_used([&](uint8_t index) {
            if (paths_[index].announcements().are_rare(now)) {
                paths_[index].ask_again(now + path::kLongestProbeInterval);
            }
            return false;
        });
    }
}

void PathSet::on_app_limited() {
    any_used([&](uint8_t index) {
        paths_[index].on_app_limited();
        return false;
    });
}

void PathSet::distrust_samples(TimePoint now) {
    any_used([&](uint8_t index) {
        paths_[index].distrust_samples(now);
        return false;
    });
}

// --- Acknowledgements

void PathSet::on_ack_range(uint32_t epoch,
                           const wire::Ack& ack,
                           const wire::AckRange& range,
                           uint8_t arrived_on) {
    if (paths_[ack.space.path].on_ack_range(epoch, ack, range)) {
        acknowledged_ |= mask_of(ack.space.path);
        acknowledged_by_ = arrived_on;
        acknowledged_interval_ =
            std::min<Duration>(std::chrono::milliseconds(ack.interval_ms), kLongestAckInterval);
    }
}

void PathSet::on_acks_read(TimePoint now) {
    for (unsigned left = std::exchange(acknowledged_, PathMask{0}); left != 0; left &= left - 1) {
        const auto index = static_cast<uint8_t>(std::countr_zero(left));
        paths_[index].on_acks_read(acknowledged_by_ == index, acknowledged_interval_, now);
    }
}

void PathSet::on_housekeeping(Duration longest_keepalive, TimePoint now) {
    any_used([&](uint8_t index) {
        paths_[index].on_housekeeping(now);
        return false;
    });
    if (active_) {
        paths_[*active_].keepalive().try_longer(longest_keepalive, now);
    }
}

// --- What there is to send

std::optional<uint8_t> PathSet::on_time(TimePoint now) {
    std::optional<uint8_t> told;
    any_used([&](uint8_t index) {
        const Path::Step step = paths_[index].on_time(now);
        if (step == Path::Step::Asked && active_ == index) {
            ask_others(now);
        } else if (step == Path::Step::Told) {
            told = index;
        }
        return told.has_value();
    });
    return told;
}

std::optional<Probe> PathSet::next_probe(TimePoint now) {
    while (response_count_ > 0) {
        const DueResponse due = responses_[--response_count_];
        const Tuple& tuple = paths_[due.space.path].tuple(due.space.traffic_class);
        if (!tuple.is_known) {
            continue;
        }
        Probe probe{due.space.path, due.space.traffic_class, tuple.remote, tuple.local};
        probe.response = due.response;
        probe.is_padded = due.is_padded;
        return probe;
    }
    std::optional<Probe> probe;
    any_used([&](uint8_t index) {
        probe = probe_of(index, now);
        return probe.has_value();
    });
    return probe || !has_withdrawals() ? probe : withdrawal_probe();
}

// Announcements of the active path, and challenges of the one that is next, say where copies are
// wanted meanwhile.
std::optional<Probe> PathSet::probe_of(uint8_t index, TimePoint now) {
    Path& path = paths_[index];
    if (auto probe = path.announce_probe(announcement_number_, now)) {
        const auto second = path.is_active() ? second_path(now) : std::nullopt;
        if (second) {
            probe->copies = copies_frame(*second);
        }
        return probe;
    }
    if (auto probe = path.challenge_probe(now)) {
        if (role_ == Role::Node && is_in_doubt(now) && second_path(now) == index) {
            probe->copies = copies_frame(index);
        }
        return probe;
    }
    const auto ping = path.ping_probe();
    return ping ? ping : path.mtu_probe(has_narrowed_, now);
}

TimePoint PathSet::next_deadline() const {
    TimePoint earliest = response_count_ > 0 || has_withdrawals() ? TimePoint{} : base::kNever;
    any_used([&](uint8_t index) {
        earliest = std::min(earliest, paths_[index].deadline());
        return false;
    });
    return earliest;
}

}  // namespace continuo::session
