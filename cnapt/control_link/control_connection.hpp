// ControlClient::Inner: the connection to one SNAPT's control port, on the control thread. Included
// only by control_client.cpp, control_connection.cpp and control_race.cpp.
#pragma once

#include "cnapt/control_link/connect_race.hpp"
#include "cnapt/control_link/control_client.hpp"
#include "cnapt/control_link/plain_link.hpp"
#include "common/base/log.hpp"
#include "common/daemon/handler_gate.hpp"
#include "common/io/system_random.hpp"
#include "common/io/tcp_stream.hpp"

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace continuo::cnapt::control_link {

//          start            TLS finished        Established
//   Waiting ──────▶ Connecting ──────▶ Linked ─ ─ ─ ─ ─ ─ ─ ─ (stays)
//      ▲   delay over    │ 5 s, error     │ LinkClosed, Rejected
//      └─────────────────┴────────────────┘
// Connecting: race_, and candidates_ that have connected. The first one to finish its handshake,
// which proves the SNAPT, becomes the link, and only it says HELLO. Linked: connection_, and after
// connect_by() a race for its place. Everything here belongs to the control thread, except shutting
// the gate, which is the data loop's.
class ControlClient::Inner : public std::enable_shared_from_this<ControlClient::Inner>,
                             private control::DatagramSink {
  public:
    Inner(ControlThread& thread, io::EventLoop& data_loop, ControlClientHandler& handler)
        : loop_(thread.loop())
        , gate_(data_loop, handler)
        , plain_(
              loop_,
              *out_,
              [this](base::ByteView datagram) { on_datagram(datagram); },
              [this] { tell_room(); },
              [this] { tell([](ControlClientHandler& told) { told.on_stream_lost(); }); }) {}

    base::Result<void> start(ControlClientOptions options);
    void stop();
    // Data loop: runs `action` on the control thread.
    template <typename Action>
    bool later(Action action) {
        return loop_.post([self = shared_from_this(), action = std::move(action)]() mutable {
            if (self->running_) {
                action(*self);
            }
        });
    }
    // Likewise, calls `action(ClientControl&)` if there is a connection; events report its failure.
    template <typename Action>
    bool with_link(Action action) {
        return later([action = std::move(action)](Inner& self) mutable {
            if (self.connection_) {
                action(*self.connection_->control);
                self.update();
            }
        });
    }

    void network_changed(ControlUplinks uplinks);
    void set_addresses(std::vector<base::Endpoint> addresses) {
        options_.addresses = std::move(addresses);
    }
    void set_uplinks(ControlUplinks uplinks) {
        if (!connection_ && !race_) {
            options_.uplinks = std::move(uplinks);
        }
    }
    void connect_by(const ControlUplink& uplink);
    void stay() {
        asked_.clear();
        if (connection_) {
            end_race();
            set_timer();
        }
    }
    void restart();
    // Without a connection, asking means connecting: at once, unless sessions were lost right after
    // they were made or the SNAPT refuses this node.
    void query_session();
    void attempt_now();
    void try_now();
    void on_sent_away() {
        is_sent_away_ = true;
        delay_ = std::max(delay_, kMaxReconnectDelay);
    }
    bool may_hurry() const {
        return !connection_ && !race_ && short_sessions_ == 0 && !is_sent_away_;
    }
    bool is_hearsay() const { return options_.is_hearsay && established_at_ == base::TimePoint{}; }
    dataplane::StreamPort stream() {
        return {out_, [weak = weak_from_this()] {
                    const auto self = weak.lock();
                    return self && self->wake();
                }};
    }
    base::TimePoint now() { return loop_.now(); }

    // Replaces a directory's address that must not be tried yet by the one that let this node in
    // last; if there is none, waits.
    std::optional<base::Endpoint> allowed(const base::Endpoint& next) const;
    bool is_proven(const base::Endpoint& remote) const {
        return !options_.is_hearsay || let_in_by_ == remote;
    }

  private:
    struct Connection {
        explicit Connection(io::UniqueFd fd) : stream(std::move(fd)) {}
        base::Endpoint remote;
        std::optional<ControlUplink> uplink;  // where it started
        size_t way = 0;                       // index in the race
        io::TcpStream stream;
        std::unique_ptr<control::ClientControl> control;
        base::TimePoint open_since = base::kNever;
        std::unique_ptr<io::Poller> poller;  // last: gone before the descriptor
    };

    void attempt();
    bool is_readable() const {
        const control::Accept& accept = connection_->control->accept();
        return accept.protection.kind == control::ProtectionKind::HmacSha256;
    }
    void feed_plain();
    std::optional<base::Endpoint> next_address();
    bool stays_with(const ControlUplinks& uplinks) const;
    bool has_address(base::IpVersion version) const;
    // Selects the next address: of the preferred IP version, if there is one and an uplink for it.
    void prefer_version();
    // --- control_race.cpp
    // The addresses in the order of attempts, from `first` on.
    std::vector<ConnectWay> ways(const base::Endpoint& first) const;
    void on_connected(io::UniqueFd fd, size_t number, const ConnectWay& way);
    void on_input(Connection& of, bool is_readable);
    // Call after each input of a candidate. May end it, or the race.
    void go_on(Connection& candidate);
    void begin_race(std::vector<ConnectWay> ways);
    void take(Connection& candidate);
    void drop(Connection& candidate);
    void on_race_lost(int sys_errno);
    void on_race_timer(base::TimePoint at);
    void end_race();

    void on_readable();
    void on_timer();
    // Call after each input: events, bytes, timer. May end the connection.
    void update();
    void on_event(const control::ClientEvent& event);
    void lost(base::Duration at_least);
    void connect_later(base::Duration at_least);
    // Ends an attempt without a TCP connection; `remote`: none if there was no address.
    void fail_attempt(int sys_errno, std::optional<base::Endpoint> remote);
    void fail_attempt(LinkEnd end);
    void set_timer();
    void on_datagram(base::ByteView datagram) override;
    void tell_arrivals();
    // Data loop: has taken what was there.
    void on_arrivals_taken();
    // True: nothing is read until the data loop has taken some of what came.
    bool is_held_up();
    base::Result<bool> send_pending();
    template <typename Call>
    void tell(Call call) {
        if (!gate_.tell(std::move(call))) {
            base::log(base::LogLevel::Warning, "control: the data loop does not take events");
        }
    }

    bool wake() {
        return with_link([](control::ClientControl&) {});  // update() sends what is there
    }
    void tell_room() {
        if (!gate_.tell([](ControlClientHandler& handler) { handler.on_stream_room(); })) {
            out_->on_room_untold();
        }
    }

    io::EventLoop& loop_;
    daemon::HandlerGate<ControlClientHandler> gate_;
    std::shared_ptr<dataplane::DatagramQueue> out_ = std::make_shared<dataplane::DatagramQueue>();
    std::shared_ptr<dataplane::DatagramQueue> in_ = std::make_shared<dataplane::DatagramQueue>();
    ControlClientOptions options_;
    std::optional<control::TlsContext> context_;
    io::SystemRandom random_;
    std::unique_ptr<io::DeadlineTimer> timer_;
    std::unique_ptr<ConnectRace> race_;                    // while connecting
    std::vector<std::unique_ptr<Connection>> candidates_;  // at most kMaxConnectWays
    std::vector<ConnectWay> asked_;   // by connect_by(), and still wanted; one for each uplink
    std::optional<LinkEnd> way_end_;  // the most informative one
    std::unique_ptr<Connection> connection_;
    PlainLink plain_;
    bool has_arrivals_ = false;                 // in in_, and the data loop does not know
    std::atomic<bool> waits_for_room_ = false;  // in in_; the data loop says when there is some
    control::EpochKeys keys_;                   // the latest epoch's
    uint32_t last_plain_number_ = 0;
    size_t next_address_ = 0;
    base::Duration delay_ = kMinReconnectDelay;
    base::TimePoint attempt_at_ = base::kNever;
    base::TimePoint hearsay_at_{};             // when one may be tried again
    std::optional<base::Endpoint> let_in_by_;  // last
    base::TimePoint established_at_{};         // last
    uint32_t short_sessions_ = 0;  // successive, lost within kStableLink: a rival, perhaps
    bool is_sent_away_ = false;    // by the SNAPT, and not let in since
    bool started_ = false;         // data loop
    bool running_ = false;
};

}  // namespace continuo::cnapt::control_link
