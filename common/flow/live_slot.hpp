// LiveSlot: the counters of one flow, 256 bytes, as they lie in the live file of a SNAPT
// (docs/PROTOCOL.md does not cover it; the layout is fixed by version in LiveFileHeader).
// Cumulative, one writer each, relaxed: a reader may see a batch partly added but never a torn
// value.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace continuo::flow {

using Counter = std::atomic<uint64_t>;

// False in a build that measures what counting costs (tests/bench, accounting).
#ifdef CONTINUO_UNCOUNTED
inline constexpr bool kCounts = false;
#else
inline constexpr bool kCounts = true;
#endif

inline void add(Counter& counter, uint64_t amount) {
    if constexpr (kCounts) {
        counter.store(counter.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
    }
}
inline uint64_t value(const Counter& counter) {
    return counter.load(std::memory_order_relaxed);
}

enum class SlotState : uint32_t { Free = 0, Open = 1, Closed = 2 };

struct LiveCounters {
    Counter payload_up{0};  // transport payload bytes
    Counter payload_down{0};
    Counter inner_up{0};  // IP lengths
    Counter inner_down{0};
    Counter packets_up{0};  // a super-packet counts as the segments it stands for
    Counter packets_down{0};
    Counter pre_up{0};  // inner bytes that went into datagrams
    Counter pre_down{0};
    Counter post_up{0};  // outer IP bytes of those datagrams, shared among their flows
    Counter post_down{0};
    Counter delay_us_sum{0};  // for the packet-weighted mean
    Counter delay_samples{0};
    Counter delay_us_max{0};
    Counter active_us{0};
    Counter handovers{0};
    Counter lost_packets{0};      // not measured yet
    Counter undelivered_down{0};  // IP lengths sent to a node that was gone: in no other count
    Counter tunnel_up{0};         // outer IP bytes without packets of their own: in no other count
    Counter tunnel_down{0};
    Counter jitter_us_sum{0};  // as many samples as delay_us_sum
};

struct LiveSlot {
    std::atomic<SlotState> state{SlotState::Free};
    uint32_t session_number = 0;
    uint64_t flow_id = 0;  // unique in the epoch
    uint8_t traffic_class = 0;
    uint8_t protocol = 0;
    uint16_t app = 0;
    uint16_t remote_port = 0;
    uint8_t remote_is_v6 = 0;
    uint8_t close_cause = 0;   // flow::Cause, written before `state` becomes Closed
    int64_t opened_at_us = 0;  // UTC
    std::atomic<int64_t> last_at_us{0};
    uint8_t remote_address[16] = {};
    LiveCounters counters;
    uint8_t reserved[40] = {};
};
static_assert(sizeof(LiveSlot) == 256);
static_assert(offsetof(LiveSlot, counters) == 56);

}  // namespace continuo::flow
