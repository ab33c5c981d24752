// Resequencer: delivers the packets of striped flows in the order in which they were sent (ORDER,
// docs/PROTOCOL.md sections 3.4.17 and 5.9). Flows are independent: a gap in one holds up no other.
// A datagram of a flow waits for a missing one until that arrives, or cannot arrive any more
// because every path has brought a later one (RFC 1990 section 4.1), at most for the bound of its
// class. Pure.
//
// For each datagram and flow, arrive() says whether its packets are delivered or held; hold()
// copies one; then take() returns the packets that may be delivered, each followed by done().
//
// Bounded to kFlows flows and kPackets packets, in one block of memory that is allocated for the
// first held packet and kept until trim(), if the memory budget allows. Packets without a place are
// delivered as they come, and counted.
#pragma once

#include "common/base/memory_budget.hpp"
#include "common/flow/flow.hpp"
#include "common/packet/header_fields.hpp"
#include "common/wire/frame.hpp"

#include <array>
#include <memory>
#include <vector>

namespace continuo::reception {

struct ResequencerCounters {
    uint64_t held = 0;       // packets
    uint64_t late = 0;       // datagrams that came after they were given up
    uint64_t timeouts = 0;   // waits that reached their bound
    uint64_t given_up = 0;   // missing datagrams that every path had overtaken
    uint64_t overflows = 0;  // packets delivered out of order because no place was free
};

class Resequencer {
  public:
    static constexpr size_t kFlows = 256;
    static constexpr size_t kPackets = 1024;
    static constexpr size_t kPacketBytes = 2048;  // payload

    struct Held {
        flow::Flow* flow = nullptr;
        packet::HeaderFields fields;
        base::TimePoint due{};
        uint32_t index = 0;
        uint16_t number = 0;
        uint16_t length = 0;
        uint16_t next = 0;  // for the resequencer's own use
        uint16_t place = 0;
        base::ByteView payload;
    };

    // `budget`: null: no limit.
    explicit Resequencer(base::MemoryBudget* budget = nullptr) : memory_(budget) {}

    // The datagram with that place came by `path`. True: hold its packets of that flow. Call once
    // for each datagram and flow.
    bool arrive(const wire::Order::Place& place,
                uint8_t path,
                uint16_t paths,
                base::Duration bound,
                base::TimePoint now);
    // Copies the packet. False when there is no place: deliver it now.
    bool hold(const wire::Order::Place& place,
              flow::Flow& flow,
              const packet::HeaderFields& fields,
              base::ByteView payload,
              base::Duration bound,
              base::TimePoint now);
    // The next packet of that flow that may be delivered; null when there is none. Valid until
    // done().
    Held* take(uint32_t index, base::TimePoint now);
    void done(Held& held);
    // The next packet of any flow that has reached its bound, then those that follow it without a
    // gap.
    Held* take_due(base::TimePoint now);
    // The flow ends, or another flow now has its index; returns how many packets are dropped.
    size_t forget(uint32_t index);
    // When a packet reaches its bound; kNever when none is held.
    base::TimePoint next_deadline() const { return held_ > 0 ? earliest_due_ : base::kNever; }
    // Frees the memory if nothing was held since `idle_since`.
    void trim(base::TimePoint idle_since);

    size_t held() const { return held_; }
    const ResequencerCounters& counters() const { return counters_; }

  private:
    static constexpr size_t kWays = 4;
    static constexpr uint16_t kNoPacket = UINT16_MAX;
    static constexpr uint32_t kNoFlow = UINT32_MAX;
    // The first number of a flow, if at most this, is taken as following number 0.
    static constexpr uint16_t kBeginning = 64;
    // Numbers further apart belong to another sequence.
    static constexpr int kReach = 8192;
    static constexpr base::Duration kNothingIsLate = base::seconds(10);
    static constexpr int kMostLate = 256;

    struct FlowState {
        uint32_t index = kNoFlow;
        uint16_t expected = 0;  // all earlier numbers are delivered or given up
        uint16_t head = kNoPacket;
        uint16_t tail = kNoPacket;
        uint16_t seen = 0;   // paths that brought a datagram of the flow
        uint16_t paths = 0;  // paths the flow is striped over, as of datagram `told_by`, the newest
        uint16_t told_by = 0;
        bool is_renumbered = false;
        base::TimePoint used_at{};
        std::array<uint16_t, wire::kMaxPaths> newest{};
    };

    FlowState* find(uint32_t index);
    FlowState* find_or_make(uint32_t index, uint16_t number, base::TimePoint now);
    static bool is_overtaken(const FlowState& state, uint16_t number);
    Held* pop(FlowState& state);
    bool make_packets();
    void free_packet(uint16_t place);
    void update_deadline();

    static constexpr size_t kFlowStatesBytes = kFlows * sizeof(FlowState);
    static constexpr size_t kHeldBytes = kPackets * (sizeof(Held) + kPacketBytes);

    base::MemoryShare memory_;
    std::vector<FlowState> flows_;
    std::vector<Held> packets_;
    std::unique_ptr<uint8_t[]> bytes_;
    uint16_t free_ = kNoPacket;
    size_t held_ = 0;
    base::TimePoint earliest_due_ = base::kNever;
    base::TimePoint held_at_{};
    ResequencerCounters counters_;
};

}  // namespace continuo::reception
