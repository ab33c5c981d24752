// Refusals: destinations that the relay refuses to a node when a flow begins, so that it is not
// charged for it: denied ones, other nodes and this host. The sets are those of the rules
// (nat.hpp), which refuse the packets themselves. Pure but for local_addresses().
#pragma once

#include "common/packet/five_tuple.hpp"
#include "snapt/nat.hpp"

#include <optional>
#include <span>
#include <vector>

namespace continuo::snapt {

class Refusals {
  public:
    Refusals() = default;  // refuses nothing
    // By allow, deny, allow_self and the leases.
    explicit Refusals(const RelayOptions& options);

    // Addresses whose packets come to this host itself, until the next call.
    void set_local(std::vector<base::IpAddress> addresses);
    // Takes the time of a look-up in sorted lists.
    bool refuses(const packet::FiveTuple& tuple) const;

  private:
    bool is_allowed_here(const packet::FiveTuple& tuple) const;

    std::vector<base::IpPrefix> denied_;  // as effective_deny_list() sorts
    std::vector<base::IpPrefix> leases_;
    std::vector<SelfService> allow_self_;
    std::vector<base::IpAddress> local_;  // sorted
};

// Addresses whose packets come to this host itself, those of broadcasts included; nothing when the
// kernel does not tell. Below a millisecond, more with thousands of them.
std::optional<std::vector<base::IpAddress>> local_addresses();

}  // namespace continuo::snapt
