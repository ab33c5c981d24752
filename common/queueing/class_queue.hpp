// ClassQueue: the unsealed inner packets of one class that wait for a place in a datagram. Flows
// share it by deficit round robin (Shreedhar and Varghese 1995), counted in bytes, so that a
// download does not delay an SSH keystroke of the same class. Owned by a session, used by one
// thread. Packets of a flow keep their order.
#pragma once

#include "common/base/time.hpp"
#include "common/flow/flow.hpp"
#include "common/packet/packet.hpp"

#include <algorithm>
#include <cstdint>

namespace continuo::queueing {

// Bytes a flow may send in its turn.
inline constexpr int32_t kQuantumBytes = 1514;

// Microseconds that a packet which push() took has waited.
inline uint64_t wait_of(const packet::Packet& packet, base::TimePoint now) {
    return static_cast<uint64_t>(std::max<int64_t>(base::to_us(now - packet.queued_at), 0));
}

class ClassQueue {
  public:
    struct Item {
        flow::Flow* flow = nullptr;
        packet::PacketPtr packet;
    };

    explicit ClassQueue(uint64_t limit_bytes) : limit_bytes_(limit_bytes) {}
    ClassQueue(const ClassQueue&) = delete;
    ClassQueue& operator=(const ClassQueue&) = delete;
    ~ClassQueue();

    // Takes the packet. If that exceeds the byte limit, drops the newest packet of the flow that
    // holds the most, until the rest fits. Returns the number of packets dropped, which may include
    // this one.
    size_t push(flow::Flow& flow, packet::PacketPtr packet, base::TimePoint now);
    // The packet that take() returns next; null when empty.
    const packet::Packet* peek();
    // The flow of that packet; null when empty.
    flow::Flow* peek_flow() { return turn(); }
    // Lets the next flow go first; the flow passed over loses nothing. False when there is no
    // other.
    bool pass_turn();
    Item take();
    // Undoes the newest take() that was not undone: the packet is next again, and its flow keeps
    // its order. Fairness between flows is then off by at most the bytes put back.
    void put_back(Item item);
    // Moves all queued packets of the flow to the end of `to`, in order, whatever `to`'s limit.
    void move_flow(flow::Flow& flow, ClassQueue& to);
    // Forgets a flow that ends; returns the number of packets dropped.
    size_t drop_flow(flow::Flow& flow);
    // Drops the newer half of each flow's packets, or all if no flow has two; returns how many.
    size_t halve();

    bool empty() const { return packets_ == 0; }
    // A packet of an ACK-clocked flow (TCP or QUIC) has come since the queue was last empty.
    bool has_clocked() const { return has_clocked_; }
    uint64_t bytes() const { return bytes_; }
    uint32_t packets() const { return packets_; }
    uint32_t flows() const { return flows_; }
    // Start of the current wait: the arrival of the next packet to leave, or earlier.
    base::TimePoint waiting_since() const { return waiting_since_; }
    void set_limit_bytes(uint64_t limit) { limit_bytes_ = limit; }

  private:
    void append_to_round(flow::Flow& flow);
    void unlink_head(flow::Flow& flow);
    void remove_from_round(flow::Flow& flow);
    flow::Flow* turn();
    void drop_newest_of_fattest();
    void drop_newest(flow::Flow& flow);

    uint64_t limit_bytes_;
    uint64_t bytes_ = 0;
    uint32_t packets_ = 0;
    uint32_t flows_ = 0;
    flow::Flow* round_head_ = nullptr;
    flow::Flow* round_tail_ = nullptr;
    base::TimePoint waiting_since_ = base::kNever;
    bool has_clocked_ = false;
};

}  // namespace continuo::queueing
