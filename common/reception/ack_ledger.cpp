#include "common/reception/ack_ledger.hpp"

#include <algorithm>

namespace continuo::reception {

using base::Duration;
using base::TimePoint;
using base::TrafficClass;

namespace {

constexpr Duration kRateSpan = base::milliseconds(500);
constexpr double kAckShare = static_cast<double>(wire::kAckCreditPermille) / 1000;

constexpr uint8_t bit_of(TrafficClass any) {
    return static_cast<uint8_t>(1U << base::index_of(any));
}

}  // namespace

void AckLedger::set_rtt(Duration smoothed_rtt) {
    floor_ = smoothed_rtt == Duration{} ? kLongestFloor
                                        : std::min<Duration>(smoothed_rtt / 4, kLongestFloor);
}

// Numbers too old for the bitmap are not reported: the replay window ends there, too.
void AckLedger::record(Class& state, const Arrival& arrival, TimePoint now) {
    if (arrival.number < state.all.low()) {
        return;
    }
    const bool is_newest = arrival.number >= state.all.next();
    state.all.set(arrival.number);
    if (arrival.kind == AckKind::Received && !state.received_only) {
        state.received_only = std::make_unique<crypto::SequenceBitmap>();
    }
    if (arrival.kind == AckKind::Received && arrival.number >= state.received_only->low()) {
        state.received_only->set(arrival.number);
    }
    if (is_newest) {
        state.highest_at = now;
        return;
    }
    // A number that comes late is reported as often as one that comes in order.
    state.told_from = std::min(state.told_from, arrival.number);
    for (uint32_t& told_to : state.told_to) {
        told_to = std::min(told_to, arrival.number);
    }
    const size_t slot = base::index_of(arrival.traffic_class);
    for (SentAck& sent : sent_) {
        sent.told_to[slot] = std::min(sent.told_to[slot], arrival.number);
    }
}

void AckLedger::count_rate(uint32_t bytes, TimePoint now) {
    const Duration span = now - rate_since_;
    if (span >= kRateSpan) {
        const double rate =
            static_cast<double>(rate_bytes_) / std::chrono::duration<double>(span).count();
        bytes_per_s_ = span >= 4 * kRateSpan ? rate : (bytes_per_s_ + rate) / 2;
        rate_since_ = now;
        rate_bytes_ = 0;
    }
    rate_bytes_ += bytes;
}

void AckLedger::on_datagram(const Arrival& arrival, TimePoint now) {
    constexpr int64_t kCap = int64_t{wire::kAckCreditCapBytes} * kCreditUnits;
    credit_ = std::min(kCap, credit_ + int64_t{arrival.outer_bytes} * wire::kAckCreditPermille);
    count_rate(arrival.outer_bytes, now);
    auto& state = classes_[base::index_of(arrival.traffic_class)];
    if (!state) {
        state = std::make_unique<Class>();
    }
    ++state->received;
    record(*state, arrival, now);
    if (!arrival.has_packets && !arrival.is_asked && !arrival.is_urgent) {
        return;
    }
    ++pending_datagrams_;
    if (arrival.is_asked && arrival.number >= state->all.low()) {
        asked_since_ = asked_classes_ == 0 ? now : asked_since_;
        asked_classes_ |= bit_of(arrival.traffic_class);
    }
    if (!arrival.has_packets && !arrival.is_urgent) {
        return;
    }
    has_news_ = true;
    pending_bytes_ += arrival.has_packets ? arrival.outer_bytes : 0;
    if ((arrival.is_urgent || pending_bytes_ >= kOwedBytes) && owed_since_ == base::kNever) {
        owed_since_ = now;
    }
}

TimePoint AckLedger::due_at(bool rides) const {
    if (!has_news_ && asked_classes_ == 0) {
        return base::kNever;
    }
    if (pending_datagrams_ >= kEveryDatagrams) {
        return TimePoint{};
    }
    const TimePoint owed_since =
        std::min(asked_since_, is_bare_answer() ? base::kNever : owed_since_);
    const TimePoint spaced =
        sent_at_ ? *sent_at_ + (owed_since != base::kNever ? floor_ : kLazyInterval) : TimePoint{};
    if (rides) {
        return spaced;
    }
    return owed_since == base::kNever ? base::kNever : std::max(spaced, owed_since + floor_);
}

bool AckLedger::wants(bool rides, TimePoint now) const {
    const int64_t cost = rides ? kFrameBytes : kAloneBytes;
    return now >= due_at(rides) && may_cost(cost);
}

TimePoint AckLedger::deadline() const {
    return may_cost(kAloneBytes) ? due_at(false) : base::kNever;
}

Duration AckLedger::interval(TimePoint now) const {
    // A pause is not a thin link: after it the remaining credit pays for acknowledgements.
    if (bytes_per_s_ <= 0 || now - rate_since_ >= 4 * kRateSpan) {
        return floor_;
    }
    const double earned_in = static_cast<double>(kAloneBytes) / (bytes_per_s_ * kAckShare);
    const auto thin = base::microseconds(static_cast<int64_t>(std::min(earned_in, 1.0) * 1e6));
    return std::clamp<Duration>(thin, floor_, kLongestInterval);
}

// Ranges of both kinds, from the newest down.
void AckLedger::fill(const Class& state, const Part& part, AckBlock& block) {
    const uint64_t floor = part.floor;
    block.range_count = 0;
    block.received = state.received;
    const auto is_received_only = [&](uint64_t number) {
        return state.received_only != nullptr && state.received_only->contains(number);
    };
    uint64_t end = state.all.find_down(state.all.next(), floor, true);
    while (end > floor && block.range_count < part.most) {
        const uint64_t gap = state.all.find_down(end, floor, false);
        const bool received_only = is_received_only(end - 1);
        uint64_t first = gap;
        if (state.received_only != nullptr) {
            const uint64_t known = std::min(end, state.received_only->next());
            // All numbers behind the newest of that kind are applied.
            if (!received_only && known > gap) {
                first = std::max(gap, state.received_only->find_down(known, gap, true));
            } else if (received_only) {
                first = std::max(gap, state.received_only->find_down(end, gap, false));
            }
        }
        block.ranges[block.range_count++] = {static_cast<uint32_t>(first),
                                             static_cast<uint32_t>(end - 1),
                                             received_only ? AckKind::Received : AckKind::Applied};
        end = first > gap ? first : state.all.find_down(gap, floor, true);
    }
}

template <typename PartOf>
size_t AckLedger::build_from(std::span<AckBlock> out, TimePoint now, const PartOf& part_of) const {
    size_t count = 0;
    for (size_t i = 0; i < classes_.size() && count < out.size(); ++i) {
        const std::optional<Part> part = classes_[i] ? part_of(*classes_[i]) : std::nullopt;
        if (part) {
            AckBlock& block = out[count];
            block.traffic_class = static_cast<TrafficClass>(i);
            block.delay = now - classes_[i]->highest_at;
            fill(*classes_[i], *part, block);
            count += block.range_count > 0 ? 1U : 0U;
        }
    }
    return count;
}

size_t AckLedger::build(std::span<AckBlock> out, TimePoint now) const {
    const size_t most = is_bare_answer() ? kNewestRanges : AckBlock::kMostRanges;
    return build_from(out, now, [most](const Class& state) {
        return std::optional(Part{std::max<uint64_t>(state.all.low(), state.told_from), most});
    });
}

size_t AckLedger::build_newest(std::span<AckBlock> out, TimePoint from, TimePoint now) const {
    return build_from(out, now, [from](const Class& state) {
        return state.highest_at >= from ? std::optional(Part{state.all.low(), kNewestRanges})
                                        : std::nullopt;
    });
}

void AckLedger::on_sent(
    std::span<const AckBlock> blocks, uint64_t id, size_t bytes, bool is_all, TimePoint now) {
    const bool is_bare = is_bare_answer();
    sent_at_ = now;
    for (const AckBlock& block : blocks) {
        asked_classes_ &= static_cast<uint8_t>(~bit_of(block.traffic_class));
    }
    asked_since_ = asked_classes_ != 0 ? asked_since_ : base::kNever;
    if (is_bare) {
        pending_datagrams_ = 0;
        return;
    }
    SentAck& sent = sent_[next_sent_];
    next_sent_ = (next_sent_ + 1) % kRemembered;
    sent = {id, true, {}};
    for (const AckBlock& block : blocks) {
        const size_t slot = base::index_of(block.traffic_class);
        Class& state = *classes_[slot];
        const auto next = static_cast<uint32_t>(state.all.next());
        sent.told_to[slot] = next;
        state.told_from = std::max(state.told_from, state.told_to[kRepeats - 2]);
        std::shift_right(state.told_to.begin(), state.told_to.end(), 1);
        state.told_to[0] = next;
    }
    credit_ -= static_cast<int64_t>(bytes) * kCreditUnits;
    if (!is_all) {
        return;
    }
    has_news_ = false;
    asked_classes_ = 0;
    asked_since_ = base::kNever;
    owed_since_ = base::kNever;
    pending_bytes_ = 0;
    pending_datagrams_ = 0;
}

void AckLedger::on_acknowledged(uint64_t first_id, uint64_t last_id) {
    for (SentAck& sent : sent_) {
        if (!sent.is_open || sent.id < first_id || sent.id > last_id) {
            continue;
        }
        sent.is_open = false;
        for (size_t slot = 0; slot < classes_.size(); ++slot) {
            if (classes_[slot]) {
                Class& state = *classes_[slot];
                state.told_from = std::max(state.told_from, sent.told_to[slot]);
            }
        }
    }
}

}  // namespace continuo::reception
