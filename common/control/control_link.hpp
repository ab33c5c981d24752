// The common part of both ends of a control connection: TLS channel, message cutting, bounded
// output, ping/pong liveness. Used by ClientControl and ServerControl only.
#pragma once

#include "common/base/result.hpp"
#include "common/base/time.hpp"
#include "common/control/message.hpp"
#include "common/control/message_reader.hpp"
#include "common/control/tls_channel.hpp"

#include <memory>
#include <vector>

namespace continuo::control {

// From the first byte to ACCEPT or REJECT. docs/PROTOCOL.md section 4.6.
inline constexpr base::Duration kHandshakeTimeout = base::seconds(5);
// The node pings a link that was silent for this long.
inline constexpr base::Duration kPingInterval = base::seconds(300);
inline constexpr base::Duration kPongTimeout = base::seconds(10);
// The SNAPT gives up a link that was silent for this long.
inline constexpr base::Duration kServerSilenceTimeout = base::seconds(900);
// Wait for SESSION_STATE: a SNAPT answers at once, unless the connection leads to one that is gone.
inline constexpr base::Duration kSessionStateTimeout = base::seconds(1);
// From REKEY to REKEY_OK.
inline constexpr base::Duration kRekeyTimeout = base::seconds(10);
// Most events of a node that wait for poll_event(); one more closes the link.
inline constexpr size_t kMaxPendingEvents = 256;

// Receives outer datagrams that came over TCP, during on_bytes(); the view is valid during the
// call.
class DatagramSink {
  public:
    DatagramSink() = default;
    DatagramSink(const DatagramSink&) = delete;
    DatagramSink& operator=(const DatagramSink&) = delete;
    virtual ~DatagramSink() = default;
    virtual void on_datagram(base::ByteView datagram) = 0;
};

// Why a link ended, as this end saw it.
enum class CloseCause : uint8_t {
    Local,            // close() was called
    Peer,             // CLOSE came; its reason and text are in the event
    TransportClosed,  // end of stream or socket error
    LoginRefused,     // node: user unknown, key wrong, user disabled: the same for all three
    HandshakeFailed,  // SNAPT: the same, or not TLS; node: closed meanwhile, or not TLS
    HandshakeTimeout,
    SilenceTimeout,  // SNAPT: nothing came for kServerSilenceTimeout
    PongTimeout,     // no PONG or no REKEY_OK came
    ProtocolError,   // authenticated peer broke the protocol
    WrongSnapt,      // ACCEPT named another SNAPT or realm
    Overflow,        // events or output were not taken in time
};
std::string_view to_string(CloseCause cause);

struct LinkClosed {
    CloseCause cause = CloseCause::Local;
    Close peer;  // with cause Peer
};

class ControlLink {
  public:
    ControlLink() = default;
    void open(std::unique_ptr<TlsChannel> channel);
    bool is_open() const { return channel_ != nullptr; }
    const TlsChannel& channel() const { return *channel_; }

    base::Result<void> on_bytes(base::ByteView bytes) { return channel_->on_bytes(bytes); }
    // The next message that came. `body` views are valid until the next call.
    base::Result<std::optional<RawMessage>> next_message();
    base::Result<void> send(const Message& message);
    size_t poll_bytes(base::MutableByteView to);
    bool has_bytes() const { return pending_bytes() > 0; }
    size_t pending_bytes() const { return channel_ ? channel_->pending_bytes() : 0; }
    // Sends CLOSE if the cause concerns the peer, then close_notify.
    void finish(CloseCause cause);

  private:
    std::unique_ptr<TlsChannel> channel_;
    MessageReader reader_;
    std::vector<uint8_t> scratch_;
};

}  // namespace continuo::control
