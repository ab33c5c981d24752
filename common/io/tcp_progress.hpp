// TcpProgress: whether a TCP connection gets anything through, as the kernel knows it. The kernel
// does not tell by itself.
#pragma once

#include "common/base/time.hpp"

#include <cstdint>

namespace continuo::io {

struct TcpProgress {
    bool is_owed = false;         // something is not acknowledged
    uint32_t timeouts = 0;        // its retransmission timer's, since the last new acknowledgement
    base::Duration timeout{};     // that timer's, now
    uint64_t received_bytes = 0;  // without a gap
    bool has_gap = false;         // later bytes wait for those that are missing
};

// The socket's received bytes must have been read. Values that the kernel does not know are zero.
TcpProgress progress_of(int fd);

// Keeps in mind for how long a gap has been there.
class TcpStall {
  public:
    // True: the same bytes were sent again `timeouts` times in vain, in either direction. The other
    // end's timer is taken to be as long as this one's.
    bool is_stuck(const TcpProgress& progress, uint32_t timeouts, base::TimePoint now) {
        if (!progress.has_gap) {
            gap_since_ = base::kNever;
        } else if (gap_since_ == base::kNever || progress.received_bytes != received_bytes_) {
            gap_since_ = now;
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
