// Processor time of the calling thread (CLOCK_THREAD_CPUTIME_ID): what work costs, however busy
// the machine is.
#pragma once

#include "common/base/time.hpp"

#include <ctime>

namespace continuo::io {

inline base::Duration thread_time() {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return base::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

}  // namespace continuo::io
