#include "common/io/clock_sync.hpp"

#include <sys/timex.h>

namespace continuo::io {

bool is_clock_synchronised() {
    timex state{};
    const int kept = ::adjtimex(&state);
    return kept != -1 && kept != TIME_ERROR;
}

}  // namespace continuo::io
