#include "snapt/relay/listeners.hpp"

namespace continuo::snapt::relay {

using base::TimePoint;

namespace {

// Answers per second to datagrams of unknown sessions, for all sources together.
constexpr uint32_t kUnknownAnswersPerSecond = 64;

}  // namespace

base::Result<void> Listeners::open(const std::function<void(Listener&)>& on_readable,
                                   std::string& failure) {
    const auto offload = io::probe_udp_offload();
    for (const base::Endpoint& endpoint : settings_.listen) {
        failure = "cannot listen on UDP " + endpoint.to_string();
        io::UdpSocketOptions socket_options;
        socket_options.local = endpoint;
        socket_options.packet_info = true;
        socket_options.offload = offload;
        auto listener =
            std::make_unique<Listener>(Listener{CTN_TRY(io::UdpSocket::open(socket_options)),
                                                nullptr, static_cast<uint16_t>(listeners_.size())});
        Listener& ref = *listener;
        listener->poller = std::make_unique<io::Poller>(
            loop_, listener->socket.fd(), [on_readable, &ref] { on_readable(ref); },
            [this, &ref] {
                ref.poller->watch(true, false);
                engine_.pump();
            });
        listener->poller->watch(true);
        listeners_.push_back(std::move(listener));
    }
    return {};
}

// Answers leave from the address and port that the node knows.
io::UdpSocket* Listeners::socket_for(const session::TransmitItem& item) {
    io::UdpSocket* other = nullptr;
    for (const auto& listener : listeners_) {
        const base::Endpoint& local = listener->socket.local();
        if (local.address.version != item.to.address.version) {
            continue;
        }
        if (local.port == item.from.port &&
            (local.address.is_unspecified() || local.address == item.from.address)) {
            return &listener->socket;
        }
        other = other == nullptr ? &listener->socket : other;
    }
    return other;
}

void Listeners::wait_writable(io::UdpSocket& socket) {
    for (const auto& listener : listeners_) {
        if (&listener->socket == &socket) {
            listener->poller->watch(true, true);
        }
    }
}

// Rate-limited, never longer than its cause, and the node only asks over control because of it.
void Listeners::answer_unknown(Listener& listener,
                               const session::ReceivedDatagram& datagram,
                               TimePoint now) {
    if (now - unknown_window_at_ >= base::seconds(1)) {
        unknown_window_at_ = now;
        unknown_answers_ = 0;
    }
    const auto quote = wire::Quote::of(datagram.bytes);
    if (unknown_answers_ >= kUnknownAnswersPerSecond || !quote ||
        !wire::may_answer(wire::Unknown::kBytes, datagram.bytes.size())) {
        return;
    }
    ++unknown_answers_;
    send_unknown(listener.socket, datagram.from, datagram.to.address, *quote);
}

void Listeners::send_unknown(io::UdpSocket& socket,
                             const base::Endpoint& to,
                             const base::IpAddress& from,
                             const wire::Quote& quote) {
    std::array<uint8_t, wire::Unknown::kBytes> bytes{};
    base::ByteWriter writer(bytes);
    wire::Unknown{wire::UnknownReason::Session, quote}.serialize(writer);
    io::SendItem item{to, from, bytes, 0};
    socket.send(std::span(&item, 1));
    if (settings_.recording.packets != nullptr) {
        settings_.recording.packets->sent(socket, item);
    }
}

// The node learns it over its control link, unless a NAT has forgotten that link unnoticed: an idle
// node would then ask only after the answer to its next keepalive. Sent to the source of the latest
// datagram, proven or not, like an answer to that datagram.
void Listeners::tell_ended(const NodeSession& node) {
    const auto& latest = node.session.latest();
    if (!latest) {
        return;
    }
    session::TransmitItem item;
    item.to = latest->from;
    item.from = latest->to;
    if (io::UdpSocket* const socket = socket_for(item)) {
        send_unknown(*socket, item.to, item.from.address, latest->quote);
    }
}

}  // namespace continuo::snapt::relay
