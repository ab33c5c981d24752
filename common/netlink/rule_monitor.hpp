// RuleMonitor: reports that policy rules or nftables have changed, by anyone including this
// process, but not how. Belongs to a loop.
#pragma once

#include "common/io/event_loop.hpp"

#include <array>
#include <functional>
#include <memory>

namespace continuo::netlink {

class RuleMonitor {
  public:
    // `on_change` is called on the loop, once or more often for a change. `loop` must outlive this.
    // Errors: System.
    static base::Result<std::unique_ptr<RuleMonitor>> start(io::EventLoop& loop,
                                                            std::function<void()> on_change);
    RuleMonitor(const RuleMonitor&) = delete;
    RuleMonitor& operator=(const RuleMonitor&) = delete;
    ~RuleMonitor() = default;

  private:
    struct Source {
        io::UniqueFd fd;
        std::unique_ptr<io::Poller> poller;  // last: gone before the descriptor
    };
    explicit RuleMonitor(std::function<void()> on_change) : on_change_(std::move(on_change)) {}
    base::Result<void>
    add(io::EventLoop& loop, Source& source, int protocol, std::array<int, 2> groups);
    void on_readable(const Source& source) const;

    std::function<void()> on_change_;
    std::array<Source, 2> sources_;
};

}  // namespace continuo::netlink
