// ClassQueue: the inner packets of one class that wait, unsealed, for a place in a datagram. Flows
// share it by deficit round robin (Shreedhar and Varghese 1995), counted in bytes, so that a
// download does not push an SSH key stroke of the same class back. Owned by a session, used by one
// thread. Packets keep their order within a flow.
#pragma once

#include "common/base/time.hpp"
#include "common/flow/flow.hpp"
#include "common/packet/packet.hpp"

namespace continuo::session {

// Bytes a flow may send in its turn.
inline constexpr int32_t kQuantumBytes = 1514;

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

    // Takes the packet in. When the byte limit would be passed, the newest packet of the flow that
    // holds the most is dropped, and so on until it fits. Gives the number of packets dropped,
    // which may include this one.
    size_t push(flow::Flow& flow, packet::PacketPtr packet, base::TimePoint now);
    // The packet that take() gives next; null when empty.
    const packet::Packet* peek();
    // Whose it is; null when empty.
    flow::Flow* peek_flow() { return turn(); }
    // The next flow's turn comes before that of the one whose it is, which loses nothing by it.
    // False when there is no other.
    bool pass_turn();
    Item take();
    // Undoes the newest take() that was not undone: the packet is the next one again, and its flow
    // keeps its order. Fairness between flows is then off by at most what was put back.
    void put_back(Item item);
    // Moves all that the flow has queued to the end of `to`, in its order, whatever `to`'s limit.
    void move_flow(flow::Flow& flow, ClassQueue& to);
    // Forgets a flow that ends; gives the number of packets dropped.
    size_t drop_flow(flow::Flow& flow);
    // Drops the newer half of each flow's, or all where each has one packet; gives how many.
    size_t halve();

    bool empty() const { return packets_ == 0; }
    // Since it was last empty, a packet came of a flow that its own acknowledgements pace.
    bool has_clocked() const { return has_clocked_; }
    uint64_t bytes() const { return bytes_; }
    uint32_t packets() const { return packets_; }
    uint32_t flows() const { return flows_; }
    // Since when the queue has held what it holds: the arrival of the next packet to go, at the
    // latest.
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

}  // namespace continuo::session
