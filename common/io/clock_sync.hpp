// Whether the wall clock of this host is kept right.
#pragma once

namespace continuo::io {

// By an NTP client, as the kernel knows it (adjtimex(2)). False also where nobody keeps it.
bool is_clock_synchronised();

}  // namespace continuo::io
