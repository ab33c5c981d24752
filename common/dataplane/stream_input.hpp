// StreamInput: datagrams that came over TCP, on their way from the thread that reads the connection
// to the data loop. While many of them wait, the connection is not to be read, so that TCP holds
// the sender back: whoever sends over TCP takes it that nothing is lost.
#pragma once

#include "common/control/control_link.hpp"
#include "common/dataplane/datagram_queue.hpp"
#include "common/io/tcp_stream.hpp"

#include <functional>
#include <memory>
#include <utility>

namespace continuo::dataplane {

// The reading thread's, but for what is said of the data loop.
class StreamInput final : public control::DatagramSink {
  public:
    // Not read while so much waits.
    static constexpr size_t kEnoughBytes = DatagramQueue::kLimitBytes;
    // The last read may bring a buffer of the socket, and complete what was there of a TLS record,
    // which is no longer (RFC 8446 section 5.1).
    static constexpr size_t kReadAheadBytes = 2 * io::TcpStream::kBufferBytes;
    // So often may_read() is to be asked while it says no, should the data loop have had no way to
    // tell of room.
    static constexpr base::Duration kAskAgain = base::milliseconds(50);

    // The data loop calls `on_room` when may_read() has become true; false: it could not be told.
    void set_on_room(std::function<bool()> on_room) { queue_->set_on_room(std::move(on_room)); }

    void on_datagram(base::ByteView datagram) override {
        wants_wake_ = queue_->push(datagram, 0).wants_wake || wants_wake_;
    }
    bool may_read() { return queue_->has_less_than(kEnoughBytes); }
    // The data loop is to be woken, since the last call.
    bool take_wake() { return std::exchange(wants_wake_, false); }
    void on_wake_failed() { queue_->on_wake_failed(); }
    const std::shared_ptr<DatagramQueue>& queue() const { return queue_; }

  private:
    std::shared_ptr<DatagramQueue> queue_ = std::make_shared<DatagramQueue>(
        kEnoughBytes + kReadAheadBytes + DatagramQueue::kReservedBytes);
    bool wants_wake_ = false;
};

}  // namespace continuo::dataplane
