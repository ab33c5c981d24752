// TLS 1.3 with an external pre-shared key over memory: bytes from the transport go in, bytes for
// the transport come out; no socket, no clock, no certificate, no ticket, no early data. One
// channel is one connection, used by one thread at a time; contexts are immutable after creation
// and may be shared by threads. docs/PROTOCOL.md section 4.1; RFC 8446.
#pragma once

#include "common/base/bytes.hpp"
#include "common/base/result.hpp"
#include "common/control/identity.hpp"

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

struct ssl_ctx_st;
struct ssl_st;
struct ssl_session_st;

namespace continuo::control {

// Bytes accepted from an unauthenticated peer; more is an error.
inline constexpr size_t kMaxHandshakeBytes = size_t{16} * 1024;
// Bytes given to TLS and not yet taken by poll_bytes(); beyond it send() answers WouldBlock.
inline constexpr size_t kMaxPendingOutputBytes = size_t{256} * 1024;
// Bytes received and not yet taken by receive().
inline constexpr size_t kMaxPendingInputBytes = size_t{256} * 1024;

// Server side: finds the key of an identity as it came over the wire. Called during on_bytes().
class PskSource {
  public:
    PskSource() = default;
    PskSource(const PskSource&) = delete;
    PskSource& operator=(const PskSource&) = delete;
    virtual ~PskSource() = default;
    // Nothing for an unknown identity: the handshake then goes on with a random key and fails as
    // with a wrong key.
    virtual std::optional<Psk> find_psk(base::ByteView wire_identity) = 0;
};

class TlsContext {
  public:
    static base::Result<TlsContext> client();
    static base::Result<TlsContext> server();

    ssl_ctx_st* native() const { return context_.get(); }

  private:
    struct Deleter {
        void operator()(ssl_ctx_st* context) const;
    };
    explicit TlsContext(ssl_ctx_st* context) : context_(context) {}
    std::unique_ptr<ssl_ctx_st, Deleter> context_;
};

class TlsChannel {
  public:
    // The first flight is ready for poll_bytes() at once.
    static base::Result<std::unique_ptr<TlsChannel>>
    connect(const TlsContext& context, std::vector<uint8_t> wire_identity, const Psk& psk);
    // `source` must outlive the handshake.
    static base::Result<std::unique_ptr<TlsChannel>> accept(const TlsContext& context,
                                                            PskSource& source);

    TlsChannel(const TlsChannel&) = delete;
    TlsChannel& operator=(const TlsChannel&) = delete;
    ~TlsChannel();

    // Bytes from the transport. After an error the channel is dead, but poll_bytes() may still hold
    // an alert to send. Errors: Unauthentic (handshake or record refused), LimitReached,
    // InvalidState.
    base::Result<void> on_bytes(base::ByteView bytes);
    // Bytes for the transport; gives the number written to `to`, 0 when there are none.
    size_t poll_bytes(base::MutableByteView to);
    bool has_bytes() const { return pending_bytes() > 0; }
    size_t pending_bytes() const;

    // Whole or not at all. Errors: InvalidState before establishment or after failure, WouldBlock.
    base::Result<void> send(base::ByteView plaintext);
    // Gives the number of plaintext bytes written to `to`, 0 when none are there; ask again until 0
    // after on_bytes(). Errors: Unauthentic.
    base::Result<size_t> receive(base::MutableByteView to);
    // Queues close_notify.
    void shutdown();

    bool is_established() const { return established_; }
    bool has_failed() const { return failed_; }
    bool is_peer_closed() const;
    // Client: the handshake ended with the alert for a pre-shared key that the other end does not
    // accept (RFC 8446 section 6.2). Not authenticated: anybody on the way can send it.
    bool is_key_refused() const;

    // RFC 8446 section 7.5. Errors: InvalidState, System.
    base::Result<void>
    export_keys(std::string_view label, base::ByteView context, base::MutableByteView out) const;

  private:
    struct Callbacks;  // OpenSSL's view of this object
    struct Deleter {
        void operator()(ssl_st* ssl) const;
    };
    TlsChannel() = default;
    static base::Result<std::unique_ptr<TlsChannel>> make(const TlsContext& context);
    base::Result<void> advance_handshake();
    base::Error fail(base::Errc code, std::string_view where);

    std::unique_ptr<ssl_st, Deleter> ssl_;
    PskSource* source_ = nullptr;
    std::vector<uint8_t> wire_identity_;
    Psk psk_{};
    size_t handshake_bytes_ = 0;
    int peer_alert_ = 0;  // the last one's description; 0: none, or close_notify
    bool established_ = false;
    bool failed_ = false;
    bool shut_down_ = false;
};

}  // namespace continuo::control
