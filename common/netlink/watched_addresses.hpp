// WatchedAddresses: addresses whose routes are seen however many there are, of all who ask for
// some. Pure.
#pragma once

#include "common/base/ip_address.hpp"

#include <cstdint>
#include <map>
#include <vector>

namespace continuo::netlink {

// The limit of all askers together; further ones are left out, and counted.
inline constexpr size_t kMaxWatched = 256;

// Addresses of rank First come first where there are more than the limit.
enum class WatchRank : uint8_t { First, Second };

class WatchedAddresses {
  public:
    // In place of those that this asker (a pointer that distinguishes it) gave before; the first
    // ones matter most. False: they are the same.
    bool set(const void* asker, WatchRank rank, std::vector<base::IpAddress> addresses);
    // At most kMaxWatched, sorted, each once. Askers of one rank have their turns, so that each
    // keeps its first ones.
    std::vector<base::IpAddress> list() const;
    // Those that are not in the list.
    size_t left_out() const { return left_out_; }

  private:
    struct Asked {
        WatchRank rank = WatchRank::First;
        std::vector<base::IpAddress> addresses;
    };
    std::vector<base::IpAddress> in_order() const;

    std::map<const void*, Asked> asked_;
    size_t left_out_ = 0;
};

}  // namespace continuo::netlink
