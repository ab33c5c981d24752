// ControlServer: the socket side of control at a SNAPT. It has two threads, ControlDoor for
// strangers and ControlLinks for authenticated links, so that no TLS handshake delays data. Calls
// come from the data loop's thread and take effect later; events go to a ControlHandler on the data
// loop. docs/PROTOCOL.md section 4.
#pragma once

#include "common/base/ip_address.hpp"
#include "common/control/server_control.hpp"
#include "common/dataplane/datagram_queue.hpp"
#include "common/io/event_loop.hpp"
#include "snapt/links/event_log.hpp"

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace continuo::snapt::links {

// Names a control link; never reused by a server.
using LinkId = uint64_t;

// Messages of a node that do not need the data loop. Called on the thread of links, which it must
// not block; may outlive the link.
class LinkDesk {
  public:
    LinkDesk() = default;
    LinkDesk(const LinkDesk&) = delete;
    LinkDesk& operator=(const LinkDesk&) = delete;
    virtual ~LinkDesk() = default;

    virtual void on_names(std::span<const control::App> apps) = 0;
    // Nothing: reply_usage() follows.
    virtual std::optional<std::string> on_usage_query(const control::UsageQuery& query) = 0;
    // Whether the data path still knows the association.
    virtual bool is_session_known() const = 0;
    // The link is not read for a while, since it sent more than is accepted.
    virtual void on_paused() = 0;
};

// Runs on the data loop. After on_hello() a link gets exactly one on_closed(), which ends its id.
class ControlHandler {
  public:
    ControlHandler() = default;
    ControlHandler(const ControlHandler&) = delete;
    ControlHandler& operator=(const ControlHandler&) = delete;
    virtual ~ControlHandler() = default;

    // An authenticated node wants to be let in: answer with accept() or reject() within
    // kHandshakeTimeout.
    virtual void
    on_hello(LinkId link, const base::Endpoint& from, const control::HelloReceived& hello) = 0;
    // Keys of the epoch of accept(), or of a re-key: install them, then call confirm().
    virtual void on_keys(LinkId link, const control::EpochKeys& keys) = 0;
    // Never empty.
    virtual void on_modes(LinkId link, std::span<const control::AppMode> modes) = 0;
    // Outer datagrams came over TCP: pull them. Also after on_closed().
    virtual void on_datagrams(LinkId link, dataplane::DatagramQueue& queue) = 0;
    // open_stream() accepts datagrams again after it was nearly full.
    virtual void on_stream_room(LinkId link) = 0;
    // The link is gone; the association is not, unless the peer's reason says so.
    virtual void on_closed(LinkId link, const control::LinkClosed& closed) = 0;
};

struct ControlServerOptions {
    std::vector<base::Endpoint> listen;  // port 0: any, for tests
    control::ServerParameters parameters;
    size_t max_links = 10000;    // authenticated ones; more are closed at accept
    size_t user_sessions = 0;    // as ControlServer::set_user_sessions()
    EventLog* events = nullptr;  // takes refusals; must outlive the server; null: nobody reads them
};

struct ControlServerCounters {
    uint64_t accepted = 0;
    uint64_t refused = 0;            // by HandshakeLimiter, max_links, or a full queue
    uint64_t displaced = 0;          // unfinished ones displaced by newer ones
    uint64_t failed_handshakes = 0;  // closed before authentication
    uint64_t portal_checks = 0;      // answered
    uint64_t links = 0;              // current
    uint64_t refused_links = 0;      // the user had its limit of links
    uint64_t refused_hellos = 0;     // by HelloGate
    uint64_t pauses = 0;             // links not read for a while: they sent more than is accepted
};

class ControlServer {
  public:
    // All must outlive this object. `credentials` is asked on the threads of strangers and of
    // links: it must lock shared data.
    ControlServer(io::EventLoop& data_loop,
                  ControlHandler& handler,
                  control::CredentialSource& credentials);
    ControlServer(const ControlServer&) = delete;
    ControlServer& operator=(const ControlServer&) = delete;
    // As stop().
    ~ControlServer();

    // Opens the listeners and starts the threads. Errors: System (bind, listen; `where` says what),
    // InvalidState.
    base::Result<void> start(ControlServerOptions options);
    // Sends CLOSE (shutdown) on every link, as far as sockets accept it at once, and joins the
    // threads. No more calls to the handler.
    void stop();
    // The bound endpoints, in the order of the options.
    const std::vector<base::Endpoint>& endpoints() const;

    // Limit of a user's sessions, from which those of its links and HELLOs follow; 0: none.
    void set_user_sessions(size_t user_sessions);
    // Unknown links are ignored: they may have closed meanwhile.
    void accept(LinkId link, control::Accept accept, std::shared_ptr<LinkDesk> desk);
    void reject(LinkId link, control::RejectReason reason, std::string text);
    void confirm(LinkId link, uint32_t epoch);
    void ask_for_rekey(LinkId link);
    void send_directory(LinkId link, control::Directory directory);
    void ask_for_keepalive(LinkId link);
    void reply_usage(LinkId link, control::UsageReply reply);
    void tell_session_state(LinkId link, bool known);
    void tell_allowance(LinkId link, const control::Allowance& allowance);
    // The queue of outer datagrams into the link. Must not be used after this object is destroyed.
    dataplane::StreamPort open_stream(LinkId link);
    void close(LinkId link, control::CloseReason reason, std::string text);

    // Any thread.
    ControlServerCounters counters() const;

  private:
    struct Inner;
    std::unique_ptr<Inner> inner_;
};

}  // namespace continuo::snapt::links
