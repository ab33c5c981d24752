// LossDetector: which datagrams of a path are lost (RFC 9002 section 6.1). A datagram is lost when
// a later one is acknowledged: of the same space beyond the packet threshold, or of the path beyond
// the time threshold. Both thresholds grow with the reordering seen (RFC 8985, section 6.2, step
// 4): a datagram that is acknowledged after it was declared lost shows how far one can be
// overtaken.
#pragma once

#include "common/recovery/rtt_estimator.hpp"
#include "common/recovery/sent_log.hpp"

#include <optional>

namespace continuo::recovery {

class LossDetector {
  public:
    static constexpr uint32_t kPacketThreshold = 3;  // RFC 9002, 6.1.1
    // In numbers; the value of Linux tcp_max_reordering.
    static constexpr uint32_t kMostPacketThreshold = 300;
    // Loss episodes without a late datagram after which the thresholds fall back (RFC 8985, 7.2).
    static constexpr uint32_t kReorderingPersists = 16;
    // A repeated datagram is acknowledged with the space of another path, whose ACKs leave apart
    // and later. A choice: nothing bounds by how much, since few bytes of a space are owed none.
    static constexpr base::Duration kRepeatMargin = base::seconds(1);

    // The datagrams `bits` of `run` were acknowledged; they left at `run.sent_at`.
    void on_acknowledged(SentLog::Position position, const SentRun& run, uint64_t bits);
    // The datagrams `late` of `run` had been declared lost; the newest arrived at `arrived_at`.
    void on_late(const SentRun& run, uint64_t late, base::TimePoint arrived_at);

    // Marks the datagrams that are lost by now and calls on_lost(run, bits).
    template <typename OnLost>
    void detect(SentLog& log, const RttEstimator& rtt, base::TimePoint now, const OnLost& on_lost) {
        deadline_ = base::kNever;
        bool has_lost = false;
        const base::Duration span = time_threshold(rtt);
        for (auto position = log.begin(); position < newest_acknowledged_; ++position) {
            SentRun& run = log.at(position);
            if (run.outstanding == 0) {
                continue;
            }
            uint64_t bits = overtaken(run) & run.outstanding;
            const base::TimePoint lost_at =
                run.last_sent_at + span + (run.is_repeat ? kRepeatMargin : base::Duration{});
            if (lost_at <= now) {
                bits = run.outstanding;
            } else if (bits != run.outstanding) {
                deadline_ = std::min(deadline_, lost_at);
            }
            if (bits != 0) {
                run.outstanding &= ~bits;
                run.lost |= bits;
                has_lost = true;
                on_lost(run, bits);
            }
        }
        note_episode(has_lost, now, rtt.smoothed());
    }
    // When more datagrams will be lost unless an ACK comes; kNever: none.
    base::TimePoint deadline() const { return deadline_; }

    // The largest acknowledged number of the space.
    std::optional<uint32_t> largest(const NumberSpace& space) const;
    uint32_t packet_threshold() const { return packet_threshold_; }
    // 9/8 of a round trip (RFC 9002, 6.1.2), or the longest recent lateness if that is more; at
    // most two round trips.
    base::Duration time_threshold(const RttEstimator& rtt) const;

  private:
    struct Largest {
        NumberSpace space;
        uint32_t number = 0;
        SentLog::Position position = 0;
    };

    Largest* find(const NumberSpace& space);
    const Largest* find(const NumberSpace& space) const;
    // The datagrams of `run` that are lost by the packet threshold.
    uint64_t overtaken(const SentRun& run);
    void note_episode(bool has_lost, base::TimePoint now, base::Duration round_trip);

    std::array<Largest, SentLog::kMostSpaces> largest_{};
    size_t spaces_ = 0;
    SentLog::Position newest_acknowledged_ = 0;
    base::TimePoint deadline_ = base::kNever;
    uint32_t packet_threshold_ = kPacketThreshold;
    base::Duration reordering_{};
    uint32_t episodes_left_ = 0;
    base::TimePoint episode_ends_at_{};
};

}  // namespace continuo::recovery
