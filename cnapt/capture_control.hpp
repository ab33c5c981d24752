// CaptureControl: sets cnapt0 up and lets the host's traffic into it, and takes everything away
// again, also what a killed run left. Blocks for a moment on netlink and nftables: at start, stop
// and reload only.
#pragma once

#include "classifier/ruleset.hpp"
#include "cnapt/node_config.hpp"
#include "cnapt/routes.hpp"
#include "common/base/result.hpp"
#include "common/io/nft.hpp"

#include <string>

namespace continuo::cnapt {

class CaptureControl {
  public:
    explicit CaptureControl(CaptureConfig config) : config_(std::move(config)) {}

    // Removes rules, routes and tables of an earlier run.
    base::Result<void> clean_up();
    // Addresses and state of the device; nothing is captured yet.
    base::Result<void> set_up_device(std::string& failure);
    // Rules, routes, nftables. Idempotent; also after a change of the policy.
    base::Result<void> begin(const classifier::Ruleset& ruleset, std::string& failure);
    // Back to plain routing.
    void end();
    bool is_active() const { return is_active_; }

    base::IpAddress ipv4() const { return default_node_ipv4(); }
    base::IpAddress ipv6() const { return default_node_ipv6(); }

  private:
    CaptureOptions options(const classifier::Ruleset* ruleset) const;

    CaptureConfig config_;
    CapturePlan plan_;
    io::Nft nft_;
    bool is_active_ = false;
};

}  // namespace continuo::cnapt
