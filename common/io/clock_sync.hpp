// Whether the wall clock of this host is synchronised.
#pragma once

namespace continuo::io {

// By an NTP client, as the kernel reports it (adjtimex(2)). False also if none runs.
bool is_clock_synchronised();

}  // namespace continuo::io
