#include "common/host/clock_sync.hpp"

#include <ctime>

#include <sys/timex.h>

namespace continuo::host {
namespace {

constexpr int kAttempts = 3;
// The difference of the clocks is exact to this. A choice, far below any step of interest.
constexpr int64_t kExactUs = 10'000;

int64_t now_us(clockid_t clock) {
    timespec time{};
    ::clock_gettime(clock, &time);
    return int64_t{time.tv_sec} * 1'000'000 + time.tv_nsec / 1000;
}

}  // namespace

bool is_clock_synchronised() {
    timex state{};
    const int kept = ::adjtimex(&state);
    return kept != -1 && kept != TIME_ERROR;
}

std::optional<Clocks> read_clocks() {
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
        Clocks clocks;
        clocks.boot_us = now_us(CLOCK_BOOTTIME);
        clocks.utc_us = now_us(CLOCK_REALTIME);
        if (now_us(CLOCK_BOOTTIME) - clocks.boot_us <= kExactUs) {
            return clocks;
        }
    }
    return std::nullopt;
}

}  // namespace continuo::host
