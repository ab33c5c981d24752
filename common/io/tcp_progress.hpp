// TcpProgress: whether a TCP connection gets anything through, as the kernel knows it. The kernel
// does not tell by itself.
#pragma once

#include "common/base/time.hpp"

#include <cstdint>

namespace continuo::io {

struct TcpProgress {
    bool is_owed = false;         // something is not acknowledged
    uint32_t timeouts = 0;        // of its retransmission timer since the last new acknowledgement
    base::Duration timeout{};     // of that timer, now
    uint64_t received_bytes = 0;  // without a gap
    bool has_gap = false;         // what came later waits for what is missing
};

// Of a socket whose received bytes have been read. What it cannot say is zero.
TcpProgress progress_of(int fd);

// Keeps in mind for how long a gap has been there.
class TcpStall {
  public:
    // True: the same bytes were sent again `timeouts` times in vain, in either direction. The other
    // end's timer is taken to be as long as this one's.
    bool is_stuck(const TcpProgress& progress, uint32_t timeouts, base::TimePoint now) {
        if (!progress.has_gap || progress.received_bytes != received_bytes_) {
            gap_since_ = progress.has_gap ? now : base::kNever;
        }
        received_bytes_ = progress.received_bytes;
        const base::Duration longest = progress.timeout * ((1U << timeouts) - 1);
        return progress.timeouts >= timeouts ||
               (gap_since_ != base::kNever && now - gap_since_ >= longest);
    }

  private:
    uint64_t received_bytes_ = 0;
    base::TimePoint gap_since_ = base::kNever;
};

}  // namespace continuo::io
