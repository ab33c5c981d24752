// HandshakeLimiter: how many strangers may occupy us at once. Pure; asked before a connection gets
// a TLS object. docs/PROTOCOL.md section 4.7.
#pragma once

#include "common/base/ip_address.hpp"
#include "common/base/random.hpp"
#include "common/base/time.hpp"

#include <array>
#include <cstdint>
#include <optional>

namespace continuo::control {

inline constexpr size_t kMaxUnfinishedHandshakes = 256;
inline constexpr size_t kMaxUnfinishedPerPrefix = 8;  // per IPv4 /32 or IPv6 /64
// So many unfinished ones of a network are no coincidence: a handshake takes two round trips.
inline constexpr size_t kCrowd = 4;

class HandshakeLimiter {
  public:
    using Ticket = uint64_t;  // never 0, never given twice
    struct Admitted {
        Ticket ticket = 0;
        Ticket displaced = 0;  // 0: none; else its connection has to be closed
    };

    // `random` must outlive this.
    explicit HandshakeLimiter(base::Random& random) : random_(random) {}

    // Nothing when the prefix has its share. Tickets older than kHandshakeTimeout are taken back
    // first. With the table full one gives way. It is drawn from the network (IPv4 /24, IPv6 /48)
    // with most of them, or from those networks, if these are at least kCrowd: who sends many from
    // few networks displaces himself only. Otherwise it is drawn from all: no rate displaces all
    // others with certainty, as it would if the oldest gave way.
    std::optional<Admitted> begin(const base::IpAddress& from, base::TimePoint now);
    // The handshake ended, well or not. Unknown tickets are ignored.
    void end(Ticket ticket);

    size_t unfinished() const { return used_; }
    uint64_t refused() const { return refused_; }

  private:
    struct Slot {
        Ticket ticket = 0;  // 0: free
        base::IpAddress prefix;
        base::IpAddress network;
        size_t of_network = 0;  // slots in use of that network, with this one
        base::TimePoint expires_at{};
    };
    void occupy(Slot& slot);
    void release(Slot& slot);
    Slot& draw();

    base::Random& random_;
    std::array<Slot, kMaxUnfinishedHandshakes> slots_;
    Ticket last_ticket_ = 0;
    size_t used_ = 0;
    uint64_t refused_ = 0;
};

}  // namespace continuo::control
