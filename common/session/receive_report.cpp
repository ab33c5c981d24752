#include "common/session/receive_report.hpp"

#include <algorithm>

namespace continuo::session {

using base::Duration;
using base::kNever;
using base::TimePoint;

ReceiveReport::Space* ReceiveReport::find(uint16_t number) {
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

void ReceiveReport::on_datagram(uint16_t number,
                                const crypto::ReplayWindow& window,
                                uint64_t sequence,
                                size_t bytes,
                                bool has_packets,
                                TimePoint now) {
    Space* space = find(number);
    if (space == nullptr) {
        if (spaces_.size() == kMaxReportedSpaces) {
            return;
        }
        last_found_ = spaces_.size();
        space = spaces_.emplace_back(std::make_unique<Space>()).get();
        space->number = number;
        space->window = &window;
    }
    if (space->datagrams++ == 0) {
        // A pause is no part of what is reported: the rate would look lower than it is.
        space->began = now - sent_at_ > wire::kReportShortest ? now : sent_at_;
    }
    space->bytes += bytes;
    space->late += sequence < space->judged ? 1U : 0U;
    space->has_packets = space->has_packets || has_packets;
    if (!is_pending_) {
        is_pending_ = true;
        pending_since_ = now;
    }
    if (has_packets && pending_packets_++ == 0) {
        pending_since_ = now;
    }
    ++pending_datagrams_;
    pending_bytes_ += bytes;
}

void ReceiveReport::on_time_frame(uint16_t number, uint32_t clock, TimePoint now) {
    Space* const space = find(number);
    if (space == nullptr) {
        return;
    }
    const auto delay = static_cast<uint16_t>(clock_at(now) - clock);
    if (!space->has_time) {
        space->has_time = true;
        space->first_delay = delay;
        space->smallest_delay = delay;
    }
    // Differences are small, whatever the two clocks' zeros are.
    const auto more = static_cast<int16_t>(static_cast<uint16_t>(delay - space->first_delay));
    const auto less = static_cast<int16_t>(static_cast<uint16_t>(delay - space->smallest_delay));
    space->delay_sum += more;
    ++space->delays;
    space->smallest_delay = less < 0 ? delay : space->smallest_delay;
    space->clock = clock;
    space->clock_at = now;
}

void ReceiveReport::set_rtt(Duration rtt) {
    interval_ = std::clamp(rtt, wire::kReportShortest, wire::kReportLongest);
}

TimePoint ReceiveReport::due_at(bool rides) const {
    if (!is_pending_) {
        return kNever;
    }
    if (pending_datagrams_ >= wire::kReportEveryDatagrams) {
        return TimePoint{};
    }
    const TimePoint from = std::max(sent_at_, pending_since_);
    if (rides) {
        return from + (pending_packets_ > 0 ? interval_ : wire::kReportLongest);
    }
    if (pending_packets_ < kReportAloneDatagrams) {
        return kNever;
    }
    if (pending_bytes_ >= kReportSoonestBytes) {
        return from + interval_;
    }
    return from + (pending_bytes_ >= kReportSoonBytes
                       ? std::min<Duration>(interval_ * 2, wire::kReportLongest)
                       : wire::kReportLongest);
}

bool ReceiveReport::wants(TimePoint now, bool rides, int64_t credit_bytes) const {
    const int64_t cost = kReportFrameBytes + (rides ? 0 : kReportAloneBytes);
    return is_pending_ && credit_bytes >= cost && now >= due_at(rides);
}

TimePoint ReceiveReport::next_deadline(int64_t credit_bytes) const {
    return credit_bytes >= kReportFrameBytes + kReportAloneBytes ? due_at(false) : kNever;
}

// A number is given up when it has been missing for a whole report, and when the window has left
// it.
wire::Report ReceiveReport::describe(Space& space, TimePoint now) {
    const crypto::ReplayWindow& window = *space.window;
    const uint64_t judged = std::max(space.next, window.low());
    const uint64_t missing = window.missing_below(judged);
    wire::Report report;
    report.space = wire::space_from_number(space.number);
    report.highest = static_cast<uint32_t>(window.next() - 1);
    report.interval_ms =
        static_cast<uint64_t>(std::max<int64_t>(1, base::to_ms(now - space.began)));
    report.bytes = space.bytes;
    report.datagrams = space.datagrams;
    // Late ones that were void are not in space.late.
    report.lost = missing + space.late - std::min(missing + space.late, space.missing);
    report.late = space.late;
    report.duplicates = window.duplicates() - space.duplicates;
    if (space.has_time) {
        const auto mean = static_cast<uint16_t>(space.delay_sum / space.delays);
        wire::ReportDelay delay;
        delay.smallest = space.smallest_delay;
        delay.mean = static_cast<uint16_t>(space.first_delay + mean);
        delay.echo = space.clock;
        delay.held = static_cast<uint32_t>(
            std::min<int64_t>((now - space.clock_at) / wire::kClockUnit, wire::kClockModulus - 1));
        report.delay = delay;
    }
    space.judged = judged;
    space.missing = missing;
    return report;
}

uint64_t ReceiveReport::missing() const {
    uint64_t missing = 0;
    for (const auto& space : spaces_) {
        missing += space->window->missing();
    }
    return missing;
}

void ReceiveReport::begin_anew(Space& space) {
    space.next = space.window->next();
    space.duplicates = space.window->duplicates();
    space.bytes = 0;
    space.datagrams = 0;
    space.late = 0;
    space.has_packets = false;
    space.has_time = false;
    space.delay_sum = 0;
    space.delays = 0;
}

size_t ReceiveReport::build(std::span<wire::Report> out, size_t room_bytes, TimePoint now) {
    size_t count = 0;
    is_pending_ = false;
    for (const bool with_packets : {true, false}) {
        for (const auto& space : spaces_) {
            if (space->datagrams == 0 || space->has_packets != with_packets) {
                continue;
            }
            // Whether it fits is asked before it counts as told.
            if (count == out.size() || room_bytes < kMaxReportBytes) {
                is_pending_ = true;
                continue;
            }
            out[count] = describe(*space, now);
            const wire::Report& report = out[count++];
            lost_ += report.lost;
            lost_ -= std::min(lost_, report.late);
            room_bytes -= report.size();
            begin_anew(*space);
        }
    }
    if (count > 0) {
        sent_at_ = now;
        pending_since_ = now;
        pending_datagrams_ = 0;
        pending_packets_ = 0;
        pending_bytes_ = 0;
    }
    return count;
}

}  // namespace continuo::session
