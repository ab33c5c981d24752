// HostLookup: whether programs of this host can look names up while that goes through the tunnel.
// Sends a question to the resolver in `resolv.conf`, as they do, and judges by the answer. Data
// loop; servers are asked on a helper thread.
#pragma once

#include "common/base/ip_address.hpp"
#include "common/io/event_loop.hpp"
#include "common/io/worker_thread.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace continuo::cnapt::names {

// Interval between questions without a special reason, so rare that it does not matter to an idle
// node; and after one without an answer. Choices, not measured.
inline constexpr base::Duration kHostLookupInterval = base::seconds(900);
inline constexpr base::Duration kHostLookupAgain = base::seconds(2);
// The same if no server answers at all.
inline constexpr base::Duration kHostLookupSilent = base::seconds(60);
// Consecutive questions without an answer after which names are said not to resolve, if a server of
// [dns] answers meanwhile: takes longer than a move.
inline constexpr unsigned kHostLookupFailures = 4;

struct HostLookupAnswer {
    std::vector<base::IpAddress> asked;  // the servers of resolv.conf
    bool is_answered = false;            // by one of them
    bool is_there = false;               // a server of [dns] answers when asked directly
};

// Blocks for some seconds at most. Asks for a name that no cache holds.
HostLookupAnswer look_up_as_host(const std::vector<base::IpAddress>& servers);

class HostLookup {
  public:
    // `servers`: those of [dns]. `on_change`: failure() is another.
    HostLookup(io::EventLoop& loop,
               std::vector<base::IpAddress> servers,
               std::function<void()> on_change);
    HostLookup(const HostLookup&) = delete;
    HostLookup& operator=(const HostLookup&) = delete;
    ~HostLookup();

    // Call each second. While not `is_in_tunnel`, nothing is asked and nothing is known.
    void on_tick(bool is_in_tunnel);
    // Something in the network or the configuration has changed.
    void ask_soon() { ask_at_ = {}; }
    // Why names do not resolve; empty: they do, or it is not known.
    const std::string& failure() const { return failure_; }

  private:
    void judge(const HostLookupAnswer& answer);
    void set_failure(std::string text);

    io::EventLoop& loop_;
    std::vector<base::IpAddress> servers_;
    std::function<void()> on_change_;
    bool is_in_tunnel_ = false;
    bool is_busy_ = false;
    unsigned turns_ = 0;  // entries into the tunnel: older answers prove nothing
    unsigned failures_ = 0;
    base::TimePoint ask_at_{};
    std::string failure_;
    std::unique_ptr<io::WorkerThread> worker_;
};

}  // namespace continuo::cnapt::names
