// ControlConnection: a TCP connection with the SNAPT's end of control, which moves from the thread
// of strangers to that of links; and data shared by these threads. Included only by the parts of
// ControlServer.
#pragma once

#include "common/io/tcp_stream.hpp"
#include "snapt/links/control_server.hpp"
#include "snapt/links/hello_desk.hpp"
#include "snapt/links/user_links.hpp"

#include <atomic>
#include <memory>
#include <optional>
#include <utility>

namespace continuo::snapt::links {

// As ControlServerCounters.
struct ControlCounts {
    std::atomic<uint64_t> accepted = 0;
    std::atomic<uint64_t> refused = 0;
    std::atomic<uint64_t> displaced = 0;
    std::atomic<uint64_t> failed_handshakes = 0;
    std::atomic<uint64_t> portal_checks = 0;
    std::atomic<uint64_t> refused_links = 0;
    std::atomic<uint64_t> refused_hellos = 0;
    std::atomic<uint64_t> pauses = 0;
    std::atomic<uint64_t> links = 0;
};

// `parameters` and `context` do not change while a thread runs. Outlives all connections.
struct ControlShared {
    explicit ControlShared(control::CredentialSource& source) : credentials(source) {}

    control::CredentialSource& credentials;  // locks what it shares
    control::ServerParameters parameters;
    std::optional<control::TlsContext> context;
    HelloDesk hellos;
    ControlCounts counts;
    UserLinks user_links;
    EventLog* events = nullptr;

    void note(EventLog::Kind kind, EventLog::Fields fields, base::TimePoint now) const {
        if (events != nullptr) {
            events->write(kind, fields, now);
        }
    }
};

// Room in the queue to the data loop for what a read may release: a buffer, and a TLS record begun
// before it.
inline constexpr size_t kRoomToRead = size_t{48} << 10;
static_assert(kRoomToRead ==
              dataplane::DatagramQueue::kReservedBytes + 2 * io::TcpStream::kBufferBytes);
// For one more datagram of any class.
inline constexpr size_t kRoomForOne = dataplane::DatagramQueue::kReservedBytes + 1;

// Datagrams of one link on their way to the data loop. TCP waits where that is behind: what is
// dropped all the same makes a connection in the tunnel wait for its timer.
class DatagramInput final : public control::DatagramSink {
  public:
    // Any thread; false: nobody could be told.
    using OnRoom = std::function<bool()>;

    // `on_room` is called once there is room again after it was missing. Before anything comes.
    void set_on_room(OnRoom on_room) {
        queue_ = std::make_shared<dataplane::DatagramQueue>(std::move(on_room));
    }
    bool has_room(size_t bytes) { return queue_->has_room(bytes); }
    void on_datagram(base::ByteView datagram) override {
        wants_wake_ = queue_->push(datagram, 0).wants_wake || wants_wake_;
    }
    void on_wake_failed() {
        queue_->on_wake_failed();
        wants_wake_ = true;  // asked again
    }
    bool take_wake() { return std::exchange(wants_wake_, false); }
    bool wants_wake() const { return wants_wake_; }
    const std::shared_ptr<dataplane::DatagramQueue>& queue() const { return queue_; }

  private:
    std::shared_ptr<dataplane::DatagramQueue> queue_ = std::make_shared<dataplane::DatagramQueue>();
    bool wants_wake_ = false;
};

// Belongs to one thread at a time. Counts as a link even between threads.
struct ControlConnection {
    ControlConnection(ControlShared& shared,
                      LinkId its_id,
                      const base::Endpoint& its_peer,
                      io::UniqueFd fd)
        : counts(shared.counts)
        , id(its_id)
        , from(its_peer)
        , stream(std::move(fd))
        , control(*shared.context, shared.credentials, shared.parameters, &datagrams) {
        ++counts.links;
    }
    ControlConnection(const ControlConnection&) = delete;
    ControlConnection& operator=(const ControlConnection&) = delete;
    ~ControlConnection() { --counts.links; }

    ControlCounts& counts;
    std::unique_ptr<UserLinks::Place> place;  // once its user is known
    LinkId id;
    base::Endpoint from;
    io::TcpStream stream;
    DatagramInput datagrams;
    control::ServerControl control;
};

// A closed connection waits this long for the peer's end of stream, so that a reset does not cut
// its last words.
inline constexpr base::Duration kLinger = base::seconds(1);

}  // namespace continuo::snapt::links
