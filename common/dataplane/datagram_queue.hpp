// DatagramQueue: datagrams between a data loop and the thread of the TCP connection that carries
// them (docs/PROTOCOL.md section 3.7). One thread pushes, another pulls; neither waits for the
// other. Datagrams cross in batches: the puller is woken only for the first datagram that it does
// not know of, and the pusher is notified of room only after it was short. Datagrams of the
// low-delay classes overtake the others.
#pragma once

#include "common/base/bytes.hpp"
#include "common/path/path_traffic.hpp"

#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace continuo::dataplane {

class DatagramQueue : public std::enable_shared_from_this<DatagramQueue> {
  public:
    // Limit in bytes; the run that reaches it is still accepted whole. The last part is for the
    // low-delay classes only.
    static constexpr size_t kLimitBytes = size_t{64} * 1024;
    static constexpr size_t kReservedBytes = path::kReservedRoomBytes;

    DatagramQueue() = default;
    // `on_room` runs on the puller's thread, in pull() and clear(), whenever the pusher must be
    // notified of room; false: it could not be.
    explicit DatagramQueue(std::function<bool()> on_room) : on_room_(std::move(on_room)) {}
    DatagramQueue(const DatagramQueue&) = delete;
    DatagramQueue& operator=(const DatagramQueue&) = delete;

    struct Pushed {
        bool is_taken = false;    // false: full, the whole run is refused
        bool wants_wake = false;  // the puller must be woken
        size_t room_bytes = 0;    // left
    };
    // Pusher. Datagrams of one class, of `segment_bytes` each, the last may be shorter; 0: one
    // datagram. None may be empty or longer than 65 535 bytes. Classes are not authenticated here.
    Pushed push(base::ByteView run, size_t segment_bytes);

    // Pusher: the puller could not be woken; the next push asks again.
    void on_wake_failed();

    // Pusher.
    size_t room_bytes();
    // Pusher. Whether there is that much room; if not, it is notified once there is.
    bool has_room(size_t bytes);

    struct Pulled {
        bool has_more = false;    // `take` refused
        bool tells_room = false;  // the pusher must be notified that there is room
        uint64_t refused = 0;     // runs refused since the last call
    };
    // Puller. Passes datagrams to `take(base::MutableByteView) -> bool`, those of a band in order;
    // a refused one comes again. Views are valid during the call.
    template <typename Take>
    Pulled pull(const Take& take) {
        Pulled pulled;
        size_t done = 0;
        fetch();
        for (Band* band = next_band(); band != nullptr && !pulled.has_more; band = next_band()) {
            const size_t length = base::load_big_endian<uint16_t>(&band->front[band->next]);
            const base::MutableByteView datagram(&band->front[band->next + kLengthBytes], length);
            pulled.has_more = !take(datagram);
            if (!pulled.has_more) {
                band->next += kLengthBytes + length;
                done += kLengthBytes + length;
            }
        }
        release(done, pulled);
        if (pulled.tells_room) {
            tell_room();
        }
        return pulled;
    }
    // Puller: drops all datagrams and frees the memory. True: notify the pusher of the room.
    bool clear();
    // Puller: the pusher could not be notified of room; pull() or clear() reports it again.
    void on_room_untold();

  private:
    static constexpr size_t kLengthBytes = 2;

    struct Band {
        std::vector<uint8_t> back;   // records: length, datagram
        std::vector<uint8_t> front;  // the puller's own
        size_t next = 0;
    };

    void fetch();
    // Null when there is nothing, also not behind.
    Band* next_band();
    void release(size_t bytes, Pulled& pulled);
    bool take_room_wish();
    void tell_room();

    const std::function<bool()> on_room_;  // empty: who pulls notifies
    std::mutex mutex_;
    Band urgent_;
    Band patient_;
    size_t waiting_bytes_ = 0;  // sum over all vectors
    uint64_t refused_ = 0;
    bool is_told_ = false;  // the puller knows of data in a back
    bool wants_room_ = false;
    size_t wanted_bytes_ = 0;  // room that has_room() was asked for
};

// The queue into a TCP connection, for a data loop.
struct StreamPort {
    std::shared_ptr<DatagramQueue> queue;
    std::function<bool()> wake;  // false: could not

    explicit operator bool() const { return queue != nullptr; }
    // As DatagramQueue::push; wakes the puller.
    DatagramQueue::Pushed push(base::ByteView run, size_t segment_bytes) const {
        const DatagramQueue::Pushed pushed = queue->push(run, segment_bytes);
        if (pushed.wants_wake && !wake()) {
            queue->on_wake_failed();
        }
        return pushed;
    }
};

// Bytes passed to the link ahead of the socket: datagrams still in the queue can be overtaken by
// other classes. Below a control link's own limit.
inline constexpr size_t kMaxUnwrittenStreamBytes = size_t{4} * 1024;

// Moves datagrams from `queue` into `control` (control::ClientControl, control::ServerControl), as
// many as its output takes.
template <typename Control>
DatagramQueue::Pulled feed(DatagramQueue& queue, Control& control) {
    return queue.pull([&](base::MutableByteView datagram) {
        const bool has_room = control.pending_bytes() < kMaxUnwrittenStreamBytes;
        if (has_room) {
            static_cast<void>(control.send_datagram(datagram).has_value());  // a link that ends
        }
        return has_room;
    });
}

}  // namespace continuo::dataplane
