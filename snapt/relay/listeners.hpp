// Listeners: the UDP sockets of the relay, and what leaves by them or by a node's control link.
#pragma once

#include "common/dataplane/packet_engine.hpp"
#include "common/io/udp_socket.hpp"
#include "common/wire/unsealed.hpp"
#include "snapt/relay/session_table.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace continuo::snapt::relay {

struct Listener {
    io::UdpSocket socket;
    std::unique_ptr<io::Poller> poller;
    uint16_t number = 0;
};

class Listeners final : public dataplane::SocketDirectory {
  public:
    // All must outlive it; `engine` is only kept here.
    Listeners(io::EventLoop& loop,
              const RelaySettings& settings,
              const SessionTable& sessions,
              dataplane::PacketEngine& engine)
        : loop_(loop), settings_(settings), sessions_(sessions), engine_(engine) {}
    // On failure `failure` has the text.
    base::Result<void> open(const std::function<void(Listener&)>& on_readable,
                            std::string& failure);
    const std::vector<std::unique_ptr<Listener>>& all() const { return listeners_; }

    // To the sender of a datagram of an unknown session.
    void answer_unknown(Listener& listener,
                        const session::ReceivedDatagram& datagram,
                        base::TimePoint now);
    // The session has ended: its node is told the same.
    void tell_ended(const NodeSession& node);
    // Port shown by the capture for control links: the port of a connection is not known here.
    uint16_t stream_port() const {
        return settings_.listen.empty() ? uint16_t{0} : settings_.listen.front().port;
    }

    // --- dataplane::SocketDirectory
    io::UdpSocket* socket_for(const session::TransmitItem& item) override;
    bool send_stream(const session::TransmitItem& item, base::ByteView bytes) override {
        return engine_.send_stream(sessions_.owner_of(*item.session).stream, item, bytes,
                                   stream_port());
    }
    std::optional<uint8_t> tos_of(const session::TransmitItem& item) override {
        const uint8_t tos = settings_.tos[base::index_of(item.marked_class)];
        return item.is_unmarked || tos == 0 ? std::nullopt : std::optional(tos);
    }
    void wait_writable(io::UdpSocket& socket) override;
    void on_too_big(const session::TransmitItem& item) override { engine_.on_too_big(item); }

  private:
    void send_unknown(io::UdpSocket& socket,
                      const base::Endpoint& to,
                      const base::IpAddress& from,
                      const wire::Quote& quote);

    io::EventLoop& loop_;
    const RelaySettings& settings_;
    const SessionTable& sessions_;
    dataplane::PacketEngine& engine_;
    std::vector<std::unique_ptr<Listener>> listeners_;
    base::TimePoint unknown_window_at_{};
    uint32_t unknown_answers_ = 0;
};

}  // namespace continuo::snapt::relay
