// TcpProgress: whether a TCP connection gets anything through, as the kernel knows it. The kernel
// does not tell by itself.
#pragma once

#include "common/base/time.hpp"

#include <cstdint>

namespace continuo::io {

struct TcpProgress {
    bool is_owed = false;             // something is not acknowledged
    bool has_gap = false;             // later bytes wait for those that are missing
    base::Duration timeout{};         // RTO (RFC 6298), without its doublings
    uint64_t acknowledged_bytes = 0;  // both without a gap
    uint64_t received_bytes = 0;
};

// The socket's received bytes must have been read. All zero where it is not TCP.
TcpProgress progress_of(int fd);

// Keeps in mind since when nothing gets through. Linux counts its time-outs too late for that:
// while new bytes leave, loss probes take the place of its timer (RFC 8985 section 7).
class TcpStall {
  public:
    // True: the same bytes are missing, in either direction, for as long as it takes to send them
    // again `timeouts` times (RFC 6298 section 5). The other end's RTO is taken to be this one's.
    bool is_stuck(const TcpProgress& progress, uint32_t timeouts, base::TimePoint now) {
        const base::Duration longest = progress.timeout * ((1U << timeouts) - 1);
        const bool is_up = up_.lasts(progress.is_owed, progress.acknowledged_bytes, longest, now);
        const bool is_down = down_.lasts(progress.has_gap, progress.received_bytes, longest, now);
        return is_up || is_down;
    }

  private:
    struct Wait {
        base::TimePoint since = base::kNever;
        uint64_t bytes = 0;

        bool lasts(bool waits, uint64_t passed, base::Duration longest, base::TimePoint now) {
            if (!waits) {
                since = base::kNever;
            } else if (since == base::kNever || passed != bytes) {
                since = now;
            }
            bytes = passed;
            return waits && longest > base::Duration{} && now - since >= longest;
        }
    };
    Wait up_;
    Wait down_;
};

}  // namespace continuo::io
