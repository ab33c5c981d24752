// InputQueues: datagrams between the sockets and the sessions. The sockets are drained first, into
// one bounded queue per known sender, so that the kernel's shared queue stays short; datagrams
// beyond a sender's queue are dropped there and counted for it alone. Buffers are moved, not
// copied, except short runs, which would waste a long one. Pure. One thread.
#pragma once

#include "common/base/ip_address.hpp"
#include "common/packet/packet.hpp"

#include <memory>
#include <vector>

namespace continuo::turns {

// Limits of a queue in received bytes; a short run counts as a small buffer. The first is for one
// sender, the second for all unknown addresses together.
inline constexpr size_t kInputQueueBytes = size_t{16} << 20;
inline constexpr size_t kStrangersQueueBytes = size_t{512} << 10;
// Most buffers of all queues. When those of a size are used up, the queue with the most of them
// loses half.
inline constexpr size_t kSmallInputs = 16384;
inline constexpr size_t kLargeInputs = 256;

// One datagram, or several of `segment_bytes` from the same sender (the last may be shorter).
struct Input {
    packet::PacketPtr packet;
    base::Endpoint from;
    base::IpAddress to;
    uint16_t segment_bytes = 0;
    uint16_t socket = 0;      // the caller's
    uint32_t done_bytes = 0;  // handled already
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
    size_t bytes() const { return bytes_; }  // as counted against its limit
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

    // A buffer of that size; takes room from the queue with the most if needed. Null: impossible.
    packet::PacketPtr take(size_t bytes);
    // Makes that many of the largest buffers; only before anything is taken.
    std::vector<packet::PacketPtr> take_many(size_t count);
    // Whether there is room for a buffer of that size; otherwise counts `datagrams` as dropped.
    bool admit(InputQueue& queue, size_t bytes, size_t datagrams) const;
    static void drop(InputQueue& queue, size_t datagrams) { queue.dropped_ += datagrams; }
    // Appends the input; admit() must have returned true.
    void push(InputQueue& queue, Input input);
    // Removes the front input.
    void pop(InputQueue& queue);
    // Moves the front of `from` to the end of `to`. Without room there it is dropped and counted
    // there.
    void move_front(InputQueue& from, InputQueue& to);
    // Returns how many datagrams this drops; dropped() does not count them.
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

}  // namespace continuo::turns
