// LanTimeouts: a gateway's kernel translates connections of the LAN to cnapt0's address. It must
// not forget them before cnapt does: timeouts of its connection tracking are raised meanwhile, of
// all connections, as they belong to the network namespace. One thread at a time.
#pragma once

#include "common/io/sysctl.hpp"

#include <optional>
#include <string>

namespace continuo::cnapt {

class LanTimeouts {
  public:
    // `record`: file where former values are kept, so that a crash loses none; empty: nothing is
    // ever changed.
    explicit LanTimeouts(std::string record) : record_(std::move(record)) {}

    // Puts back what an earlier run left changed.
    void open();
    // Idempotent. Connection tracking may have come to this host since.
    void raise();
    void restore();

  private:
    std::string record_;
    std::optional<io::SysctlGuard> guard_;  // once open
    bool has_warned_ = false;
};

}  // namespace continuo::cnapt
