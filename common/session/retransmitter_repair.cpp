// How a Retransmitter follows what it has sent again until ACKs name it.
#include "common/session/ack_ledger.hpp"
#include "common/session/retransmitter.hpp"
#include "common/session/session_types.hpp"

#include <algorithm>

namespace continuo::session {

using base::Duration;
using base::TimePoint;

namespace {

// Repeats of which nothing comes are sent so many times more.
constexpr uint8_t kMostVainRounds = 3;
// A datagram that left this part of a round trip later has not overtaken one (RFC 9002 6.1.2).
constexpr int kReorderingShare = 8;
// The shortest interval of ACKs (docs/PROTOCOL.md section 6.6).
constexpr Duration kShortestLook = base::milliseconds(5);

}  // namespace

// Packets of low-delay classes are late by the time that they are known to be lost.
bool Retransmitter::is_in_repair(const SentEntry& entry) const {
    return is_repairing() && entry.is_repeat && entry.sent_at >= repair_.since &&
           !base::is_low_delay(entry.traffic_class);
}

// More may have left at once than the new path has room for. What left before something that has
// come is lost (RFC 9002 section 6.1.2), and all of it when for a probe time-out nothing comes
// (section 6.2).
void Retransmitter::on_acks_read(TimePoint now) {
    if (!is_repairing() || has_repeats()) {
        return;
    }
    const Duration smoothed = paths_.path(repair_.path).rtt().smoothed();
    if (now - repair_.looked_at < std::max<Duration>(smoothed / kReorderingShare, kShortestLook)) {
        return;  // ACKs alone are not to cost a walk through the ring each
    }
    repeat_overtaken(look_at_repeats(now), now);
}

void Retransmitter::on_repair_timeout(TimePoint now) {
    const Look look = look_at_repeats(now);
    if (look.has_news) {
        repeat_overtaken(look, now);
        return;
    }
    if (++repair_.vain_rounds > kMostVainRounds || now - repair_.since >= kRepeatableFor) {
        repair_.waits_since = base::kNever;
        return;
    }
    repeat_once_more([](const SentEntry&) { return true; }, now);
}

Retransmitter::Look Retransmitter::look_at_repeats(TimePoint now) {
    const Duration shortest = paths_.path(repair_.path).rtt().minimum();
    Look look;
    uint64_t missing = 0;
    sent_.each([&](const SentEntry& entry) {
        if (!is_in_repair(entry)) {
            return;
        }
        missing += missing_bytes(entry);
        const uint64_t sent = entry.is_packet ? own_datagrams(entry) : entry.again;
        const bool has_come = is_of_use(entry) && (sent & ~this->missing(entry)) != 0;
        // An ACK sooner than a round trip after the repeat is of the original (RFC 8985).
        if (has_come && now - entry.sent_at >= shortest) {
            look.newest = std::max(look.newest, entry.sent_at);
        }
    });
    const bool is_first = repair_.missing_bytes == UINT64_MAX;
    look.has_news = is_first ? look.newest != TimePoint{} : missing < repair_.missing_bytes;
    repair_.looked_at = now;
    repair_.missing_bytes = std::min(missing, repair_.missing_bytes);
    if (look.has_news) {
        repair_.waits_since = now;
        repair_.vain_rounds = 0;
    }
    if (missing == 0) {
        repair_.waits_since = base::kNever;
    }
    return look;
}

void Retransmitter::repeat_overtaken(const Look& look, TimePoint now) {
    const Duration reordering = paths_.path(repair_.path).rtt().smoothed() / kReorderingShare;
    repeat_once_more(
        [&](const SentEntry& entry) { return entry.sent_at + reordering < look.newest; }, now);
}

// At half the pace, once for what left at one pace.
template <typename IsLost>
void Retransmitter::repeat_once_more(const IsLost& is_lost, TimePoint now) {
    uint64_t lost = 0;
    TimePoint newest{};
    sent_.mark_due([&](const SentEntry& entry) {
        const uint64_t bytes = is_in_repair(entry) && is_lost(entry) ? missing_bytes(entry) : 0;
        lost += bytes;
        newest = bytes != 0 ? std::max(newest, entry.sent_at) : newest;
        return bytes != 0;
    });
    if (lost == 0) {
        return;
    }
    const bool slows_down = newest >= repair_.slowed_at;
    const Duration span =
        pace_.span != Duration{} ? pace_.span : paths_.path(repair_.path).rtt().smoothed();
    const auto former_bytes = static_cast<int64_t>(std::max<uint64_t>(pace_.bytes, 1));
    pace_.span = std::min<Duration>(
        span * (slows_down ? 2 : 1) * static_cast<int64_t>(lost) / former_bytes, kRepeatableFor);
    pace_.bytes = lost;
    repair_.slowed_at = slows_down ? now : repair_.slowed_at;
    repair_.is_first_round = false;
}

// The round trip of the new path may be known only when something of it has come.
TimePoint Retransmitter::timeout_at() const {
    if (!is_repairing()) {
        return base::kNever;
    }
    const Path& path = paths_.path(repair_.path);
    Duration time_out = path.rtt().probe_timeout() + AckLedger::kLongestFloor;
    if (path.delivery() != nullptr) {
        time_out = std::max(time_out, path.delivery()->probe_timeout());
    }
    return repair_.waits_since + time_out * (1 << repair_.vain_rounds);
}

}  // namespace continuo::session
