// ControlDoor: the part of ControlServer for strangers. It listens, accepts, tells kinds of
// connection apart, answers portal checks, does TLS handshakes and checks HELLOs, on a thread that
// never carries data. Only authenticated connections go to ControlLinks. docs/PROTOCOL.md sections
// 3.7, 4.7 and 4.9.
#pragma once

#include "common/control/handshake_limiter.hpp"
#include "common/host/system_random.hpp"
#include "snapt/links/control_connection.hpp"
#include "snapt/links/control_links.hpp"
#include "snapt/links/control_listener.hpp"
#include "snapt/links/control_thread.hpp"
#include "snapt/links/link_deadlines.hpp"
#include "snapt/links/portal_desk.hpp"

#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

namespace continuo::snapt::links {

// Handshakes take no time from data.
inline constexpr int kDoorNiceness = 10;

// All private members belong to the thread while it runs.
class ControlDoor {
  public:
    // Both must outlive this.
    ControlDoor(ControlShared& shared, ControlLinks& links);
    ControlDoor(const ControlDoor&) = delete;
    ControlDoor& operator=(const ControlDoor&) = delete;
    ~ControlDoor();

    // Opens the listeners and returns the bound endpoints. Errors: System.
    base::Result<std::vector<base::Endpoint>> open(const std::vector<base::Endpoint>& listen,
                                                   size_t max_links);
    void start() { thread_.start(); }
    bool is_running() const { return thread_.is_running(); }
    // Passes nothing more to `links`, and closes all other connections.
    void stop();

  private:
    // Determined by the first octet only: later ones may look like any kind.
    enum class Kind : uint8_t { Unknown, Tls, Plain, PortalCheck };
    struct Stranger {
        std::unique_ptr<ControlConnection> connection;  // its id is the limiter's ticket
        base::TimePoint deadline = base::kNever;        // as in deadlines_
        Kind kind = Kind::Unknown;
        bool lingering = false;
        std::unique_ptr<dataplane::PlainStream> plain;  // has the connection's stream
        std::vector<uint8_t> portal_input;              // bytes of a question so far
        std::unique_ptr<io::Poller> poller;             // last: gone before the descriptor
    };

    void admit(io::UniqueFd fd, const base::Endpoint& from);
    static Kind kind_of(const Stranger& stranger);
    void on_readable(LinkId id);
    void on_writable(LinkId id);
    void on_tls_readable(Stranger& stranger);
    void let_in(Stranger& stranger);
    void on_plain_readable(Stranger& stranger);
    void on_portal_readable(Stranger& stranger);
    void on_timer();
    // Call after every input of a handshake: bytes, deadline. May destroy it.
    void update(Stranger& stranger);
    void note_failure(Stranger& stranger);
    // Leaves the peer time to read the reason: closing at once may lose it.
    void linger(Stranger& stranger);
    // Counts as failed unless it lingers, which is counted already.
    void remove(Stranger& stranger);
    void forget(LinkId id);

    ControlShared& shared_;
    ControlLinks& links_;
    ControlThread thread_{"snapt-door", kDoorNiceness};
    ControlListener listener_;
    LinkDeadlines deadlines_;
    host::SystemRandom random_;
    control::HandshakeLimiter limiter_{random_};
    std::optional<PortalDesk> desk_;
    size_t max_links_ = 0;
    std::unordered_map<LinkId, std::unique_ptr<Stranger>> strangers_;
};

}  // namespace continuo::snapt::links
