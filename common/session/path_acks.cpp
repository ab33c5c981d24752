// PathSet: what acknowledgements say, and which log each belongs to (docs/PROTOCOL.md section 6.7).
#include "common/base/assert.hpp"
#include "common/session/path_set.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace continuo::session {

using base::Duration;
using base::TimePoint;

namespace {

// Longer intervals reported by a peer are cut: they could delay every probe time-out.
constexpr Duration kLongestAckInterval = base::seconds(2);
// After this long without packets and acknowledgements a path is measured anew.
constexpr Duration kDeliveryLifetime = base::seconds(60);

}  // namespace

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
        const uint32_t named = deliveries_[own]->on_range(space, range.first, range.last, highest);
        sought -= named;
        acknowledged_ |= mask_of(own);
        answered_ |= named != 0 && arrived_on == own ? mask_of(own) : PathMask{0};
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
        if ((answered_ & mask_of(index)) != 0) {
            path.answered_at = now;
        }
        path.delivery_bytes_per_s = delivery->rate().bytes_per_s();
        path.is_full = delivery->rate().has_queue();
        path.was_full = delivery->rate().is_known();
        path.loss = delivery->loss(now);
        path.lost_datagrams = delivery->counters().lost_datagrams;
        path.late_datagrams = delivery->counters().late_datagrams;
    }
    answered_ = 0;
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

// When a node asks a path on which nothing came after packets. SNAPT asks over control.
TimePoint PathSet::ping_deadline(uint8_t index) const {
    return role_ == Role::Node && is_probed(index) ? deliveries_[index]->ask_at() : base::kNever;
}

bool PathSet::take_ping(uint8_t index) {
    const bool is_due = (pings_due_ & mask_of(index)) != 0;
    pings_due_ &= static_cast<PathMask>(~mask_of(index));
    return is_due;
}

std::optional<Probe> PathSet::ping_probe(uint8_t index) {
    if (!take_ping(index)) {
        return std::nullopt;
    }
    const Tuple& tuple = paths_[index].tuples[base::index_of(base::TrafficClass::LtLd)];
    if (!tuple.is_known) {
        return std::nullopt;
    }
    Probe probe{index, base::TrafficClass::LtLd, tuple.remote, tuple.local};
    probe.has_ping = true;
    return probe;
}

}  // namespace continuo::session
