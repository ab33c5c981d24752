// The inside of ControlServer: its links, with TLS or plain. Included by its own sources only.
#pragma once

#include "common/control/handshake_limiter.hpp"
#include "common/daemon/handler_gate.hpp"
#include "common/dataplane/plain_stream.hpp"
#include "common/io/system_random.hpp"
#include "common/io/tcp_stream.hpp"
#include "snapt/control_listener.hpp"
#include "snapt/control_server.hpp"
#include "snapt/portal_desk.hpp"

#include <atomic>
#include <optional>
#include <set>
#include <thread>
#include <unordered_map>
#include <utility>

namespace continuo::snapt {

// Datagrams of one link, on their way to the data loop; dropped when that is behind, as a network
// would.
class DatagramInput final : public control::DatagramSink {
  public:
    void on_datagram(base::ByteView datagram) override {
        wants_wake_ = queue_->push(datagram, 0).wants_wake || wants_wake_;
    }
    void on_wake_failed() { queue_->on_wake_failed(); }
    bool take_wake() { return std::exchange(wants_wake_, false); }
    const std::shared_ptr<dataplane::DatagramQueue>& queue() const { return queue_; }

  private:
    std::shared_ptr<dataplane::DatagramQueue> queue_ = std::make_shared<dataplane::DatagramQueue>();
    bool wants_wake_ = false;
};

// Everything here belongs to the control thread but shutting the gate, which is the data loop's,
// and the atomics.
class ControlServer::Inner {
  public:
    Inner(io::EventLoop& data_loop, ControlHandler& handler, control::CredentialSource& credentials)
        : gate_(data_loop, handler)
        , credentials_(credentials)
        , listener_(loop_,
                    [this](io::UniqueFd fd, const base::Endpoint& from) {
                        add_link(std::move(fd), from);
                    })
        , timer_(loop_, [this] { on_timer(); }) {}

    base::Result<void> start(ControlServerOptions options);
    void stop();

    // Data loop: runs `action(ServerControl&, now)` on the control thread.
    template <typename Action>
    bool with_link(LinkId id, Action action) {
        return loop_.post([this, id, action = std::move(action)]() mutable {
            const auto found = links_.find(id);
            if (found != links_.end()) {
                action(found->second->control, loop_.now());
                update(*found->second);
            }
        });
    }
    void accept_link(LinkId id, control::Accept accept);
    dataplane::StreamPort open_stream(LinkId id);
    ControlServerCounters counters() const;

    std::vector<base::Endpoint> endpoints;

  private:
    // Told by the first octet, and never again: later ones may look like any.
    enum class Kind : uint8_t { Unknown, Tls, Plain, PortalCheck };
    struct Link {
        Link(Inner& owner, io::UniqueFd fd)
            : stream(std::move(fd))
            , control(*owner.context_, owner.credentials_, owner.parameters_, &datagrams) {}
        LinkId id = 0;
        base::Endpoint from;
        io::TcpStream stream;
        DatagramInput datagrams;
        std::shared_ptr<dataplane::DatagramQueue> out;  // null until the daemon opens it
        control::ServerControl control;
        std::optional<control::HandshakeLimiter::Ticket> ticket;
        base::TimePoint deadline = base::kNever;  // as in deadlines_
        bool announced = false;                   // on_hello was called
        bool lingering = false;
        // An association that only authenticates: its datagrams go over a plain connection.
        bool is_readable = false;
        uint16_t wire_session_up = 0;
        uint8_t tag_bytes = 0;
        dataplane::HelloCheck hellos;
        // Of the association's own link: its plain connection. Of one of that kind: itself, until
        // its HELLO has come.
        std::unique_ptr<dataplane::PlainStream> plain;
        Kind kind = Kind::Unknown;
        std::vector<uint8_t> portal_input;         // what has come of a question
        std::unique_ptr<io::Poller> plain_poller;  // gone before the descriptor
        std::unique_ptr<io::Poller> poller;        // last: gone before the descriptor
    };

    void add_link(io::UniqueFd fd, const base::Endpoint& from);
    void on_readable(LinkId id);
    static Kind kind_of(const Link& link);
    // Plain connections: docs/PROTOCOL.md section 3.7.
    void on_stranger_readable(Link& link);
    Link* greeted(const wire::Hello& hello);
    void on_plain_readable(LinkId id);
    // Questions for a captive portal: docs/PROTOCOL.md section 4.9.
    void on_portal_readable(Link& link);
    void remember_keys(Link& link, const control::EpochKeys& keys);
    void on_timer();
    // After every input of a link: events, bytes, timer. May destroy it.
    void update(Link& link);
    void hand_over_events(Link& link);
    base::Result<bool> send_pending(Link& link);
    void tell_room(const Link& link);
    void set_deadline(Link& link, base::TimePoint at);
    void remove(Link& link);
    void shut_down();

    daemon::HandlerGate<ControlHandler> gate_;
    control::CredentialSource& credentials_;
    control::ServerParameters parameters_;
    size_t max_links_ = 0;
    std::optional<control::TlsContext> context_;
    std::optional<PortalDesk> desk_;
    io::EventLoop loop_;
    ControlListener listener_;
    io::DeadlineTimer timer_;
    std::unordered_map<LinkId, std::unique_ptr<Link>> links_;
    std::set<std::pair<base::TimePoint, LinkId>> deadlines_;
    io::SystemRandom random_;
    control::HandshakeLimiter limiter_{random_};
    std::atomic<uint64_t> accepted_ = 0;
    std::atomic<uint64_t> refused_ = 0;
    std::atomic<uint64_t> displaced_ = 0;
    std::atomic<uint64_t> failed_handshakes_ = 0;
    std::atomic<uint64_t> portal_checks_ = 0;
    std::atomic<uint64_t> link_count_ = 0;
    std::thread thread_;
};

}  // namespace continuo::snapt
