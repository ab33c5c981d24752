// PathSet: whether datagrams sent by this end arrive (docs/PROTOCOL.md section 5.1). Incoming
// datagrams prove nothing of that direction; a RESPONSE does, or an ACK that names a higher number
// than before.
#include "common/base/assert.hpp"
#include "common/session/path_set.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace continuo::session {

using base::Duration;
using base::TimePoint;

namespace {

// Unconfirmed datagrams with packets after which proof is asked for.
constexpr uint64_t kUnconfirmedDatagrams = 4;
// Upper bound of the interval, which doubles, for a peer that answers questions but sends no ACKs.
constexpr Duration kLongestPatience = base::seconds(4);

// Longer intervals reported by a peer are cut: they could delay every probe time-out.
constexpr Duration kLongestAckInterval = base::seconds(2);
// After this long without packets and acknowledgements a path is measured anew.
constexpr Duration kDeliveryLifetime = base::seconds(60);

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
    // Datagrams on another path prove nothing of the way back.
    if (!path.needs_proof) {
        confirm(path, outstanding, now);
    }
    return false;
}

// The node judges the way up. SNAPT judges the way down where it spreads; on the return path the
// node hears nothing if nothing arrives.
TimePoint PathSet::proof_deadline(uint8_t index) const {
    const Path& path = paths_[index];
    const bool is_judge =
        role_ == Role::Node ? path.state == PathState::Usable || path.state == PathState::Challenged
                            : active_ != index && path.tuples[kLtLd].is_proven && is_live(path);
    if (!is_judge || index == wire::kTcpPath || path.needs_proof) {
        return base::kNever;
    }
    if (const TimePoint asked_at = path.tuples[kLtLd].challenged_at; asked_at != base::kNever) {
        // While nothing is heard, the silence is what counts.
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

// True: the path has become doubtful. SNAPT only stops using it, since it owes an answer.
bool PathSet::on_proof_missing(uint8_t index, TimePoint now) {
    Path& path = paths_[index];
    if (path.tuples[kLtLd].challenged_at == base::kNever) {
        ask_for_proof(index, now);
        if (role_ == Role::Node && active_ == index) {
            ask_others(now);
        }
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

// --- What is acknowledged

// A run that is repeated on the path that it took last stays in the log as it left there.
void PathSet::on_sent_again(path::SentRun run, uint8_t index, TimePoint now) {
    CTN_ASSERT(run.count == 1);
    path::Delivery& delivery = delivery_of(index);
    if (delivery.is_waiting(run.space, run.first)) {
        return;
    }
    any_used([&](uint8_t former) {
        const bool was_there = deliveries_[former] != nullptr &&
                               deliveries_[former]->take_out(run.space, run.first, run.first);
        if (was_there && class_ways_[former] != nullptr) {
            class_ways_[former]->forget_sent();  // its ACK confirms no class of that path
        }
        return was_there;
    });
    run.is_repeat = true;
    delivery.on_sent(run, now);
    repeating_ |= mask_of(index);
}

void PathSet::on_ack_range(uint32_t epoch,
                           const wire::Ack& ack,
                           const wire::AckRange& range,
                           uint8_t arrived_on) {
    const uint8_t own = ack.space.path;
    const path::NumberSpace space{epoch, wire::space_number(ack.space)};
    uint64_t sought = uint64_t{range.last} - range.first + 1;  // each is in one log at most
    if (deliveries_[own] != nullptr) {
        std::optional<path::Delivery::Highest> highest;
        if (range.last == ack.highest) {
            highest = path::Delivery::Highest{wire::kAckTimeUnit * ack.delay, ack.clock};
        }
        sought -= deliveries_[own]->on_range(space, range.first, range.last, highest);
        acknowledged_ |= mask_of(own);
    }
    any_in(sought != 0 ? repeating_ : PathMask{0}, [&](uint8_t index) {
        const uint32_t repeats =
            deliveries_[index]->on_repeat_range(space, range.first, range.last);
        named_repeats_ += repeats;
        acknowledged_ |= repeats != 0 ? mask_of(index) : PathMask{0};
        sought -= repeats;
        return sought == 0;
    });
    acknowledged_by_ = arrived_on;
    acknowledged_interval_ =
        std::min<Duration>(std::chrono::milliseconds(ack.interval_ms), kLongestAckInterval);
}

void PathSet::on_acks_read(TimePoint now) {
    for (unsigned left = std::exchange(acknowledged_, PathMask{0}); left != 0; left &= left - 1) {
        const auto index = static_cast<uint8_t>(std::countr_zero(left));
        path::Delivery* const delivery = deliveries_[index].get();
        if (delivery == nullptr) {
            continue;
        }
        delivery->finish_ack(acknowledged_by_ == index, acknowledged_interval_, now);
        note_class_arrived(index, now);
        Path& path = paths_[index];
        path.delivery_bytes_per_s = delivery->rate().bytes_per_s();
        path.is_full = delivery->rate().has_queue();
        path.was_full = delivery->rate().is_known();
        path.loss = delivery->loss(now);
        path.lost_datagrams = delivery->counters().lost_datagrams;
        path.late_datagrams = delivery->counters().late_datagrams;
    }
}

void PathSet::forget_old_deliveries(TimePoint now) {
    any_used([&](uint8_t index) {
        if (deliveries_[index] == nullptr) {
            return false;
        }
        if (deliveries_[index]->is_idle(kDeliveryLifetime, now)) {
            forget_delivery(index);
        } else {
            paths_[index].loss = deliveries_[index]->loss(now);
            deliveries_[index]->release();
            if (!deliveries_[index]->log().has_repeats()) {
                repeating_ &= static_cast<PathMask>(~mask_of(index));
            }
        }
        return false;
    });
}

// Datagrams that were held up by the silence are sent again, and old acknowledgements with them.
void PathSet::distrust_round_trip(uint8_t index, TimePoint now) {
    if (deliveries_[index] != nullptr) {
        deliveries_[index]->distrust_round_trips(now);
    }
}

void PathSet::distrust_samples(TimePoint now) {
    for (const auto& delivery : deliveries_) {
        if (delivery != nullptr) {
            delivery->distrust_samples(now);
        }
    }
}

void PathSet::forget_round_trips(uint8_t index) {
    forget_delivery(index);
    Path& path = paths_[index];
    path.rtt.reset();
    path.rtt_at_most = {};
}

void PathSet::forget_delivery(uint8_t index) {
    deliveries_[index].reset();
    if (class_ways_[index] != nullptr) {
        class_ways_[index]->forget_sent();
    }
    pings_due_ &= static_cast<PathMask>(~mask_of(index));
    repeating_ &= static_cast<PathMask>(~mask_of(index));
    paths_[index].delivery_bytes_per_s = 0;
    paths_[index].is_full = false;
    paths_[index].was_full = false;
    paths_[index].loss.reset();
}

// Whether probe time-outs apply. A dead path is probed by announcements; TCP repeats by itself.
bool PathSet::is_probed(uint8_t index) const {
    return deliveries_[index] != nullptr && index != wire::kTcpPath && is_live(paths_[index]);
}

std::optional<Probe> PathSet::ping_probe(uint8_t index) {
    if ((pings_due_ & mask_of(index)) == 0) {
        return std::nullopt;
    }
    pings_due_ &= static_cast<PathMask>(~mask_of(index));
    const Tuple& tuple = paths_[index].tuples[kLtLd];
    if (!tuple.is_known) {
        return std::nullopt;
    }
    Probe probe{index, base::TrafficClass::LtLd, tuple.remote, tuple.local};
    probe.has_ping = true;
    return probe;
}

}  // namespace continuo::session
