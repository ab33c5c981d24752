// The wall clock of this host: whether it is synchronised, and when it was set.
#pragma once

#include <cstdint>
#include <optional>

namespace continuo::host {

// An NTP client keeps the clock, as the kernel reports it (adjtimex(2)). False also if none runs.
bool is_clock_synchronised();

// Both clocks at one instant. Their difference changes when the wall clock is set; sleep and the
// rate that NTP gives apply to both.
struct Clocks {
    int64_t utc_us = 0;   // CLOCK_REALTIME
    int64_t boot_us = 0;  // CLOCK_BOOTTIME
};
// Nothing if the thread was interrupted between the two, each time.
std::optional<Clocks> read_clocks();

}  // namespace continuo::host
