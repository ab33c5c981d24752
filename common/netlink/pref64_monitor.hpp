// Pref64Monitor: the NAT64 prefixes that routers announce from its start on: the kernel stores
// none. Belongs to a loop.
#pragma once

#include "common/io/event_loop.hpp"
#include "common/netlink/pref64.hpp"

#include <functional>
#include <memory>
#include <vector>

namespace continuo::netlink {

class Pref64Monitor {
  public:
    // `on_notice` is called on the loop after an announcement; prefixes expire without a call.
    // `loop` must outlive this. Errors: System.
    static base::Result<std::unique_ptr<Pref64Monitor>> start(io::EventLoop& loop,
                                                              std::function<void()> on_notice);
    Pref64Monitor(const Pref64Monitor&) = delete;
    Pref64Monitor& operator=(const Pref64Monitor&) = delete;
    ~Pref64Monitor() = default;

    // As in Pref64Table.
    void follow(std::vector<uint32_t> connected) { table_.follow(std::move(connected)); }
    std::optional<KnownPref64> best(uint32_t interface_index) const {
        return table_.best(interface_index, loop_.now());
    }
    void doubt(const base::IpPrefix& prefix) { table_.doubt(prefix); }
    void reconsider(const base::IpPrefix& prefix) { table_.reconsider(prefix); }
    void prove(const base::IpPrefix& prefix) { table_.prove(prefix); }

  private:
    Pref64Monitor(io::EventLoop& loop, std::function<void()> on_notice)
        : loop_(loop), on_notice_(std::move(on_notice)) {}
    base::Result<void> subscribe();
    void on_readable();

    io::EventLoop& loop_;
    std::function<void()> on_notice_;
    Pref64Table table_;
    std::vector<uint8_t> block_;
    io::UniqueFd fd_;
    std::unique_ptr<io::Poller> poller_;  // last: gone before the descriptor
};

}  // namespace continuo::netlink
