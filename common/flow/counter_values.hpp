// Plain copies of LiveCounters for readers: differences, sums, storage. Also the calls by which the
// data loop counts.
#pragma once

#include "common/flow/flow.hpp"
#include "common/flow/live_slot.hpp"

#include <array>
#include <cstdint>

namespace continuo::flow {

// In the order of LiveCounters.
inline constexpr std::array kCounterMembers = {
    &LiveCounters::payload_up,   &LiveCounters::payload_down,     &LiveCounters::inner_up,
    &LiveCounters::inner_down,   &LiveCounters::packets_up,       &LiveCounters::packets_down,
    &LiveCounters::pre_up,       &LiveCounters::pre_down,         &LiveCounters::post_up,
    &LiveCounters::post_down,    &LiveCounters::delay_us_sum,     &LiveCounters::delay_samples,
    &LiveCounters::delay_us_max, &LiveCounters::active_us,        &LiveCounters::handovers,
    &LiveCounters::lost_packets, &LiveCounters::undelivered_down, &LiveCounters::tunnel_up,
    &LiveCounters::tunnel_down,  &LiveCounters::jitter_us_sum};
static_assert(sizeof(LiveCounters) == kCounterMembers.size() * sizeof(uint64_t));

struct CounterValues {
    uint64_t payload_up = 0;
    uint64_t payload_down = 0;
    uint64_t inner_up = 0;
    uint64_t inner_down = 0;
    uint64_t packets_up = 0;
    uint64_t packets_down = 0;
    uint64_t pre_up = 0;
    uint64_t pre_down = 0;
    uint64_t post_up = 0;
    uint64_t post_down = 0;
    uint64_t delay_us_sum = 0;
    uint64_t delay_samples = 0;
    uint64_t delay_us_max = 0;
    uint64_t active_us = 0;
    uint64_t handovers = 0;
    uint64_t lost_packets = 0;
    uint64_t undelivered_down = 0;
    uint64_t tunnel_up = 0;
    uint64_t tunnel_down = 0;
    uint64_t jitter_us_sum = 0;

    bool operator==(const CounterValues&) const = default;
};

inline constexpr std::array kValueMembers = {
    &CounterValues::payload_up,   &CounterValues::payload_down,     &CounterValues::inner_up,
    &CounterValues::inner_down,   &CounterValues::packets_up,       &CounterValues::packets_down,
    &CounterValues::pre_up,       &CounterValues::pre_down,         &CounterValues::post_up,
    &CounterValues::post_down,    &CounterValues::delay_us_sum,     &CounterValues::delay_samples,
    &CounterValues::delay_us_max, &CounterValues::active_us,        &CounterValues::handovers,
    &CounterValues::lost_packets, &CounterValues::undelivered_down, &CounterValues::tunnel_up,
    &CounterValues::tunnel_down,  &CounterValues::jitter_us_sum};
static_assert(kValueMembers.size() == kCounterMembers.size());

inline CounterValues read_counters(const LiveCounters& counters) {
    CounterValues values;
    for (size_t i = 0; i < kCounterMembers.size(); ++i) {
        values.*kValueMembers[i] = value(counters.*kCounterMembers[i]);
    }
    return values;
}

// The increase since `earlier`; delay_us_max stays the maximum so far.
inline CounterValues difference(const CounterValues& later, const CounterValues& earlier) {
    CounterValues result;
    for (const auto member : kValueMembers) {
        result.*member = later.*member - earlier.*member;
    }
    result.delay_us_max = later.delay_us_max;
    return result;
}

// Whether a difference needs a record: time alone does not, nor the delay and the moves of packets
// that are yet to be counted.
inline bool is_traffic(CounterValues delta) {
    delta.active_us = 0;
    delta.delay_us_sum = 0;
    delta.delay_samples = 0;
    delta.delay_us_max = 0;
    delta.jitter_us_sum = 0;
    delta.handovers = 0;
    return delta != CounterValues{};
}

// Counts packets of a flow: up when the kernel took them, down when they were sent. `inner_bytes`
// is the sum of the IP lengths of the `packets` segments that a super-packet stands for.
inline void count_packets(LiveCounters& counters,
                          Direction direction,
                          uint64_t packets,
                          uint64_t inner_bytes,
                          uint64_t payload_bytes) {
    const bool up = direction == Direction::Up;
    add(up ? counters.packets_up : counters.packets_down, packets);
    add(up ? counters.inner_up : counters.inner_down, inner_bytes);
    add(up ? counters.payload_up : counters.payload_down, payload_bytes);
}

// One estimate of the delay that `packets` packets met, and of its variation.
inline void
count_delay(LiveCounters& counters, uint64_t delay_us, uint64_t jitter_us, uint64_t packets) {
    add(counters.delay_us_sum, delay_us * packets);
    add(counters.jitter_us_sum, jitter_us * packets);
    add(counters.delay_samples, packets);
    if (kCounts && delay_us > value(counters.delay_us_max)) {
        counters.delay_us_max.store(delay_us, std::memory_order_relaxed);
    }
}

}  // namespace continuo::flow
