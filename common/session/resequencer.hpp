// Resequencer: gives the packets of striped flows in the order in which they were sent (ORDER,
// docs/PROTOCOL.md sections 3.4.17 and 5.9). Each flow by itself: what is missing in one keeps no
// other waiting. A datagram of a flow waits for a missing one until that comes, or cannot come any
// more because every path has brought a later one (RFC 1990 section 4.1), and never longer than the
// bound of its class. Pure.
//
// For each datagram and flow: arrive() says whether its packets are delivered or held; hold() takes
// a copy; then take() gives what may be delivered by now, each followed by done().
//
// Bounded: kFlows flows, kPackets packets, one block of memory that is made when the first packet
// is held and kept until trim(), as far as the budget allows it. What finds no place is delivered
// as it comes, and counted.
#pragma once

#include "common/base/memory_budget.hpp"
#include "common/flow/flow.hpp"
#include "common/packet/header_fields.hpp"
#include "common/wire/frame.hpp"

#include <array>
#include <memory>
#include <vector>

namespace continuo::session {

struct ResequencerCounters {
    uint64_t held = 0;       // packets
    uint64_t late = 0;       // datagrams that came after they had been given up
    uint64_t timeouts = 0;   // waits that ended by their bound
    uint64_t given_up = 0;   // missing ones that every path had overtaken
    uint64_t overflows = 0;  // packets delivered out of order for want of room
};

class Resequencer {
  public:
    static constexpr size_t kFlows = 256;
    static constexpr size_t kPackets = 1024;
    static constexpr size_t kPacketBytes = 2048;  // of payload

    struct Held {
        flow::Flow* flow = nullptr;
        packet::HeaderFields fields;
        base::TimePoint due{};
        uint32_t index = 0;
        uint16_t number = 0;
        uint16_t length = 0;
        uint16_t next = 0;  // the resequencer's own
        uint16_t place = 0;
        base::ByteView payload;
    };

    // `budget`: null for no limit.
    explicit Resequencer(base::MemoryBudget* budget = nullptr) : memory_(budget) {}

    // The datagram with that place came by `path`. True: its packets of that flow are to be held.
    // Once for each datagram and flow.
    bool arrive(const wire::Order::Place& place,
                uint8_t path,
                uint16_t paths,
                base::Duration bound,
                base::TimePoint now);
    // Copies the packet. False when there is no room: it is to be delivered now.
    bool hold(const wire::Order::Place& place,
              flow::Flow& flow,
              const packet::HeaderFields& fields,
              base::ByteView payload,
              base::Duration bound,
              base::TimePoint now);
    // The next packet of that flow that waits no longer; null when there is none. Valid until
    // done().
    Held* take(uint32_t index, base::TimePoint now);
    void done(Held& held);
    // The next packet of any flow whose bound has passed, and what follows it without a gap.
    Held* take_due(base::TimePoint now);
    // The flow ends, or its index is another flow's now; gives how many packets are dropped.
    size_t forget(uint32_t index);
    // When a packet has waited long enough; kNever when none waits.
    base::TimePoint next_deadline() const { return held_ > 0 ? earliest_due_ : base::kNever; }
    // Gives memory back when nothing was held since `idle_since`.
    void trim(base::TimePoint idle_since);

    size_t held() const { return held_; }
    const ResequencerCounters& counters() const { return counters_; }

  private:
    static constexpr size_t kWays = 4;
    static constexpr uint16_t kNoPacket = UINT16_MAX;
    static constexpr uint32_t kNoFlow = UINT32_MAX;
    // A first number so low is waited for from 0 on.
    static constexpr uint16_t kBeginning = 64;
    // Further apart is another row of numbers.
    static constexpr int kReach = 8192;
    static constexpr base::Duration kNothingIsLate = base::seconds(10);
    static constexpr int kMostLate = 256;

    struct FlowState {
        uint32_t index = kNoFlow;
        uint16_t expected = 0;  // all before are delivered or given up
        uint16_t head = kNoPacket;
        uint16_t tail = kNoPacket;
        uint16_t seen = 0;   // paths that brought something of it
        uint16_t paths = 0;  // over which it is striped, as told by the newest, `told_by`
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

}  // namespace continuo::session
