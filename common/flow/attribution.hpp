// Attribution of a datagram: its outer bytes are divided among the flows whose packets it carries,
// in proportion to their inner bytes. The division is by largest remainder, so the shares add up to
// the datagram exactly. No allocation.
#pragma once

#include "common/flow/flow.hpp"

#include <cstdint>
#include <span>

namespace continuo::flow {

// Above this many members the remainders are spread by running sums instead: still exact in the sum
// and within one byte of proportion.
inline constexpr size_t kMaxAttributionMembers = 1024;

// shares[i] gets the part of `total` due to weights[i]; equal remainders favour the earlier member.
// Sizes are equal. With weights all zero the first member gets everything.
void divide_in_proportion(uint32_t total,
                          std::span<const uint32_t> weights,
                          std::span<uint32_t> shares);

// Each flow once; `pre_bytes` is the sum of the IP lengths of its packets in the datagram.
struct AttributionMember {
    LiveCounters* counters = nullptr;
    uint32_t pre_bytes = 0;
};

// Adds pre and post bytes of one datagram to its members' counters. `outer_bytes` is the IP length
// of the datagram.
void attribute(std::span<const AttributionMember> members,
               uint32_t outer_bytes,
               Direction direction);

}  // namespace continuo::flow
