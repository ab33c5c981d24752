// ClientControl: the node's end of one control connection, without socket and clock. Inputs: start,
// on_bytes, on_transport_closed, on_timeout and the requests; outputs: poll_bytes, poll_event,
// next_deadline. After every input take bytes and events until there are none and set the timer
// anew. One object is one connection attempt: a new connection is a new object. docs/PROTOCOL.md
// section 4.6.
#pragma once

#include "common/base/random.hpp"
#include "common/base/timer_table.hpp"
#include "common/control/control_link.hpp"
#include "common/control/epoch_keys.hpp"

#include <deque>
#include <span>

namespace continuo::control {

struct ClientParameters {
    Identity identity;
    UserKey key{};
    std::optional<IdentityKey> identity_key;
    std::string realm;           // the key is derived for it, and ACCEPT must name it
    std::string expected_snapt;  // empty: any SNAPT of the realm
    Hello hello;
};

struct Established {
    Accept accept;
    EpochKeys keys;
};
struct Rejected {
    Reject reject;  // the link is closed
};
struct Rekeyed {
    EpochKeys keys;
};
struct RekeyRequested {};
using ClientEvent = std::variant<Established,
                                 Rejected,
                                 Rekeyed,
                                 RekeyRequested,
                                 Directory,
                                 KeepaliveRequest,
                                 UsageReply,
                                 SessionState,
                                 Allowance,
                                 LinkClosed>;

//             start            TLS finished          ACCEPT
//   Idle ────────────▶ Handshake ──────▶ WaitAccept ───────▶ Open
//                          │ 5 s, alert       │ 5 s, REJECT     │ CLOSE, end of stream, no PONG,
//                          close() └──────────────────┴────────────────▶ Closed
// Handshake: nothing of the peer is believed. WaitAccept: HELLO is sent. Open: requests are
// allowed. Closed: only poll_bytes (an alert or CLOSE may remain) and poll_event; exactly one
// Rejected or LinkClosed was given.
enum class ClientState : uint8_t { Idle, Handshake, WaitAccept, Open, Closed };

class ClientControl {
  public:
    // `sink` (may be null) and both references must outlive this object.
    ClientControl(const TlsContext& context, base::Random& random, DatagramSink* sink);

    // Errors: InvalidState, InvalidConfig (identity), System.
    base::Result<void> start(ClientParameters parameters, base::TimePoint now);
    void on_bytes(base::ByteView bytes, base::TimePoint now);
    void on_transport_closed(base::TimePoint now);
    void on_timeout(base::TimePoint now);

    // All but close(): InvalidState unless Open; WouldBlock when the output is full.
    // Asks for the keys of the next epoch; one request at a time (InvalidState).
    base::Result<void> request_rekey(base::TimePoint now);
    base::Result<void> send_apps(const Apps& apps);
    base::Result<void> query_usage(uint32_t request, std::string json);
    // The link is Closed by PongTimeout if no answer comes in kSessionStateTimeout.
    base::Result<void> query_session(base::TimePoint now);
    base::Result<void> send_datagram(base::ByteView datagram);
    // Sends a ping: PongTimeout closes the link if no answer comes in kPongTimeout.
    base::Result<void> probe(base::TimePoint now);
    void close(CloseReason reason, std::string_view text);

    size_t poll_bytes(base::MutableByteView to) { return link_.poll_bytes(to); }
    bool has_bytes() const { return link_.has_bytes(); }
    size_t pending_bytes() const { return link_.pending_bytes(); }
    std::optional<ClientEvent> poll_event();
    base::TimePoint next_deadline() const { return timers_.next_deadline(); }

    ClientState state() const { return state_; }
    const Accept& accept() const { return accept_; }  // once Open
    uint32_t epoch() const { return epoch_; }         // latest with keys, once Open

  private:
    enum class Timer : uint8_t { Handshake, Ping, Pong, Rekey, SessionState, Count };

    void read_messages(base::TimePoint now);
    void on_message(const RawMessage& raw, base::TimePoint now);
    void on_accept(Accept&& accept, base::TimePoint now);
    void on_rekey_ok(const RekeyOk& granted);
    void on_open_message(Message&& message);
    void send_hello();
    bool is_acceptable(const Accept& accept) const;
    base::Result<void> send_open(const Message& message);
    void push(ClientEvent&& event);
    void finish(CloseCause cause, Close peer = {});

    const TlsContext& context_;
    base::Random& random_;
    DatagramSink* sink_;
    ClientParameters parameters_;
    ControlLink link_;
    base::TimerTable<Timer> timers_;
    std::deque<ClientEvent> events_;
    Accept accept_;
    AssociationId association_;
    uint64_t ping_opaque_ = 0;
    uint32_t epoch_ = 0;
    bool rekey_pending_ = false;
    ClientState state_ = ClientState::Idle;
};

}  // namespace continuo::control
