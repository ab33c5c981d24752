#include "common/control/server_control.hpp"

#include <algorithm>
#include <utility>

namespace continuo::control {

namespace {

constexpr std::string_view kNotAnyMore = "the user is disabled, or its key is not valid any more";

std::array<uint8_t, 32> proof_of(const UserKey& key) {
    return derive_key(key, "continuo proof of key 1", "");
}

}  // namespace

ServerControl::ServerControl(const TlsContext& context,
                             CredentialSource& credentials,
                             const ServerParameters& parameters,
                             DatagramSink* sink)
    : context_(context), credentials_(credentials), parameters_(parameters), sink_(sink) {}

base::Result<void> ServerControl::start(base::TimePoint now) {
    if (started_) {
        return base::Error{base::Errc::InvalidState, "control start"};
    }
    link_.open(CTN_TRY(TlsChannel::accept(context_, *this)));
    timers_.set(Timer::Handshake, now + kHandshakeTimeout);
    started_ = true;
    return {};
}

// The same work for known and unknown identities.
std::optional<Psk> ServerControl::find_psk(base::ByteView wire_identity) {
    std::optional<UserKey> key;
    base::Result<Identity> identity = decode_identity(wire_identity, parameters_.identity_key);
    if (identity) {
        key = credentials_.find(*identity);
        named_ = Named{*identity, key.has_value()};
    }
    const Psk psk = derive_psk(key.value_or(UserKey{}), parameters_.realm);
    proof_ = proof_of(key.value_or(UserKey{}));
    if (!key) {
        return std::nullopt;
    }
    identity_ = std::move(*identity);
    return psk;
}

bool ServerControl::may_still_log_in() {
    const auto key = credentials_.find(identity_);
    return key && proof_of(*key) == proof_;
}

void ServerControl::on_bytes(base::ByteView bytes, base::TimePoint now) {
    if (!started_ || state_ == ServerState::Closed) {
        return;
    }
    const base::Result<void> taken = link_.on_bytes(bytes);
    if (!taken) {
        finish(link_.channel().is_established() ? CloseCause::ProtocolError
                                                : CloseCause::HandshakeFailed);
        return;
    }
    if (state_ == ServerState::Handshake && link_.channel().is_established()) {
        state_ = ServerState::WaitHello;
    }
    read_on(now);
}

void ServerControl::read_on(base::TimePoint now) {
    read_messages(now);
    if (state_ != ServerState::Closed && !is_full() && link_.is_open() &&
        link_.channel().is_peer_closed()) {
        finish(CloseCause::TransportClosed);
    }
}

void ServerControl::on_transport_closed(base::TimePoint /*now*/) {
    finish(state_ == ServerState::Handshake ? CloseCause::HandshakeFailed
                                            : CloseCause::TransportClosed);
}

void ServerControl::on_timeout(base::TimePoint now) {
    if (timers_.expire(Timer::Handshake, now)) {
        finish(CloseCause::HandshakeTimeout);
    }
    if (timers_.expire(Timer::Silence, now)) {
        finish(CloseCause::SilenceTimeout);
    }
}

void ServerControl::read_messages(base::TimePoint now) {
    while (state_ != ServerState::Handshake && state_ != ServerState::Closed && !is_full()) {
        const base::Result<std::optional<RawMessage>> raw = link_.next_message();
        if (!raw) {
            finish(CloseCause::ProtocolError);
            return;
        }
        if (!raw->has_value()) {
            break;
        }
        on_message(**raw, now);
    }
    const auto ping = std::exchange(ping_, std::nullopt);
    if (ping && state_ != ServerState::Closed && !link_.send(Pong{*ping})) {
        finish(CloseCause::Overflow);
    }
}

void ServerControl::on_message(const RawMessage& raw, base::TimePoint now) {
    base::Result<std::optional<Message>> parsed = parse_message(raw.type, raw.body);
    if (!parsed) {
        if (state_ == ServerState::WaitHello) {
            reject(RejectReason::BadHello, "HELLO is malformed");
        } else {
            finish(CloseCause::ProtocolError);
        }
        return;
    }
    if (state_ == ServerState::Open) {
        timers_.set(Timer::Silence, now + kServerSilenceTimeout);
    }
    if (!parsed->has_value()) {
        return;
    }
    Message& message = **parsed;
    if (auto* close = std::get_if<Close>(&message)) {
        finish(CloseCause::Peer, std::move(*close));
    } else if (const auto* ping = std::get_if<Ping>(&message)) {
        ping_ = ping->opaque;
    } else if (state_ == ServerState::Open) {
        on_open_message(std::move(message));
    } else if (auto* hello = std::get_if<Hello>(&message);
               hello != nullptr && state_ == ServerState::WaitHello) {
        on_hello(std::move(*hello));
    } else {
        finish(CloseCause::ProtocolError);
    }
}

void ServerControl::on_hello(Hello&& hello) {
    hello_ = std::move(hello);
    state_ = ServerState::WaitDecision;
    if (const auto refusal = version_refusal(hello_)) {
        reject(RejectReason::NoCommonVersion, *refusal);
    } else if (hello_.offers.empty()) {
        reject(RejectReason::NoCommonProtection, "no common protection");
    } else if (!may_still_log_in()) {
        reject(RejectReason::UserDisabled, kNotAnyMore);
    } else {
        push(HelloReceived{identity_, hello_});
    }
}

void ServerControl::on_rekey(const Rekey& rekey) {
    if (pending_rekey_ || rekey.epoch != epoch_ + 1) {
        finish(CloseCause::ProtocolError);
        return;
    }
    if (!may_still_log_in()) {
        close(CloseReason::Disconnected, kNotAnyMore);
        return;
    }
    const base::Result<EpochKeys> keys =
        export_epoch_keys(link_.channel(), association_, rekey.epoch);
    if (!keys) {
        finish(CloseCause::ProtocolError);
        return;
    }
    pending_rekey_ = rekey.epoch;
    push(RekeyAsked{*keys});
}

void ServerControl::on_open_message(Message&& message) {
    if (const auto* data = std::get_if<Data>(&message)) {
        if (sink_ != nullptr) {
            sink_->on_datagram(data->datagram);
        }
    } else if (const auto* rekey = std::get_if<Rekey>(&message)) {
        on_rekey(*rekey);
    } else if (auto* apps = std::get_if<Apps>(&message)) {
        push(std::move(*apps));
    } else if (auto* query = std::get_if<UsageQuery>(&message)) {
        push(std::move(*query));
    } else if (std::holds_alternative<SessionQuery>(message)) {
        push(SessionQuery{});
    } else if (!std::holds_alternative<Pong>(message)) {
        finish(CloseCause::ProtocolError);
    }
}

base::Result<EpochKeys> ServerControl::accept(const Accept& accept) {
    if (state_ != ServerState::WaitDecision) {
        return base::Error{base::Errc::InvalidState, "control accept"};
    }
    std::vector<uint8_t> probe;
    CTN_TRY(append_message(probe, accept));
    association_ = {hello_.session_id, accept.wire_session_up, hello_.wire_session_down};
    const EpochKeys keys = CTN_TRY(export_epoch_keys(link_.channel(), association_, accept.epoch));
    accept_ = accept;
    state_ = ServerState::Prepared;
    return keys;
}

void ServerControl::reject(RejectReason reason, std::string_view text) {
    const bool waits = state_ == ServerState::WaitHello || state_ == ServerState::WaitDecision ||
                       state_ == ServerState::Prepared;
    if (waits) {
        // The link ends whether or not the message still reaches the peer.
        static_cast<void>(link_.send(Reject{reason, std::string(text)}).has_value());
        finish(CloseCause::Local);
    }
}

base::Result<void> ServerControl::confirm(uint32_t epoch, base::TimePoint now) {
    if (state_ == ServerState::Prepared && epoch == accept_.epoch) {
        CTN_TRY(link_.send(accept_));
        epoch_ = epoch;
        state_ = ServerState::Open;
        timers_.stop(Timer::Handshake);
        timers_.set(Timer::Silence, now + kServerSilenceTimeout);
        return {};
    }
    if (state_ == ServerState::Open && pending_rekey_ == epoch) {
        CTN_TRY(link_.send(RekeyOk{epoch}));
        epoch_ = epoch;
        pending_rekey_.reset();
        return {};
    }
    return base::Error{base::Errc::InvalidState, "no such epoch to confirm"};
}

base::Result<void> ServerControl::send_open(const Message& message) {
    if (state_ != ServerState::Open) {
        return base::Error{base::Errc::InvalidState, "control link is not open"};
    }
    return link_.send(message);
}

base::Result<void> ServerControl::ask_for_rekey() {
    return send_open(RekeyWanted{});
}

base::Result<void> ServerControl::send_directory(const Directory& directory) {
    return send_open(directory);
}

base::Result<void> ServerControl::ask_for_keepalive() {
    return send_open(KeepaliveRequest{});
}

base::Result<void> ServerControl::reply_usage(UsageReply reply) {
    return send_open(std::move(reply));
}

base::Result<void> ServerControl::tell_session_state(bool known) {
    return send_open(SessionState{known});
}

base::Result<void> ServerControl::tell_allowance(const Allowance& allowance) {
    return send_open(allowance);
}

base::Result<void> ServerControl::send_datagram(base::ByteView datagram) {
    return send_open(Data{datagram});
}

void ServerControl::close(CloseReason reason, std::string_view text) {
    if (state_ != ServerState::Handshake && state_ != ServerState::Closed) {
        // The link ends whether or not the message still reaches the peer.
        static_cast<void>(link_.send(Close{reason, std::string(text)}).has_value());
    }
    finish(CloseCause::Local);
}

std::optional<ServerEvent> ServerControl::poll_event() {
    if (events_.empty()) {
        return std::nullopt;
    }
    ServerEvent event = std::move(events_.front());
    events_.pop_front();
    return event;
}

void ServerControl::push(ServerEvent&& event) {
    events_.push_back(std::move(event));
}

void ServerControl::finish(CloseCause cause, Close peer) {
    if (state_ == ServerState::Closed) {
        return;
    }
    state_ = ServerState::Closed;
    timers_ = {};
    link_.finish(cause);
    events_.emplace_back(LinkClosed{cause, std::move(peer)});
}

}  // namespace continuo::control
