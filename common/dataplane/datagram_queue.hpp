// DatagramQueue: datagrams on their way between a data loop and the thread of the TCP connection
// that carries them (docs/PROTOCOL.md section 3.7). One thread pushes, another one pulls; neither
// waits for the other. Datagrams cross in batches: the puller is to be woken only for the first
// datagram that it does not know of, and the pusher is notified of room only after there was
// little. Datagrams of the low-delay classes overtake the others.
#pragma once

#include "common/base/bytes.hpp"
#include "common/session/path_set.hpp"

#include <algorithm>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace continuo::dataplane {

class DatagramQueue : public std::enable_shared_from_this<DatagramQueue> {
  public:
    // Full at so many bytes unless said otherwise; the run that reaches the limit is still taken
    // whole. The last part is for the low-delay classes only.
    static constexpr size_t kLimitBytes = size_t{64} * 1024;
    static constexpr size_t kReservedBytes = session::kReservedRoomBytes;

    explicit DatagramQueue(size_t limit_bytes = kLimitBytes) : limit_bytes_(limit_bytes) {}
    DatagramQueue(const DatagramQueue&) = delete;
    DatagramQueue& operator=(const DatagramQueue&) = delete;

    struct Pushed {
        bool is_taken = false;    // false: full, all of it is refused
        bool wants_wake = false;  // the puller does not know yet
        size_t room_bytes = 0;    // left
    };
    // Pusher. Datagrams of one class, of `segment_bytes`, the last may be shorter; 0: one datagram.
    // None is empty or longer than 65 535 bytes. Classes are not authenticated here.
    Pushed push(base::ByteView run, size_t segment_bytes);

    // Pusher: the puller could not be woken. The next push wants it again.
    void on_wake_failed();

    // Pusher.
    size_t room_bytes();
    // Pusher, of a queue with set_on_room(): else it is called when half of that is left.
    bool has_less_than(size_t bytes);
    // Before anybody pulls. The puller calls it where has_less_than() was asked in vain and there
    // is room now, and then no push wishes to be told of room. False: it could not be told, and is
    // called again.
    void set_on_room(std::function<bool()> on_room) { on_room_ = std::move(on_room); }
    // Puller: calls it.
    void tell_room();
    // Puller: clear(), and tells of the room.
    void discard();

    struct Pulled {
        bool has_more = false;    // `take` refused
        bool tells_room = false;  // the pusher is to be notified that there is room again
        uint64_t refused = 0;     // runs that were pushed in vain since the last time
    };
    // Puller. Gives datagrams to `take(base::MutableByteView) -> bool`, those of a band in order;
    // one that is refused comes again. Views are valid during the call.
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
        return pulled;
    }
    // Puller: drops what is there and gives its memory back. True: the pusher is to be notified of
    // the room.
    bool clear();
    // Puller: the pusher could not be notified of room. pull() or clear() says so again.
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
    size_t room() const { return limit_bytes_ - std::min(limit_bytes_, waiting_bytes_); }

    size_t limit_bytes_;
    std::function<bool()> on_room_;
    std::mutex mutex_;
    Band urgent_;
    Band patient_;
    size_t waiting_bytes_ = 0;  // of all vectors
    uint64_t refused_ = 0;
    bool is_told_ = false;  // the puller knows of what is in a back
    bool wants_room_ = false;
};

// The way into a TCP connection, for a data loop.
struct StreamPort {
    std::shared_ptr<DatagramQueue> queue;
    std::function<bool()> wake;  // false: could not

    explicit operator bool() const { return queue != nullptr; }
    // As DatagramQueue::push; wakes who pulls.
    DatagramQueue::Pushed push(base::ByteView run, size_t segment_bytes) const {
        const DatagramQueue::Pushed pushed = queue->push(run, segment_bytes);
        if (pushed.wants_wake && !wake()) {
            queue->on_wake_failed();
        }
        return pushed;
    }
};

// Bytes of datagrams that are taken before the socket took those before them: what is still in the
// queue can be overtaken by other classes. Short of a control link's own limit.
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
