// ControlLinks: the part of ControlServer for authenticated links, on its own thread: control
// messages, and datagrams of nodes that reach the SNAPT only over TCP, in TLS or over a plain
// connection each. ControlDoor passes accepted connections by message.
#pragma once

#include "common/daemon/handler_gate.hpp"
#include "common/dataplane/plain_stream.hpp"
#include "snapt/links/control_connection.hpp"
#include "snapt/links/control_thread.hpp"
#include "snapt/links/hello_gate.hpp"
#include "snapt/links/link_deadlines.hpp"

#include <atomic>
#include <memory>
#include <unordered_map>
#include <utility>

namespace continuo::snapt::links {

// Most events of one link on their way to the data loop. Beyond it, or beyond the rate below, its
// socket is not read: a flood waits at its sender.
inline constexpr int kMaxEventsUnderWay = 8;
// Limits of all events, also of those that the desk serves: at once, and the interval for each
// further one. This many names and modes of applications count as one more.
inline constexpr int kEventBurst = 32;
inline constexpr base::Duration kEventInterval = base::milliseconds(50);
inline constexpr size_t kAppsOfAnEvent = 64;

// Nodes that reach the SNAPT over UDP take precedence.
inline constexpr int kLinksNiceness = 5;

// All private members belong to the thread while it runs, except the gate.
class ControlLinks {
  public:
    // All must outlive this.
    ControlLinks(io::EventLoop& data_loop, ControlHandler& handler, ControlShared& shared);
    ControlLinks(const ControlLinks&) = delete;
    ControlLinks& operator=(const ControlLinks&) = delete;
    ~ControlLinks();

    void start() { thread_.start(); }
    // Sends CLOSE (shutdown) on every link, including those on their way here. Call after
    // ControlDoor::stop().
    void stop();
    // Data loop: no more calls to the handler.
    void shut_gate() { gate_.shut(); }

    // Any thread. An authenticated connection, without a poller, becomes a link. False: too far
    // behind, so it is closed.
    bool adopt(std::unique_ptr<ControlConnection> connection);
    // Any thread. The plain connection of that link, whose HELLO was accepted; replaces an older
    // one. False: as above.
    bool attach(LinkId id, std::unique_ptr<dataplane::PlainStream> plain);

    // Any thread: runs `action(ServerControl&, now)` on the link's thread if the link still exists.
    // Returns false if the thread is too far behind.
    template <typename Action>
    bool with_link(LinkId id, Action action) {
        return thread_.loop().post([this, id, action = std::move(action)]() mutable {
            if (Link* link = find(id)) {
                action(link->connection->control, thread_.loop().now());
                update(*link);
            }
        });
    }
    void accept(LinkId id, control::Accept accept, std::shared_ptr<LinkDesk> desk);
    dataplane::StreamPort open_stream(LinkId id);

  private:
    struct Link {
        std::unique_ptr<ControlConnection> connection;
        std::shared_ptr<LinkDesk> desk;                 // null until it is accepted
        std::shared_ptr<std::atomic<int>> under_way;    // on their way to the data loop
        base::TimePoint events_paid_at{};               // as HelloGate counts
        bool is_paused = false;                         // not read
        std::shared_ptr<dataplane::DatagramQueue> out;  // null until the daemon opens it
        base::TimePoint deadline = base::kNever;        // as in deadlines_
        bool announced = false;                         // on_hello was called
        bool lingering = false;
        // An association that only authenticates: its datagrams go over a plain connection.
        bool is_readable = false;
        uint16_t wire_session_up = 0;
        uint8_t tag_bytes = 0;
        bool waits_for_room = false;  // to the data loop: nothing is read
        std::unique_ptr<dataplane::PlainStream> plain;
        std::unique_ptr<io::Poller> plain_poller;  // gone before the descriptor
        std::unique_ptr<io::Poller> poller;        // last: gone before the descriptor
    };

    Link* find(LinkId id);
    void add_link(std::unique_ptr<ControlConnection> connection);
    void on_readable(LinkId id);
    void on_writable(LinkId id);
    void on_timer();
    // Call after every input of a link: events, bytes, deadline. May destroy it.
    void update(Link& link);
    // False: the data loop has enough events; others wait.
    bool hand_over_events(Link& link);
    void hand_over_last_events(Link& link);
    void wake_data_loop(Link& link);
    bool may_tell(const Link& link);
    // Serves messages that need no data loop.
    static bool serve(Link& link, const control::ServerEvent& event);
    bool let_hello_pass(Link& link, const control::HelloReceived& received);
    void refuse(Link& link,
                const control::HelloReceived& received,
                control::RejectReason reason,
                const char* text);
    void tell(Link& link, control::ServerEvent&& event);
    void on_event_taken(LinkId id, int still_under_way);
    base::Result<bool> send_pending(Link& link);
    void tell_room(const Link& link);
    void lose(Link& link);
    void remove(Link& link);
    // Plain connections: docs/PROTOCOL.md section 3.7.
    void set_plain(LinkId id, std::unique_ptr<dataplane::PlainStream> plain);
    void on_plain_readable(LinkId id);
    // The data loop has taken some of what waited.
    void on_room(LinkId id);
    static bool has_room(Link& link, size_t bytes);
    // As DatagramQueue::Pulled::tells_room.
    static bool flush_plain(Link& link);
    void remember_keys(const Link& link, const control::EpochKeys& keys);

    daemon::HandlerGate<ControlHandler> gate_;
    ControlShared& shared_;
    ControlThread thread_{"snapt-links", kLinksNiceness};
    LinkDeadlines deadlines_;
    HelloGate hello_gate_;
    std::unordered_map<LinkId, std::unique_ptr<Link>> links_;
};

}  // namespace continuo::snapt::links
