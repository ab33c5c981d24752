// Refusals: destinations refused to a node when a flow begins, so that it is not charged for it:
// denied ones, other nodes and this host. The sets are those of the rules (nat.hpp), which refuse
// the packets themselves. Pure except local_addresses().
#pragma once

#include "common/packet/five_tuple.hpp"
#include "snapt/nat/nat.hpp"

#include <optional>
#include <span>
#include <vector>

namespace continuo::snapt::nat {

class Refusals {
  public:
    Refusals() = default;  // refuses nothing
    // The sets follow from allow, deny, allow_self and the leases.
    explicit Refusals(const RelayOptions& options);

    // Sets the addresses of this host itself, until the next call.
    void set_local(std::vector<base::IpAddress> addresses);
    // Costs look-ups in sorted lists.
    bool refuses(const packet::FiveTuple& tuple) const;

  private:
    bool is_allowed_here(const packet::FiveTuple& tuple) const;

    std::vector<base::IpPrefix> denied_;  // as effective_deny_list() sorts
    std::vector<base::IpPrefix> leases_;
    std::vector<settings::SelfService> allow_self_;
    std::vector<base::IpAddress> local_;  // sorted
};

// Addresses of this host itself, including broadcast addresses; nothing when the kernel does not
// report them. Below a millisecond, more with thousands of them.
std::optional<std::vector<base::IpAddress>> local_addresses();

}  // namespace continuo::snapt::nat
