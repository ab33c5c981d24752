// machine_stalls: reports when the machine did not run. One thread per core, bound to it, wakes
// every 5 ms; if it wakes more than 20 ms late, a line "FROM TO CORE" (Unix seconds) goes to
// standard output. The threads have no priority over others: a process of the test waits as long as
// they do. tests/e2e/lib_stalls.sh reads the lines. Ends with its parent.
#include <array>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <thread>
#include <vector>

#include <sched.h>
#include <sys/prctl.h>
#include <unistd.h>

namespace {

constexpr int64_t kNsPerS = 1'000'000'000;
constexpr int64_t kTickNs = 5'000'000;
constexpr int64_t kLateNs = 20'000'000;

int64_t nanoseconds(clockid_t clock) {
    timespec time{};
    ::clock_gettime(clock, &time);
    return static_cast<int64_t>(time.tv_sec) * kNsPerS + time.tv_nsec;
}

void sleep_until(int64_t at) {
    const timespec time{.tv_sec = at / kNsPerS, .tv_nsec = at % kNsPerS};
    ::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, nullptr);
}

// One write a line, so that lines of two threads do not mix.
void report(int64_t late, size_t core) {
    const int64_t to = nanoseconds(CLOCK_REALTIME);
    const int64_t from = to - late;
    std::array<char, 80> line{};
    const int length = std::snprintf(
        line.data(), line.size(), "%lld.%06lld %lld.%06lld %zu\n",
        static_cast<long long>(from / kNsPerS), static_cast<long long>(from % kNsPerS / 1000),
        static_cast<long long>(to / kNsPerS), static_cast<long long>(to % kNsPerS / 1000), core);
    if (::write(STDOUT_FILENO, line.data(), static_cast<size_t>(length)) < 0) {
        ::_exit(1);
    }
}

void watch(size_t core) {
    cpu_set_t cores;
    CPU_ZERO(&cores);
    CPU_SET(core, &cores);
    ::sched_setaffinity(0, sizeof cores, &cores);
    for (int64_t due = nanoseconds(CLOCK_MONOTONIC) + kTickNs;; due += kTickNs) {
        sleep_until(due);
        const int64_t now = nanoseconds(CLOCK_MONOTONIC);
        if (now - due > kLateNs) {
            report(now - due, core);
            due = now;
        }
    }
}

}  // namespace

int main() {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() == 1) {
        return 0;  // the parent ended before that
    }
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) {
        std::perror("machine_stalls");
        return 1;
    }
    std::vector<std::thread> threads;
    for (size_t core = 0; core < CPU_SETSIZE; ++core) {
        if (CPU_ISSET(core, &allowed)) {
            threads.emplace_back(watch, core);
        }
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
}
