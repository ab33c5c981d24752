// Whether the wall clock of this host is synchronised.
#pragma once

namespace continuo::io {

// An NTP client keeps the clock, as the kernel reports it (adjtimex(2)). False also if none runs.
bool is_clock_synchronised();

}  // namespace continuo::io
