// PathSet: whether what is sent arrives (docs/PROTOCOL.md section 5.1). That datagrams come in says
// nothing of the other direction: what says so is a RESPONSE, and an ACK or REPORT that names a
// higher number than before.
#include "common/session/path_set.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace continuo::session {

using base::Duration;
using base::TimePoint;

namespace {

// So many datagrams with packets that nothing has confirmed are a reason to ask.
constexpr uint64_t kUnconfirmedDatagrams = 4;
// A peer that answers a question, but does not report, is asked again after twice the time each.
constexpr Duration kLongestPatience = base::seconds(4);

// IP and UDP header. TCP's share of headers is about the same.
constexpr uint32_t kOverheadIpv4 = 28;
constexpr uint32_t kOverheadIpv6 = 48;

constexpr size_t kLtLd = base::index_of(base::TrafficClass::LtLd);

}  // namespace

void PathSet::note_unconfirmed(Path& path, TimePoint now) {
    if (path.unconfirmed_datagrams++ == 0) {
        path.unconfirmed_since = now;
    }
}

bool PathSet::confirm(Path& path, uint64_t outstanding, TimePoint now) {
    path.proof_wanted_from = now;
    path.unconfirmed_datagrams = outstanding;
    path.unconfirmed_since = now;
    if (!path.needs_proof) {
        return false;
    }
    path.needs_proof = false;
    path.unanswered_since = base::kNever;
    if (path.state != PathState::Doubtful) {
        return false;
    }
    path.state = path.has_answered ? PathState::Usable : PathState::Challenged;
    return path.has_answered;
}

bool PathSet::on_feedback(uint8_t index, uint8_t arrived_on, uint64_t outstanding, TimePoint now) {
    Path& path = paths_[index];
    path.proof_patience = {};
    if (arrived_on == index) {
        return confirm(path, outstanding, now);
    }
    // What came by another way says nothing of the way back.
    if (!path.needs_proof) {
        confirm(path, outstanding, now);
    }
    return false;
}

// Of the way up the node is the judge. Of the way down SNAPT is, where it spreads; on the return
// path the node hears nothing if nothing gets there.
TimePoint PathSet::proof_deadline(uint8_t index) const {
    const Path& path = paths_[index];
    const bool is_judge =
        role_ == Role::Node ? path.state == PathState::Usable || path.state == PathState::Challenged
                            : active_ != index && path.tuples[kLtLd].is_proven && is_live(path);
    if (!is_judge || index == wire::kTcpPath || path.needs_proof) {
        return base::kNever;
    }
    if (const TimePoint asked_at = path.tuples[kLtLd].challenged_at; asked_at != base::kNever) {
        // While nothing is heard, the silence counts.
        return path.heard_at > asked_at
                   ? std::max(asked_at, path.proof_wanted_from) + doubt_after(path)
                   : base::kNever;
    }
    const bool is_unconfirmed = path.unconfirmed_datagrams >= kUnconfirmedDatagrams &&
                                path.heard_at > path.unconfirmed_since;
    return is_unconfirmed ? path.unconfirmed_since + std::max(ask_after(path), path.proof_patience)
                          : base::kNever;
}

// From here on only proof ends the silence.
void PathSet::ask_for_proof(uint8_t index, TimePoint now) {
    Path& path = paths_[index];
    const PathState state = path.state;
    start_challenge(path, path.tuples[kLtLd], now);
    path.state = state;
    path.needs_proof = true;
    path.unanswered_since = now - ask_after(path);
    path.proof_patience =
        std::min<Duration>(std::max(path.proof_patience, ask_after(path)) * 2, kLongestPatience);
}

// True: the path is doubtful now. At SNAPT it is just not used, since it owes an answer.
bool PathSet::on_proof_missing(uint8_t index, TimePoint now) {
    Path& path = paths_[index];
    if (path.tuples[kLtLd].challenged_at == base::kNever) {
        ask_for_proof(index, now);
        return false;
    }
    path.needs_proof = true;
    path.unanswered_since = now - doubt_after(path);
    if (role_ == Role::Snapt) {
        return false;
    }
    path.state = PathState::Doubtful;
    return true;
}

void PathSet::expect_nothing(Path& path) {
    path.unanswered_since = base::kNever;
    path.unconfirmed_datagrams = 0;
    path.needs_proof = false;
}

// --- What is reported

void PathSet::on_report(uint32_t epoch, const wire::Report& report, uint8_t arrived_on) {
    const uint8_t index = report.space.path;
    if (reports_[index] == nullptr) {
        return;
    }
    const base::IpAddress& remote = paths_[index].tuples[kLtLd].remote.address;
    reports_[index]->on_report(epoch, report, remote.is_v4() ? kOverheadIpv4 : kOverheadIpv6,
                               arrived_on == index);
    reported_ |= mask_of(index);
    reported_by_ = arrived_on;
}

// Between the arrival of the newest datagram that is reported and that of the REPORT, and what the
// datagram had been on the way before when it found no queue.
std::optional<Duration> PathSet::lag(uint8_t index) const {
    const auto more = delay_beyond(index, reported_by_);
    const auto round_trip = more ? reports_[reported_by_]->base_round_trip() : std::nullopt;
    if (round_trip) {
        return std::max<Duration>(*round_trip + *more, Duration{});
    }
    const Duration there = base_rtt(index);
    const Duration back = base_rtt(reported_by_);
    if (there == Duration{}) {
        return std::nullopt;
    }
    return back != Duration{} ? (there + back) / 2 : there;
}

void PathSet::on_reports_read(TimePoint now) {
    for (unsigned left = std::exchange(reported_, PathMask{0}); left != 0; left &= left - 1) {
        const auto index = static_cast<uint8_t>(std::countr_zero(left));
        PathReport* const report = reports_[index].get();
        if (report != nullptr) {
            report->on_read(now);
        }
        if (report == nullptr || !report->has_report()) {
            continue;
        }
        Path& path = paths_[index];
        if (const auto sample = report->finish(path.smoothed_rtt, now)) {
            take_rtt_sample(path, *sample);
        }
        if (const auto since = lag(index)) {
            report->on_lag(*since, now);
        }
        path.delivery_bytes_per_s = report->delivery_bytes_per_s();
        path.is_full = report->is_bottleneck();
        path.was_full = report->was_bottleneck();
        path.loss = report->loss(now);
        path.lost_datagrams = report->lost();
        path.late_datagrams = report->late();
        path.duplicate_datagrams = report->duplicates();
    }
}

void PathSet::forget_old_reports(TimePoint now) {
    any_used([&](uint8_t index) {
        if (reports_[index] != nullptr && reports_[index]->is_idle(now)) {
            forget_reports(index);
        } else if (reports_[index] != nullptr) {
            paths_[index].loss = reports_[index]->loss(now);
        }
        return false;
    });
}

// What was held up since is sent again, and with it REPORTs that are old.
void PathSet::distrust_round_trip(uint8_t index, TimePoint now) {
    if (reports_[index] != nullptr) {
        reports_[index]->distrust_round_trip(now);
    }
}

void PathSet::forget_round_trips(uint8_t index) {
    forget_reports(index);
    Path& path = paths_[index];
    path.smoothed_rtt = {};
    path.rtt_variation = {};
    path.rtt_at_most = {};
    path.rtt_samples = 0;
}

void PathSet::forget_reports(uint8_t index) {
    reports_[index].reset();
    paths_[index].delivery_bytes_per_s = 0;
    paths_[index].is_full = false;
    paths_[index].was_full = false;
    paths_[index].loss.reset();
}

}  // namespace continuo::session
