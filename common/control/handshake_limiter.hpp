// HandshakeLimiter: limits how many strangers may occupy us at once. Pure; asked before a
// connection gets a TLS object. docs/PROTOCOL.md section 4.7.
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
// Unfinished connections of a network that cannot be coincidence: a handshake takes two round
// trips.
inline constexpr size_t kCrowd = 4;

class HandshakeLimiter {
  public:
    using Ticket = uint64_t;  // never 0, never given twice
    struct Admitted {
        Ticket ticket = 0;
        Ticket displaced = 0;  // 0: none; otherwise close its connection
    };

    // `random` must outlive this.
    explicit HandshakeLimiter(base::Random& random) : random_(random) {}

    // Nothing when the prefix has its share. Removes tickets older than kHandshakeTimeout first.
    // With a full table one ticket is displaced: a random one of the network (IPv4 /24, IPv6 /48)
    // with the most, or of several such networks, if it has at least kCrowd, so that a flood from
    // few networks only displaces itself. Otherwise a random one of all: no rate then displaces all
    // others with certainty, as displacing the oldest would.
    std::optional<Admitted> begin(const base::IpAddress& from, base::TimePoint now);
    // The handshake has ended in any way. Unknown tickets are ignored.
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
