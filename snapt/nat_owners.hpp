// NatOwners: who has which lease, for the log of translations (nat_log.hpp).
#pragma once

#include "common/base/ip_address.hpp"

#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>

namespace continuo::snapt {

struct NatOwner {
    std::string user;
    std::string node;
    int64_t account_id = 0;
};

// Any thread. There are no more entries than the pools have addresses.
class NatOwners {
  public:
    void set(const base::IpAddress& lease, const NatOwner& owner);
    // "?" where nobody is known.
    NatOwner find(const base::IpAddress& lease) const;

  private:
    mutable std::mutex mutex_;
    std::unordered_map<base::IpAddress, NatOwner> owners_;
};

}  // namespace continuo::snapt
