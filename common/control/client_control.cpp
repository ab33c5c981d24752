#include "common/control/client_control.hpp"

#include <algorithm>

namespace continuo::control {

namespace {

constexpr uint16_t kMinInnerMtu = 1280;  // RFC 8200 section 5

template <typename T>
bool contains(const std::vector<T>& list, const T& value) {
    return std::find(list.begin(), list.end(), value) != list.end();
}

}  // namespace

ClientControl::ClientControl(const TlsContext& context, base::Random& random, DatagramSink* sink)
    : context_(context), random_(random), sink_(sink) {}

base::Result<void> ClientControl::start(ClientParameters parameters, base::TimePoint now) {
    if (state_ != ClientState::Idle) {
        return base::Error{base::Errc::InvalidState, "control start"};
    }
    if (!is_valid_identity(parameters.identity)) {
        return base::Error{base::Errc::InvalidConfig, "identity"};
    }
    parameters_ = std::move(parameters);
    std::vector<uint8_t> wire_identity =
        encode_identity(parameters_.identity, parameters_.identity_key, random_);
    const Psk psk = derive_psk(parameters_.key, parameters_.realm);
    parameters_.key.fill(0);
    link_.open(CTN_TRY(TlsChannel::connect(context_, std::move(wire_identity), psk)));
    timers_.set(Timer::Handshake, now + kHandshakeTimeout);
    state_ = ClientState::Handshake;
    return {};
}

void ClientControl::on_bytes(base::ByteView bytes, base::TimePoint now) {
    if (state_ == ClientState::Idle || state_ == ClientState::Closed) {
        return;
    }
    const base::Result<void> taken = link_.on_bytes(bytes);
    if (!taken) {
        finish(link_.channel().is_established()   ? CloseCause::ProtocolError
               : link_.channel().is_key_refused() ? CloseCause::LoginRefused
                                                  : CloseCause::HandshakeFailed);
        return;
    }
    if (state_ == ClientState::Handshake && link_.channel().is_established()) {
        send_hello();
    }
    read_messages(now);
    if (state_ != ClientState::Closed && link_.channel().is_peer_closed()) {
        finish(CloseCause::TransportClosed);
    }
}

void ClientControl::on_transport_closed(base::TimePoint /*now*/) {
    if (state_ != ClientState::Idle) {
        finish(state_ == ClientState::Handshake ? CloseCause::HandshakeFailed
                                                : CloseCause::TransportClosed);
    }
}

void ClientControl::on_timeout(base::TimePoint now) {
    if (timers_.expire(Timer::Handshake, now)) {
        finish(CloseCause::HandshakeTimeout);
    }
    if (timers_.expire(Timer::Pong, now) || timers_.expire(Timer::Rekey, now) ||
        timers_.expire(Timer::SessionState, now)) {
        finish(CloseCause::PongTimeout);
    }
    if (timers_.expire(Timer::Ping, now) && !probe(now)) {
        finish(CloseCause::Overflow);
    }
}

void ClientControl::send_hello() {
    if (!link_.send(parameters_.hello)) {
        finish(CloseCause::Overflow);
        return;
    }
    state_ = ClientState::WaitAccept;
}

void ClientControl::read_messages(base::TimePoint now) {
    while (state_ == ClientState::WaitAccept || state_ == ClientState::Open) {
        const base::Result<std::optional<RawMessage>> raw = link_.next_message();
        if (!raw) {
            finish(CloseCause::ProtocolError);
            return;
        }
        if (!raw->has_value()) {
            return;
        }
        on_message(**raw, now);
    }
}

void ClientControl::on_message(const RawMessage& raw, base::TimePoint now) {
    base::Result<std::optional<Message>> parsed = parse_message(raw.type, raw.body);
    if (!parsed) {
        finish(CloseCause::ProtocolError);
        return;
    }
    if (state_ == ClientState::Open) {
        timers_.set(Timer::Ping, now + kPingInterval);
    }
    if (!parsed->has_value()) {
        return;
    }
    Message& message = **parsed;
    if (const auto* close = std::get_if<Close>(&message)) {
        finish(CloseCause::Peer, *close);
    } else if (const auto* ping = std::get_if<Ping>(&message)) {
        if (!link_.send(Pong{ping->opaque})) {
            finish(CloseCause::Overflow);
        }
    } else if (state_ == ClientState::Open) {
        on_open_message(std::move(message));
    } else if (auto* accept = std::get_if<Accept>(&message)) {
        on_accept(std::move(*accept), now);
    } else if (auto* reject = std::get_if<Reject>(&message)) {
        push(Rejected{std::move(*reject)});
        state_ = ClientState::Closed;
        timers_ = {};
        link_.finish(CloseCause::Peer);
    } else {
        finish(CloseCause::ProtocolError);
    }
}

bool ClientControl::is_acceptable(const Accept& accept) const {
    const Hello& hello = parameters_.hello;
    const bool offered =
        contains(hello.versions, accept.version) && contains(hello.offers, accept.protection);
    const bool leased =
        (accept.lease_ipv4 && hello.want_ipv4) || (accept.lease_ipv6 && hello.want_ipv6);
    const bool continues =
        !accept.continued || (hello.continuation && accept.epoch == hello.continuation->epoch + 1 &&
                              accept.wire_session_up == hello.continuation->wire_session_up);
    return offered && leased && continues && accept.inner_mtu >= kMinInnerMtu;
}

void ClientControl::on_accept(Accept&& accept, base::TimePoint now) {
    const bool named =
        parameters_.expected_snapt.empty() || parameters_.expected_snapt == accept.snapt;
    if (!named || accept.realm != parameters_.realm) {
        finish(CloseCause::WrongSnapt);
        return;
    }
    if (!is_acceptable(accept)) {
        finish(CloseCause::ProtocolError);
        return;
    }
    association_ = {parameters_.hello.session_id, accept.wire_session_up,
                    parameters_.hello.wire_session_down};
    const base::Result<EpochKeys> keys =
        export_epoch_keys(link_.channel(), association_, accept.epoch);
    if (!keys) {
        finish(CloseCause::ProtocolError);
        return;
    }
    accept_ = std::move(accept);
    epoch_ = accept_.epoch;
    state_ = ClientState::Open;
    timers_.stop(Timer::Handshake);
    timers_.set(Timer::Ping, now + kPingInterval);
    push(Established{accept_, *keys});
}

void ClientControl::on_rekey_ok(const RekeyOk& granted) {
    if (!rekey_pending_ || granted.epoch != epoch_ + 1) {
        finish(CloseCause::ProtocolError);
        return;
    }
    const base::Result<EpochKeys> keys =
        export_epoch_keys(link_.channel(), association_, granted.epoch);
    if (!keys) {
        finish(CloseCause::ProtocolError);
        return;
    }
    epoch_ = granted.epoch;
    rekey_pending_ = false;
    timers_.stop(Timer::Rekey);
    push(Rekeyed{*keys});
}

void ClientControl::on_open_message(Message&& message) {
    if (const auto* data = std::get_if<Data>(&message)) {
        if (sink_ != nullptr) {
            sink_->on_datagram(data->datagram);
        }
    } else if (const auto* pong = std::get_if<Pong>(&message)) {
        if (pong->opaque == ping_opaque_) {
            timers_.stop(Timer::Pong);
        }
    } else if (const auto* granted = std::get_if<RekeyOk>(&message)) {
        on_rekey_ok(*granted);
    } else if (std::holds_alternative<RekeyWanted>(message)) {
        push(RekeyRequested{});
    } else if (auto* directory = std::get_if<Directory>(&message)) {
        push(std::move(*directory));
    } else if (std::holds_alternative<KeepaliveRequest>(message)) {
        push(KeepaliveRequest{});
    } else if (auto* reply = std::get_if<UsageReply>(&message)) {
        push(std::move(*reply));
    } else if (const auto* known = std::get_if<SessionState>(&message)) {
        timers_.stop(Timer::SessionState);
        push(*known);
    } else if (const auto* allowance = std::get_if<Allowance>(&message)) {
        push(*allowance);
    } else {
        finish(CloseCause::ProtocolError);
    }
}

base::Result<void> ClientControl::send_open(const Message& message) {
    if (state_ != ClientState::Open) {
        return base::Error{base::Errc::InvalidState, "control link is not open"};
    }
    return link_.send(message);
}

base::Result<void> ClientControl::request_rekey(base::TimePoint now) {
    if (rekey_pending_) {
        return base::Error{base::Errc::InvalidState, "re-key is under way"};
    }
    CTN_TRY(send_open(Rekey{epoch_ + 1}));
    rekey_pending_ = true;
    timers_.set(Timer::Rekey, now + kRekeyTimeout);
    return {};
}

base::Result<void> ClientControl::send_apps(const Apps& apps) {
    return send_open(apps);
}

base::Result<void> ClientControl::query_usage(uint32_t request, std::string json) {
    return send_open(UsageQuery{request, std::move(json)});
}

base::Result<void> ClientControl::query_session(base::TimePoint now) {
    CTN_TRY(send_open(SessionQuery{}));
    timers_.set_earlier(Timer::SessionState, now + kSessionStateTimeout);
    return {};
}

base::Result<void> ClientControl::send_datagram(base::ByteView datagram) {
    return send_open(Data{datagram});
}

base::Result<void> ClientControl::probe(base::TimePoint now) {
    const uint64_t opaque = random_.u64();
    CTN_TRY(send_open(Ping{opaque}));
    ping_opaque_ = opaque;
    timers_.set_earlier(Timer::Pong, now + kPongTimeout);
    timers_.set(Timer::Ping, now + kPingInterval);
    return {};
}

void ClientControl::close(CloseReason reason, std::string_view text) {
    if (state_ == ClientState::WaitAccept || state_ == ClientState::Open) {
        // The link ends whether or not the message still reaches the peer.
        static_cast<void>(link_.send(Close{reason, std::string(text)}).has_value());
    }
    finish(CloseCause::Local);
}

std::optional<ClientEvent> ClientControl::poll_event() {
    if (events_.empty()) {
        return std::nullopt;
    }
    ClientEvent event = std::move(events_.front());
    events_.pop_front();
    return event;
}

void ClientControl::push(ClientEvent&& event) {
    if (events_.size() >= kMaxPendingEvents) {
        finish(CloseCause::Overflow);
        return;
    }
    events_.push_back(std::move(event));
}

void ClientControl::finish(CloseCause cause, Close peer) {
    if (state_ == ClientState::Closed) {
        return;
    }
    state_ = ClientState::Closed;
    timers_ = {};
    link_.finish(cause);
    events_.emplace_back(LinkClosed{cause, std::move(peer)});
}

}  // namespace continuo::control
