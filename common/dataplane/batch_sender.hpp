// BatchSender: sends a TransmitBatch on the sockets. Datagrams that a full socket refuses stay in
// its backlog, in order, and go first when it is writable again; the other sockets go on. Meanwhile
// the sessions see no room on those paths, so that inner packets wait in their class queues. If a
// socket accepts nothing for kMaxBlocked, or the session has given its path up, its backlog is
// dropped (SendFailed). Each item is counted when the kernel has accepted it. One thread.
#pragma once

#include "common/base/drop_reason.hpp"
#include "common/io/udp_socket.hpp"
#include "common/record/packet_recorder.hpp"
#include "common/tunnel/session.hpp"

#include <array>
#include <memory>

namespace continuo::dataplane {

// The socket for an item; null: it is gone.
class SocketDirectory {
  public:
    virtual ~SocketDirectory() = default;
    // The socket for the path, the class of the tuple, and the addresses of the item.
    virtual io::UdpSocket* socket_for(const session::TransmitItem& item) = 0;
    // Takes items for TCP (path wire::kTcpPath). False: impossible, the item is dropped.
    virtual bool send_stream(const session::TransmitItem& /*item*/, base::ByteView /*bytes*/) {
        return false;
    }
    // Outer ToS octet of the item; nothing: as the socket is set.
    virtual std::optional<uint8_t> tos_of(const session::TransmitItem& item) = 0;
    virtual io::SendResult send(io::UdpSocket& socket, std::span<const io::SendItem> items) {
        return socket.send(items);
    }
    // The socket is full: retry() when it is writable.
    virtual void wait_writable(io::UdpSocket& socket) = 0;
    // A datagram was longer than the path takes.
    virtual void on_too_big(const session::TransmitItem& item) = 0;
};

inline constexpr base::Duration kMaxBlocked = base::seconds(1);
// Interval at which a full socket is tried again, besides its notification.
inline constexpr base::Duration kRetryWhileBlocked = base::milliseconds(20);
// Most sockets that can be full at a time, each with up to a batch; further ones lose what they
// refuse.
inline constexpr size_t kMaxBacklogs = 8;

class BatchSender {
  public:
    BatchSender(SocketDirectory& sockets, base::DropCounters& drops)
        : sockets_(sockets), drops_(drops) {}

    // Records what the sockets take; null: nothing is recorded. It must outlive this.
    void record_to(record::PacketRecorder* recorder) { recorder_ = recorder; }

    // For sessions to add to.
    session::TransmitBatch& batch() { return queue_.batch; }
    // Sends the batch or moves it to backlogs; it is empty afterwards.
    void flush(base::TimePoint now);
    // There are backlogs.
    bool is_holding() const { return backlogs_used_ > 0; }
    // Tries the full sockets again. True when a backlog is gone, sent or dropped.
    bool retry(base::TimePoint now);
    // Sets the room of the session's paths. True: one leads to a full socket.
    bool set_rooms(tunnel::Session& session);
    // A session ends: its items are no longer counted for it.
    void forget(const tunnel::Session& session);
    // A flow ends: nothing more is counted for it.
    void forget(const flow::Flow& flow);

  private:
    struct Queue {
        session::TransmitBatch batch;
        size_t next = 0;          // first item not done with
        size_t done_of_next = 0;  // bytes of it already sent
    };
    struct Backlog {
        io::UdpSocket* socket = nullptr;  // null: free
        Queue queue;
        base::TimePoint blocked_since = base::kNever;  // nothing of its first item has left since
    };

    // The first item after those from queue.next on that go to that socket.
    size_t end_of_run(const Queue& queue, const io::UdpSocket* socket);
    size_t send_run(Queue& queue, size_t end, io::UdpSocket& socket);
    static bool is_worth_waiting(const session::TransmitItem& item);
    void drop_until(Queue& queue, size_t end);
    void send_over_stream();
    Backlog* backlog_of(const io::UdpSocket* socket);
    Backlog* new_backlog(io::UdpSocket& socket);
    void hold_until(size_t end, Backlog* backlog);
    bool serve(Backlog& backlog, base::TimePoint now);

    SocketDirectory& sockets_;
    base::DropCounters& drops_;
    record::PacketRecorder* recorder_ = nullptr;
    Queue queue_;
    std::array<std::unique_ptr<Backlog>, kMaxBacklogs> backlogs_;  // made when first needed
    size_t backlogs_used_ = 0;
    std::array<io::SendItem, session::kBatchItems> items_;
};

}  // namespace continuo::dataplane
