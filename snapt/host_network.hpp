// HostNetwork: what the SNAPT changes at its host: addresses and state of its TUN device, the NAT's
// rules, kernel parameters. All of it is taken back.
#pragma once

#include "common/io/nft.hpp"
#include "common/io/sysctl.hpp"
#include "snapt/accounting/lease_store.hpp"
#include "snapt/snapt_config.hpp"

#include <memory>
#include <string>

namespace continuo::snapt {

class HostNetwork {
  public:
    // `config` must outlive this. Kernel parameters found are kept in `state`, a folder, so that a
    // crash loses none.
    HostNetwork(const SnaptConfig& config, std::string state);

    // Puts back what an earlier run left changed. The text of a failure is in `failure`.
    base::Result<void> open(std::string& failure);
    // The device is there. `leases` knows its addresses.
    base::Result<void> set_up(const LeaseStore& leases, std::string& failure);
    // Also after a set_up() that failed half-way.
    void tear_down();

  private:
    base::Result<void> set_up_device(const LeaseStore& leases);

    const SnaptConfig& config_;
    std::string state_;
    std::unique_ptr<io::SysctlGuard> sysctls_;
    io::Nft nft_;
};

}  // namespace continuo::snapt
