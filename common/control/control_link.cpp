#include "common/control/control_link.hpp"

namespace continuo::control {

std::string_view to_string(CloseCause cause) {
    switch (cause) {
    case CloseCause::Local:
        return "local";
    case CloseCause::Peer:
        return "peer";
    case CloseCause::TransportClosed:
        return "transport_closed";
    case CloseCause::LoginRefused:
        return "login_refused";
    case CloseCause::HandshakeFailed:
        return "handshake_failed";
    case CloseCause::HandshakeTimeout:
        return "handshake_timeout";
    case CloseCause::SilenceTimeout:
        return "silence_timeout";
    case CloseCause::PongTimeout:
        return "pong_timeout";
    case CloseCause::ProtocolError:
        return "protocol_error";
    case CloseCause::WrongSnapt:
        return "wrong_snapt";
    case CloseCause::Overflow:
        return "overflow";
    }
    return "unknown";
}

void ControlLink::open(std::unique_ptr<TlsChannel> channel) {
    channel_ = std::move(channel);
}

base::Result<std::optional<RawMessage>> ControlLink::next_message() {
    while (true) {
        std::optional<RawMessage> message = reader_.next();
        if (message) {
            return message;
        }
        const size_t taken = CTN_TRY(channel_->receive(reader_.room()));
        if (taken == 0) {
            return std::optional<RawMessage>();
        }
        reader_.filled(taken);
    }
}

base::Result<void> ControlLink::send(const Message& message) {
    scratch_.clear();
    CTN_TRY(append_message(scratch_, message));
    return channel_->send(scratch_);
}

size_t ControlLink::poll_bytes(base::MutableByteView to) {
    return channel_ ? channel_->poll_bytes(to) : 0;
}

void ControlLink::finish(CloseCause cause) {
    if (!channel_) {
        return;
    }
    CloseReason reason = CloseReason::Unspecified;
    switch (cause) {
    case CloseCause::ProtocolError:
    case CloseCause::Overflow:
        reason = CloseReason::ProtocolError;
        break;
    case CloseCause::HandshakeTimeout:
    case CloseCause::SilenceTimeout:
    case CloseCause::PongTimeout:
        reason = CloseReason::Timeout;
        break;
    case CloseCause::WrongSnapt:
        reason = CloseReason::WrongSnapt;
        break;
    case CloseCause::Local:
    case CloseCause::Peer:
    case CloseCause::TransportClosed:
    case CloseCause::LoginRefused:
    case CloseCause::HandshakeFailed:
        break;
    }
    if (reason != CloseReason::Unspecified && channel_->is_established()) {
        // The link ends whether or not the message still reaches the peer.
        static_cast<void>(send(Close{reason, {}}).has_value());
    }
    channel_->shutdown();
}

}  // namespace continuo::control
