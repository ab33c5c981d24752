// InputQueues: datagrams between the sockets and the sessions. The sockets are drained first, into
// one bounded queue for each known sender, so that the kernel's one queue for all is always short;
// what a sender sends beyond its queue is dropped there and counted for it alone. Buffers are
// moved, not copied, but for short runs, which would waste a long one. Pure. One thread.
#pragma once

#include "common/base/ip_address.hpp"
#include "common/packet/packet.hpp"

#include <memory>
#include <vector>

namespace continuo::dataplane {

// Limits of a queue in received bytes; a short run counts as a small buffer. One sender has the
// first, all senders at unknown addresses share the second.
inline constexpr size_t kInputQueueBytes = size_t{16} << 20;
inline constexpr size_t kStrangersQueueBytes = size_t{512} << 10;
// Buffers of all queues together. When those of a size are used up, the queue that holds most of
// them loses half of them.
inline constexpr size_t kSmallInputs = 16384;
inline constexpr size_t kLargeInputs = 256;

// One datagram, or several of `segment_bytes` from the same sender (the last may be shorter).
struct Input {
    packet::PacketPtr packet;
    base::Endpoint from;
    base::IpAddress to;
    uint16_t segment_bytes = 0;
    uint16_t socket = 0;      // the caller's
    uint32_t done_bytes = 0;  // already handled
    Input* next = nullptr;

    size_t datagrams() const {
        const size_t left = packet->length - done_bytes;
        return segment_bytes == 0 ? 1 : (left + segment_bytes - 1) / segment_bytes;
    }
};

class InputQueue {
  public:
    explicit InputQueue(size_t limit_bytes = kInputQueueBytes) : limit_bytes_(limit_bytes) {}
    InputQueue(const InputQueue&) = delete;
    InputQueue& operator=(const InputQueue&) = delete;

    bool is_empty() const { return first_ == nullptr; }
    Input* front() { return first_; }
    size_t bytes() const { return bytes_; }  // as they count for its limit
    size_t size() const { return small_inputs_ + large_inputs_; }
    // Datagrams that found no room.
    uint64_t dropped() const { return dropped_; }

  private:
    friend class InputQueues;
    size_t& inputs(bool is_large) { return is_large ? large_inputs_ : small_inputs_; }

    size_t limit_bytes_;
    size_t bytes_ = 0;
    size_t small_inputs_ = 0;  // in small buffers
    size_t large_inputs_ = 0;
    uint64_t dropped_ = 0;
    Input* first_ = nullptr;
    Input* last_ = nullptr;
    size_t place_ = 0;  // among those that are not empty
};

class InputQueues {
  public:
    explicit InputQueues(size_t max_small = kSmallInputs, size_t max_large = kLargeInputs);
    InputQueues(const InputQueues&) = delete;
    InputQueues& operator=(const InputQueues&) = delete;
    ~InputQueues();

    // For as much; room is made at the cost of the queue with most buffers of that size. Null:
    // there is none to be made.
    packet::PacketPtr take(size_t bytes);
    // That many of the largest; while nothing is taken yet.
    std::vector<packet::PacketPtr> take_many(size_t count);
    // Whether a buffer for as much finds room; if not, `datagrams` are counted as dropped.
    bool admit(InputQueue& queue, size_t bytes, size_t datagrams) const;
    static void drop(InputQueue& queue, size_t datagrams) { queue.dropped_ += datagrams; }
    // Behind the others; admit() has said yes.
    void push(InputQueue& queue, Input input);
    // The front is done with.
    void pop(InputQueue& queue);
    // The front of `from` goes behind the others of `to`. Without room there it is dropped and
    // counted there.
    void move_front(InputQueue& from, InputQueue& to);
    // Gives how many datagrams are dropped by that; dropped() does not count them.
    size_t clear(InputQueue& queue);

  private:
    static size_t counted_bytes(size_t bytes);
    static bool is_large(const Input& input);
    bool make_room(bool is_large);
    void drop_newer_half(InputQueue& queue, bool of_large);
    void append(InputQueue& queue, Input& input);
    void release(InputQueue& queue, Input& input);
    void forget(InputQueue& queue);
    Input* new_input();

    packet::PacketPool pool_;
    std::vector<std::unique_ptr<Input[]>> slabs_;
    Input* free_ = nullptr;
    std::vector<InputQueue*> filled_;
};

}  // namespace continuo::dataplane
