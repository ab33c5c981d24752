// PlainLink: the plain TCP connection of a session that only authenticates (docs/PROTOCOL.md
// section 3.7). It is made when there are datagrams for it. Belongs to the control thread.
#pragma once

#include "cnapt/tcp_connect.hpp"
#include "common/dataplane/plain_stream.hpp"
#include "common/dataplane/stream_input.hpp"
#include "common/io/event_loop.hpp"

#include <functional>
#include <memory>

namespace continuo::cnapt {

class PlainLink {
  public:
    // From a failure to the next attempt; datagrams are dropped meanwhile.
    static constexpr base::Duration kAgain = base::seconds(1);

    struct Target {
        base::Endpoint remote;
        ControlUplinks uplinks;
        uint32_t fwmark = 0;
        wire::Hello hello;
    };
    using OnInput = std::function<void()>;
    using OnRoom = std::function<void()>;
    using OnLost = std::function<void()>;

    // `loop`, `queue`, of which this pulls, and `input` must outlive this. `on_input`: `input` has
    // something for the data loop.
    PlainLink(io::EventLoop& loop,
              dataplane::DatagramQueue& queue,
              dataplane::StreamInput& input,
              OnInput on_input,
              OnRoom on_room,
              OnLost on_lost)
        : loop_(loop)
        , queue_(queue)
        , input_(input)
        , on_input_(std::move(on_input))
        , on_room_(std::move(on_room))
        , on_lost_(std::move(on_lost)) {}

    // Sends what the queue has, over a new connection to `target()` if there is none.
    void feed(const std::function<Target()>& target);
    // The data loop takes datagrams again.
    void read_on() {
        if (connection_) {
            on_readable();
        }
    }
    void close() { connection_.reset(); }

  private:
    struct Connection {
        explicit Connection(io::UniqueFd fd) : stream(io::TcpStream(std::move(fd))) {}
        dataplane::PlainStream stream;
        bool is_connected = false;
        bool has_sent = false;
        bool is_waiting = true;              // to send
        std::unique_ptr<io::Poller> poller;  // last: gone before the descriptor
    };

    void connect(const Target& target);
    void flush();
    void on_readable();
    void lose();

    io::EventLoop& loop_;
    dataplane::DatagramQueue& queue_;
    dataplane::StreamInput& input_;
    OnInput on_input_;
    OnRoom on_room_;
    OnLost on_lost_;  // a connection that had been made ended
    std::unique_ptr<Connection> connection_;
    base::TimePoint again_at_{};
};

}  // namespace continuo::cnapt
