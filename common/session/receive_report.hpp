// ReceiveReport: what this end tells its peer of the datagrams that arrive, for one epoch
// (docs/PROTOCOL.md section 6.7). Counts each space in which something comes, judges which numbers
// are lost, and says when a REPORT is worth its bytes. A new epoch gets a new object.
//
//                                   on a datagram that leaves anyway     alone
//   packets came                    T_report after the last              2 T_report, at most 1 s,
//   if
//                                                                        4000 bytes came; else 1 s
//   fewer than 4 datagrams of them  the same                             never
//   no packets came                 1 s after the last                   never
//   8192 datagrams came             at once                              at once
//
// And only within the byte credit of acknowledgements, which the caller keeps. T_report: a round
// trip, at least 100 ms, at most 1 s. A space that is used costs about 150 bytes.
#pragma once

#include "common/base/time.hpp"
#include "common/crypto/replay_window.hpp"
#include "common/wire/frame.hpp"

#include <memory>
#include <span>
#include <vector>

namespace continuo::session {

// Spaces of lane 0. What comes in others is not reported.
inline constexpr size_t kMaxReportedSpaces = 64;
// So few datagrams with packets tell nothing that is worth a datagram of its own.
inline constexpr uint32_t kReportAloneDatagrams = 4;
// A report alone costs the credit of these; of so many more it costs nothing to speak of.
inline constexpr uint64_t kReportSoonBytes = 4000;
inline constexpr uint64_t kReportSoonestBytes = 32'000;
// What a REPORT costs, and what the datagram costs that carries nothing else.
inline constexpr int64_t kReportFrameBytes = 20;
inline constexpr size_t kMaxReportBytes = 64;
inline constexpr int64_t kReportAloneBytes = 50;

class ReceiveReport {
  public:
    // A datagram of `bytes` of UDP payload that was authenticated, marked in `window` and applied.
    // The window must outlive this object.
    void on_datagram(uint16_t number,
                     const crypto::ReplayWindow& window,
                     uint64_t sequence,
                     size_t bytes,
                     bool has_packets,
                     base::TimePoint now);
    // A TIME frame came in one, after on_datagram().
    void on_time_frame(uint16_t number, uint32_t clock, base::TimePoint now);
    // The shortest of the paths in use: what T_report follows.
    void set_rtt(base::Duration rtt);

    // `rides`: on a datagram that leaves anyway.
    bool wants(base::TimePoint now, bool rides, int64_t credit_bytes) const;
    // What to send after wants() said so, and from then on counted as sent, as far as there is
    // room. Gives the number of frames.
    size_t build(std::span<wire::Report> out, size_t room_bytes, base::TimePoint now);

    // When a report is to be sent alone; kNever while none is worth it.
    base::TimePoint next_deadline(int64_t credit_bytes) const;
    base::Duration interval() const { return interval_; }
    // Numbers given up, less those that came later.
    uint64_t lost() const { return lost_; }
    // Numbers of all spaces up to the highest that came which have not come: those that are only
    // late among them. Needs no report, which a space in which little comes waits for long.
    uint64_t missing() const;

  private:
    struct Space {
        uint16_t number = 0;
        const crypto::ReplayWindow* window = nullptr;
        uint64_t judged = 0;      // numbers below have arrived or are lost
        uint64_t missing = 0;     // of them, when they were judged
        uint64_t next = 0;        // highest number + 1 at the last report
        uint64_t duplicates = 0;  // at the last report
        base::TimePoint began{};  // of what the next report covers
        uint64_t bytes = 0;       // since then, as all that follows
        uint64_t datagrams = 0;
        uint64_t late = 0;
        bool has_packets = false;
        bool has_time = false;
        uint32_t clock = 0;  // the newest TIME
        base::TimePoint clock_at{};
        uint16_t first_delay = 0;
        uint16_t smallest_delay = 0;
        int64_t delay_sum = 0;  // differences to the first
        int64_t delays = 0;
    };

    Space* find(uint16_t number);
    base::TimePoint due_at(bool rides) const;
    wire::Report describe(Space& space, base::TimePoint now);
    static void begin_anew(Space& space);

    std::vector<std::unique_ptr<Space>> spaces_;
    size_t last_found_ = 0;
    base::Duration interval_ = wire::kReportShortest;
    bool is_pending_ = false;
    base::TimePoint pending_since_{};
    base::TimePoint sent_at_{};
    uint64_t pending_datagrams_ = 0;
    uint64_t pending_packets_ = 0;  // datagrams with packets
    uint64_t pending_bytes_ = 0;
    uint64_t lost_ = 0;
};

// Of TIME and the delays of REPORT, with any zero.
inline uint32_t clock_at(base::TimePoint now) {
    return static_cast<uint32_t>(static_cast<uint64_t>(now.time_since_epoch() / wire::kClockUnit) %
                                 wire::kClockModulus);
}

}  // namespace continuo::session
