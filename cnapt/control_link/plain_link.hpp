// PlainLink: the plain TCP connection of a session that only authenticates (docs/PROTOCOL.md
// section 3.7). It is opened for the first datagrams. Belongs to the control thread.
#pragma once

#include "cnapt/control_link/tcp_connect.hpp"
#include "common/dataplane/plain_stream.hpp"
#include "common/io/event_loop.hpp"

#include <functional>
#include <memory>

namespace continuo::cnapt::control_link {

class PlainLink {
  public:
    // Delay after a failure; datagrams are dropped meanwhile.
    static constexpr base::Duration kAgain = base::seconds(1);

    struct Target {
        base::Endpoint remote;
        ControlUplinks uplinks;
        uint32_t fwmark = 0;
        wire::Hello hello;
    };
    using OnDatagram = std::function<void(base::ByteView datagram)>;
    using OnRoom = std::function<void()>;
    using OnLost = std::function<void()>;

    // `loop` and `queue`, of which this pulls, must outlive this.
    PlainLink(io::EventLoop& loop,
              dataplane::DatagramQueue& queue,
              OnDatagram on_datagram,
              OnRoom on_room,
              OnLost on_lost)
        : loop_(loop)
        , queue_(queue)
        , on_datagram_(std::move(on_datagram))
        , on_room_(std::move(on_room))
        , on_lost_(std::move(on_lost)) {}

    // Sends what the queue has, over a new connection to `target()` if there is none.
    void feed(const std::function<Target()>& target);
    void close() { connection_.reset(); }
    io::TcpProgress progress() const {
        return connection_ && connection_->is_connected ? io::progress_of(connection_->stream.fd())
                                                        : io::TcpProgress{};
    }

  private:
    struct Connection {
        explicit Connection(io::UniqueFd fd) : stream(io::TcpStream(std::move(fd))) {}
        dataplane::PlainStream stream;
        bool is_connected = false;
        bool has_sent = false;
        std::unique_ptr<io::Poller> poller;  // last: gone before the descriptor
    };

    void connect(const Target& target);
    void flush();
    void on_readable();
    void lose();

    io::EventLoop& loop_;
    dataplane::DatagramQueue& queue_;
    OnDatagram on_datagram_;
    OnRoom on_room_;
    OnLost on_lost_;  // a connection that had been made ended
    std::unique_ptr<Connection> connection_;
    base::TimePoint again_at_{};
};

}  // namespace continuo::cnapt::control_link
