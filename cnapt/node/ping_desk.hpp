// PingDesk: answers `cnapt ping`: asks every path to a SNAPT and reports which answered, and after
// how long. The question is a challenge (docs/PROTOCOL.md section 5.4), sealed like data, so an
// answer means that data passes both ways. Belongs to the data loop.
#pragma once

#include "cnapt/node/node.hpp"
#include "common/io/event_loop.hpp"

#include <functional>
#include <string>
#include <vector>

namespace continuo::cnapt::node {

// Most pings that wait for answers (a further one ends the oldest), and the longest wait. Both are
// choices, not measured.
inline constexpr size_t kMaxPings = 16;
inline constexpr base::Duration kPingTime = base::seconds(3);

class PingDesk {
  public:
    // Gets {"snapt","paths":[{"interface","local","transport","state","active","answered",
    // "rtt_ms"}]}, or {"error"}.
    using OnAnswer = std::function<void(const std::string& json)>;

    // Both must outlive this.
    PingDesk(io::EventLoop& loop, Node& node);

    // `on_answer` is called once, at the latest after kPingTime.
    void ask(const std::string& snapt, OnAnswer on_answer);

  private:
    struct Asked {
        uint8_t path = 0;
        std::string interface;
        std::string local;
        uint64_t answers = 0;  // before it was asked
    };
    struct Ping {
        std::string snapt;
        std::vector<Asked> paths;
        base::TimePoint until{};
        OnAnswer on_answer;
    };
    SnaptLink* find(const std::string& snapt) const;
    std::vector<Asked> paths_of(const SnaptLink& link) const;
    bool is_complete(const Ping& ping) const;
    std::string answer(const Ping& ping) const;
    void end(size_t number);
    void look();

    io::EventLoop& loop_;
    Node& node_;
    std::vector<Ping> pings_;
    io::DeadlineTimer timer_;
};

}  // namespace continuo::cnapt::node
