// ControlListener: the listening TCP sockets of a SNAPT's control. Accepts connections, and pauses
// while the process has no free descriptor. Belongs to the thread of strangers once that runs.
#pragma once

#include "common/base/ip_address.hpp"
#include "common/io/event_loop.hpp"

#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace continuo::snapt::links {

class ControlListener {
  public:
    // A connection and its source; an IPv4-mapped address is given as the IPv4 address.
    using OnAccepted = std::function<void(io::UniqueFd fd, const base::Endpoint& from)>;

    // `loop` must outlive this.
    ControlListener(io::EventLoop& loop, OnAccepted on_accepted);
    ControlListener(const ControlListener&) = delete;
    ControlListener& operator=(const ControlListener&) = delete;
    ~ControlListener();

    // Port 0: any. Returns the bound endpoints. Errors: System (`where` says what).
    base::Result<std::vector<base::Endpoint>> open(std::span<const base::Endpoint> endpoints);
    void close();

  private:
    struct Socket {
        io::UniqueFd fd;
        std::unique_ptr<io::Poller> poller;  // last: gone before the descriptor
    };

    void on_acceptable(const Socket& socket);
    void watch(bool accepting);

    io::EventLoop& loop_;
    OnAccepted on_accepted_;
    std::vector<std::unique_ptr<Socket>> sockets_;
    io::DeadlineTimer accept_again_;
};

}  // namespace continuo::snapt::links
