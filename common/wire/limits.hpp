// Limits of this implementation. Another may choose others without the two ceasing to understand
// each other.
#pragma once

#include <cstddef>

namespace continuo::wire {

inline constexpr size_t kMaxDatagramBytes = 65507;     // UDP payload over IPv4
inline constexpr size_t kMaxTcpRecordBytes = 16384;    // datagram inside one record
inline constexpr size_t kMaxCloseTextBytes = 120;      // longer text is cut when written
inline constexpr size_t kMaxReassemblyBytes = 262144;  // in one session; the oldest gives way

}  // namespace continuo::wire
