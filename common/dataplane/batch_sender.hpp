// BatchSender: carries a TransmitBatch to the sockets. What a full socket does not take stays and
// goes first when it is writable again; meanwhile nothing new is sealed, so that inner packets wait
// in their class queues. Each item is counted when the kernel has taken it. One thread.
#pragma once

#include "common/base/drop_reason.hpp"
#include "common/io/udp_socket.hpp"
#include "common/session/session.hpp"

#include <array>

namespace continuo::dataplane {

// Where the daemon sends an item; null: there is no such socket any more.
class SocketDirectory {
  public:
    virtual ~SocketDirectory() = default;
    virtual io::UdpSocket* socket_for(const session::TransmitItem& item) = 0;
    // Outer ToS octet of the item; 0: as the socket is set.
    virtual uint8_t tos_of(const session::TransmitItem& item) = 0;
    // The socket is full: flush() again when it is writable.
    virtual void wait_writable(io::UdpSocket& socket) = 0;
    // A datagram was longer than the path takes.
    virtual void on_too_big(const session::TransmitItem& item) = 0;
};

class BatchSender {
  public:
    BatchSender(SocketDirectory& sockets, base::DropCounters& drops)
        : sockets_(sockets), drops_(drops) {}

    // Empty when everything sealed has left.
    bool is_blocked() const { return next_ < batch_.items().size(); }
    // For sessions to add to; only while not blocked.
    session::TransmitBatch& batch() { return batch_; }
    // Sends what the batch holds; false when a socket is full.
    bool flush();
    // A session ends: its items are not to be counted for it.
    void forget(const session::Session& session);

  private:
    size_t send_run(size_t first, size_t end, io::UdpSocket& socket);

    SocketDirectory& sockets_;
    base::DropCounters& drops_;
    session::TransmitBatch batch_;
    size_t next_ = 0;          // first item not done with
    size_t done_of_next_ = 0;  // bytes of it already sent
    std::array<io::SendItem, session::kBatchItems> items_;
};

}  // namespace continuo::dataplane
