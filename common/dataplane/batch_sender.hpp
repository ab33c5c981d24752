// BatchSender: carries a TransmitBatch to the sockets. What a full socket does not take stays and
// goes first when it is writable again; meanwhile nothing new is sealed, so that inner packets wait
// in their class queues. An uplink that takes nothing for kMaxBlocked, or that its session has
// given up, loses what waits for it (SendFailed), so that it holds up nobody else. Each item is
// counted when the kernel has taken it. One thread.
#pragma once

#include "common/base/drop_reason.hpp"
#include "common/dataplane/packet_recorder.hpp"
#include "common/io/udp_socket.hpp"
#include "common/session/session.hpp"

#include <array>

namespace continuo::dataplane {

// Where the daemon sends an item; null: there is no such socket any more.
class SocketDirectory {
  public:
    virtual ~SocketDirectory() = default;
    virtual io::UdpSocket* socket_for(const session::TransmitItem& item) = 0;
    // Takes what goes over TCP (path wire::kTcpPath). False: it cannot, the item is dropped.
    virtual bool send_stream(const session::TransmitItem& /*item*/, base::ByteView /*bytes*/) {
        return false;
    }
    // Outer ToS octet of the item; 0: as the socket is set.
    virtual uint8_t tos_of(const session::TransmitItem& item) = 0;
    virtual io::SendResult send(io::UdpSocket& socket, std::span<const io::SendItem> items) {
        return socket.send(items);
    }
    // The socket is full: flush() again when it is writable.
    virtual void wait_writable(io::UdpSocket& socket) = 0;
    // A datagram was longer than the path takes.
    virtual void on_too_big(const session::TransmitItem& item) = 0;
};

inline constexpr base::Duration kMaxBlocked = base::seconds(1);
// A blocked sender is tried again so often, besides when the socket says that it is writable.
inline constexpr base::Duration kRetryWhileBlocked = base::milliseconds(20);

class BatchSender {
  public:
    BatchSender(SocketDirectory& sockets, base::DropCounters& drops)
        : sockets_(sockets), drops_(drops) {}

    // What the sockets take goes there too; null: nowhere. It must outlive this.
    void record_to(PacketRecorder* recorder) { recorder_ = recorder; }

    // Empty when everything sealed has left.
    bool is_blocked() const { return next_ < batch_.items().size(); }
    // For sessions to add to; only while not blocked.
    session::TransmitBatch& batch() { return batch_; }
    // Sends what the batch holds; false when a socket is full.
    bool flush(base::TimePoint now);
    // A session ends: its items are not to be counted for it.
    void forget(const session::Session& session);

  private:
    size_t send_run(size_t first, size_t end, io::UdpSocket& socket);
    static bool is_worth_waiting(const session::TransmitItem& item);
    void drop_until(size_t end);
    void send_over_stream();

    SocketDirectory& sockets_;
    base::DropCounters& drops_;
    PacketRecorder* recorder_ = nullptr;
    session::TransmitBatch batch_;
    size_t next_ = 0;                               // first item not done with
    size_t done_of_next_ = 0;                       // bytes of it already sent
    base::TimePoint blocked_since_ = base::kNever;  // nothing of the item at next_ has left since
    std::array<io::SendItem, session::kBatchItems> items_;
};

}  // namespace continuo::dataplane
