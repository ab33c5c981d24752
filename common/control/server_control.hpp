// ServerControl: the SNAPT's end of one control connection, without socket and clock. Inputs and
// outputs as ClientControl. Until the handshake is finished it holds the TLS object and nothing
// else. docs/PROTOCOL.md section 4.6.
#pragma once

#include "common/base/random.hpp"
#include "common/base/timer_table.hpp"
#include "common/control/control_link.hpp"
#include "common/control/epoch_keys.hpp"

#include <deque>
#include <memory>
#include <vector>

namespace continuo::control {

// Events waiting for poll_event(). Beyond it no message is read until read_on().
inline constexpr size_t kMaxServerEvents = 16;

// Knows the users' keys. Called during the handshake, at HELLO and at each re-key, on the thread of
// the link: must not block.
class CredentialSource {
  public:
    CredentialSource() = default;
    CredentialSource(const CredentialSource&) = delete;
    CredentialSource& operator=(const CredentialSource&) = delete;
    virtual ~CredentialSource() = default;
    // Nothing for unknown, disabled and revoked ones.
    virtual std::optional<UserKey> find(const Identity& identity) = 0;
    // Those of all users who may log in; another object when they have changed, never null.
    virtual std::shared_ptr<const std::vector<UserKey>> keys() {
        static const auto none = std::make_shared<const std::vector<UserKey>>();
        return none;
    }
};

struct ServerParameters {
    std::string realm;
    std::optional<IdentityKey> identity_key;
};

struct HelloReceived {
    Identity identity;
    Hello hello;
};
// The daemon installs the keys, then calls confirm(keys.epoch).
struct RekeyAsked {
    EpochKeys keys;
};
using ServerEvent =
    std::variant<HelloReceived, RekeyAsked, Apps, UsageQuery, SessionQuery, LinkClosed>;

//            TLS finished     HELLO             accept()        confirm()
//  Handshake ───────▶ WaitHello ─────▶ WaitDecision ─────▶ Prepared ─────▶ Open
//     │ 5 s, alert        │ 5 s             │ 5 s, reject()      │ 5 s        │ CLOSE, end of
//     stream, silence, close()
//     └───────────────────┴─────────────────┴────────────────────┴───────────▶ Closed
// All of the way to Open shares one deadline. Prepared: keys are exported and ACCEPT is not sent
// yet, so that the data path can open datagrams of the epoch before the node may send them; a
// re-key passes the same two steps. Closed: only poll_bytes (REJECT, CLOSE or an alert may remain)
// and poll_event; exactly one LinkClosed was given.
enum class ServerState : uint8_t { Handshake, WaitHello, WaitDecision, Prepared, Open, Closed };

class ServerControl final : private PskSource {
  public:
    // All references and `sink` (may be null) must outlive this object.
    ServerControl(const TlsContext& context,
                  CredentialSource& credentials,
                  const ServerParameters& parameters,
                  DatagramSink* sink);

    // Errors: System, InvalidState.
    base::Result<void> start(base::TimePoint now);
    void on_bytes(base::ByteView bytes, base::TimePoint now);
    void on_transport_closed(base::TimePoint now);
    void on_timeout(base::TimePoint now);

    // The answer to HelloReceived. The keys are for the data path; ACCEPT goes out with
    // confirm(accept.epoch). Errors: InvalidState, LimitReached (a field is too long), System.
    base::Result<EpochKeys> accept(const Accept& accept);
    void reject(RejectReason reason, std::string_view text);
    // Sends ACCEPT or REKEY_OK: the data path holds the keys of `epoch` now. Errors: InvalidState,
    // WouldBlock.
    base::Result<void> confirm(uint32_t epoch, base::TimePoint now);

    // InvalidState unless Open; WouldBlock when the output is full.
    base::Result<void> ask_for_rekey();
    base::Result<void> send_directory(const Directory& directory);
    base::Result<void> ask_for_keepalive();
    base::Result<void> reply_usage(UsageReply reply);
    base::Result<void> tell_session_state(bool known);
    base::Result<void> tell_allowance(const Allowance& allowance);
    base::Result<void> send_datagram(base::ByteView datagram);
    void close(CloseReason reason, std::string_view text);

    size_t poll_bytes(base::MutableByteView to) { return link_.poll_bytes(to); }
    bool has_bytes() const { return link_.has_bytes(); }
    size_t pending_bytes() const { return link_.pending_bytes(); }
    std::optional<ServerEvent> poll_event();
    bool has_events() const { return !events_.empty(); }
    // Stops reading at its limit of events: further input waits in TLS, and no more should be
    // passed in. Take events, then call read_on().
    bool is_full() const { return events_.size() >= kMaxServerEvents; }
    void read_on(base::TimePoint now);
    base::TimePoint next_deadline() const { return timers_.next_deadline(); }

    ServerState state() const { return state_; }
    bool is_authenticated() const { return link_.is_open() && link_.channel().is_established(); }
    const Identity& identity() const { return identity_; }  // once authenticated
    // The peer's claimed identity, proven or not, and whether that user may log in at all. For the
    // log only: the peer does not learn it.
    struct Named {
        Identity identity;
        bool has_key = false;
    };
    const std::optional<Named>& named() const { return named_; }

  private:
    enum class Timer : uint8_t { Handshake, Silence, Count };

    std::optional<Psk> find_psk(base::ByteView wire_identity) override;
    // The key proven in the handshake is still that user's.
    bool may_still_log_in();
    void read_messages(base::TimePoint now);
    void on_message(const RawMessage& raw, base::TimePoint now);
    void on_hello(Hello&& hello);
    void on_rekey(const Rekey& rekey);
    void on_open_message(Message&& message);
    base::Result<void> send_open(const Message& message);
    void push(ServerEvent&& event);
    void finish(CloseCause cause, Close peer = {});

    const TlsContext& context_;
    CredentialSource& credentials_;
    const ServerParameters& parameters_;
    DatagramSink* sink_;
    ControlLink link_;
    base::TimerTable<Timer> timers_;
    std::deque<ServerEvent> events_;
    Identity identity_;
    std::optional<Named> named_;
    std::array<uint8_t, 32> proof_{};  // proof of the user's key; says nothing about it
    Hello hello_;
    Accept accept_;
    AssociationId association_;
    uint32_t epoch_ = 0;                     // latest confirmed
    std::optional<uint32_t> pending_rekey_;  // keys given out, not confirmed
    std::optional<uint64_t> ping_;           // to be answered: the last one of a batch
    ServerState state_ = ServerState::Handshake;
    bool started_ = false;
};

}  // namespace continuo::control
