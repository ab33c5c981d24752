#include "common/session/receive_ledger.hpp"

#include "common/wire/frame.hpp"

#include <algorithm>

namespace continuo::session {

using base::Duration;
using base::kNever;
using base::TimePoint;

namespace {

constexpr Duration kLazyAloneInterval = 2 * wire::kAckLazyInterval;

}  // namespace

size_t AckContent::wire_bytes() const {
    wire::Ack frame;
    frame.space = wire::space_from_number(space);
    for (size_t i = 0; i < run_count; ++i) {
        frame.add({static_cast<uint32_t>(runs[i].first), static_cast<uint32_t>(runs[i].last)});
    }
    return frame.size();
}

void ReceiveLedger::on_outer_bytes(size_t bytes) {
    constexpr int64_t kCap = wire::kAckCreditCapBytes * kCreditUnits;
    const auto earned = static_cast<int64_t>(std::min<size_t>(bytes, kCap)) *
                        wire::kAckCreditPermille * kCreditUnits / 1000;
    credit_ = std::min(kCap, credit_ + earned);
}

ReceiveLedger::Space* ReceiveLedger::find(uint16_t number) {
    if (last_found_ < spaces_.size() && spaces_[last_found_]->number == number) {
        return spaces_[last_found_].get();
    }
    const auto found = std::find_if(spaces_.begin(), spaces_.end(),
                                    [&](const auto& space) { return space->number == number; });
    if (found == spaces_.end()) {
        return nullptr;
    }
    last_found_ = static_cast<size_t>(found - spaces_.begin());
    return found->get();
}

ReceiveLedger::Space* ReceiveLedger::find_or_make(uint16_t number) {
    if (Space* const space = find(number)) {
        return space;
    }
    if (spaces_.size() == kMaxLedgerSpaces) {
        ++refused_spaces_;
        return nullptr;
    }
    last_found_ = spaces_.size();
    return spaces_.emplace_back(std::make_unique<Space>(number)).get();
}

// What is older than an ACK reaches cannot be told any more.
void ReceiveLedger::record(Space& space, uint64_t sequence) {
    if (sequence < space.accepted.low()) {
        return;
    }
    space.accepted.set(sequence);
    space.repeat_from = std::min(space.repeat_from, sequence);
    space.repeat_next = std::min(space.repeat_next, sequence);
}

void ReceiveLedger::on_accepted(uint16_t space, uint64_t sequence, bool urgent, TimePoint now) {
    Space* const record_of = find_or_make(space);
    if (record_of == nullptr) {
        return;
    }
    record(*record_of, sequence);
    if (waiting_spaces_ == 0) {
        waiting_since_ = now;
    }
    if (record_of->waiting++ == 0) {
        ++waiting_spaces_;
    }
    overdue_ = overdue_ || record_of->waiting >= kAckEveryDatagrams;
    if (urgent) {
        record_of->urgent = true;
        if (!urgent_) {
            urgent_ = true;
            urgent_since_ = now;
        }
    }
}

void ReceiveLedger::on_stateless(uint16_t space, uint64_t sequence) {
    if (Space* const known = find(space)) {
        record(*known, sequence);
    }
}

TimePoint ReceiveLedger::due_at(bool riding) const {
    if (waiting_spaces_ == 0) {
        return kNever;
    }
    if (overdue_) {
        return waiting_since_;
    }
    if (!urgent_) {
        return waiting_since_ + (riding ? wire::kAckLazyInterval : kLazyAloneInterval);
    }
    const TimePoint spaced =
        has_sent_ ? std::max(urgent_since_, sent_at_ + wire::kAckMinInterval) : urgent_since_;
    const bool may_ride =
        has_reverse_data_ && reverse_data_at_ + wire::kAckRideInterval > urgent_since_;
    return !riding && may_ride ? std::max(spaced, urgent_since_ + wire::kAckRideInterval) : spaced;
}

bool ReceiveLedger::want_ack(TimePoint now, bool reverse_data_waiting) {
    riding_ = reverse_data_waiting;
    if (reverse_data_waiting) {
        has_reverse_data_ = true;
        reverse_data_at_ = now;
    }
    const int64_t cost = kAckFrameBytes + (reverse_data_waiting ? 0 : kAloneBytes);
    return now >= due_at(reverse_data_waiting) && credit_ >= cost * kCreditUnits;
}

TimePoint ReceiveLedger::next_deadline() const {
    return credit_ >= (kAckFrameBytes + kAloneBytes) * kCreditUnits ? due_at(false) : kNever;
}

// The next frame of `space`, from `unbuilt_below` down. False when nothing is left or it does not
// fit.
bool ReceiveLedger::fill(Space& space, size_t room_bytes, AckContent& content) {
    const crypto::SequenceBitmap& accepted = space.accepted;
    const uint64_t floor = std::max(accepted.low(), space.repeat_from);
    content = {};
    content.space = space.number;
    uint64_t end = accepted.find_down(space.unbuilt_below, floor, true);
    while (end > floor && content.run_count < wire::kMaxAckRuns) {
        const uint64_t first = accepted.find_down(end, floor, false);
        content.runs[content.run_count++] = {first, end - 1};
        end = accepted.find_down(first, floor, true);
    }
    while (content.run_count > 0 && content.wire_bytes() > room_bytes) {
        --content.run_count;
    }
    if (content.run_count == 0) {
        return false;
    }
    space.unbuilt_below = content.runs[content.run_count - 1U].first;
    return true;
}

size_t ReceiveLedger::build(std::span<AckContent> out, TimePoint now, size_t room_bytes) {
    size_t count = 0;
    int64_t credit = credit_ / kCreditUnits - (riding_ ? 0 : kAloneBytes);
    const auto add_frame = [&](Space& space) {
        if (count == out.size() || !fill(space, room_bytes, out[count])) {
            return false;
        }
        const size_t bytes = out[count++].wire_bytes();
        room_bytes -= bytes;
        credit -= static_cast<int64_t>(bytes);
        return true;
    };
    for (size_t i = 0; i < spaces_.size(); ++i) {
        Space& space = *spaces_[(next_built_ + i) % spaces_.size()];
        space.unbuilt_below = space.accepted.next();
        space.is_built =
            space.waiting > 0 && (count == 0 || credit >= kAckFrameBytes) && add_frame(space);
    }
    for (const auto& space : spaces_) {
        while (space->is_built && credit >= kAckFrameBytes && add_frame(*space)) {
        }
    }
    if (count > 0) {
        next_built_ = (next_built_ + 1) % spaces_.size();
        settle(now);
    }
    return count;
}

// After an ACK: what it said waits no longer, and is repeated a limited number of times.
void ReceiveLedger::settle(TimePoint now) {
    has_sent_ = true;
    sent_at_ = now;
    waiting_spaces_ = 0;
    urgent_ = false;
    overdue_ = false;
    for (const auto& space : spaces_) {
        if (space->is_built) {
            space->waiting = 0;
            space->urgent = false;
            if (++space->acks == kAckRepeats) {
                space->acks = 0;
                space->repeat_from = space->repeat_next;
                space->repeat_next = space->accepted.next();
            }
        }
        waiting_spaces_ += space->waiting > 0 ? 1U : 0U;
        urgent_ = urgent_ || space->urgent;
        overdue_ = overdue_ || space->waiting >= kAckEveryDatagrams;
    }
    waiting_since_ = now;
    urgent_since_ = now;
}

void ReceiveLedger::on_ack_sent(size_t bytes) {
    credit_ -=
        static_cast<int64_t>(std::min<size_t>(bytes, wire::kAckCreditCapBytes)) * kCreditUnits;
}

}  // namespace continuo::session
