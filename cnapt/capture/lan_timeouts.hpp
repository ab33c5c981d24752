// LanTimeouts: a gateway's kernel translates connections of the LAN to cnapt0's address and must
// not forget them before cnapt does. So the timeouts of its connection tracking are raised
// meanwhile, for all connections, as they belong to the network namespace. One thread at a time.
#pragma once

#include "common/host/sysctl.hpp"

#include <optional>
#include <string>

namespace continuo::cnapt::capture {

class LanTimeouts {
  public:
    // `record`: file for the former values, so that a crash loses none; empty: nothing is changed.
    explicit LanTimeouts(std::string record) : record_(std::move(record)) {}

    // Restores what an earlier run left changed.
    void open();
    // Idempotent. Connection tracking may have come to this host since.
    void raise();
    void restore();

  private:
    std::string record_;
    std::optional<host::SysctlGuard> guard_;  // once open
    bool has_warned_ = false;
};

}  // namespace continuo::cnapt::capture
