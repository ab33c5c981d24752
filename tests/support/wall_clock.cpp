// A wall clock that tests set: loaded before a program by LD_PRELOAD, with the name of a file in
// WALL_CLOCK. Its first eight bytes say by how many microseconds the clock is wrong, and may change
// at any time. Only CLOCK_REALTIME is; timers of the kernel know nothing of it.
#include <cstdint>
#include <cstdlib>
#include <ctime>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

namespace {

constexpr int64_t kUsPerS = 1'000'000;
constexpr int64_t kNsPerUs = 1'000;

const volatile int64_t* g_wrong_us = nullptr;

// Before anything of the program runs, which may give up the right to open files.
__attribute__((constructor)) void open_clock() {
    const char* path = std::getenv("WALL_CLOCK");
    const int file = path != nullptr ? ::open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) {
        return;
    }
    void* bytes = ::mmap(nullptr, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
    if (bytes != MAP_FAILED) {
        g_wrong_us = static_cast<const volatile int64_t*>(bytes);
    }
    ::close(file);
}

timespec wrong_time(clockid_t clock) {
    timespec time{};
    ::syscall(SYS_clock_gettime, clock, &time);
    if (g_wrong_us != nullptr && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        const int64_t us = time.tv_sec * kUsPerS + time.tv_nsec / kNsPerUs + *g_wrong_us;
        time.tv_sec = us / kUsPerS;
        time.tv_nsec = us % kUsPerS * kNsPerUs + time.tv_nsec % kNsPerUs;
    }
    return time;
}

}  // namespace

// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name): the library's are reserved
extern "C" {

int clock_gettime(clockid_t clock, timespec* time) noexcept {
    *time = wrong_time(clock);
    return 0;
}

time_t time(time_t* seconds) noexcept {
    const time_t now = wrong_time(CLOCK_REALTIME).tv_sec;
    if (seconds != nullptr) {
        *seconds = now;
    }
    return now;
}

int gettimeofday(timeval* time, void* /*zone*/) noexcept {
    const timespec now = wrong_time(CLOCK_REALTIME);
    *time = {now.tv_sec, now.tv_nsec / kNsPerUs};
    return 0;
}

}  // extern "C"
// NOLINTEND(readability-inconsistent-declaration-parameter-name)
