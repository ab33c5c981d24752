// HostLookup: whether programs of this host get their names looked up while they are to go through
// the tunnel: puts a question to the resolver that `resolv.conf` names, as they do, and judges by
// the answer. Data loop; servers are asked on a helper thread.
#pragma once

#include "common/base/ip_address.hpp"
#include "common/io/event_loop.hpp"
#include "common/io/worker_thread.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace continuo::cnapt {

// Between two questions while nothing suggests one, so seldom that an idle node need not count
// them, and while the last was not answered. Choices, not measured.
inline constexpr base::Duration kHostLookupInterval = base::seconds(900);
inline constexpr base::Duration kHostLookupAgain = base::seconds(2);
// The same where no server answers at all.
inline constexpr base::Duration kHostLookupSilent = base::seconds(60);
// Questions without an answer, one behind the other, that say that names do not resolve, if a
// server of [dns] answers them meanwhile: longer than a move.
inline constexpr unsigned kHostLookupFailures = 4;

struct HostLookupAnswer {
    std::vector<base::IpAddress> asked;  // the servers of resolv.conf
    bool is_answered = false;            // by one of them
    bool is_there = false;               // some server of [dns] answers when it is asked itself
};

// Blocking, for some seconds at most. A name that is in no cache.
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

    // To be called each second. While not `is_in_tunnel` nothing is asked, and nothing known.
    void on_tick(bool is_in_tunnel);
    // Something has changed.
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
    unsigned turns_ = 0;  // into the tunnel: an answer of an earlier one proves nothing
    unsigned failures_ = 0;
    base::TimePoint ask_at_{};
    std::string failure_;
    std::unique_ptr<io::WorkerThread> worker_;
};

}  // namespace continuo::cnapt
