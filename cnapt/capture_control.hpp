// CaptureControl: sets cnapt0 up and lets the host's traffic into it, and takes everything away
// again, also what a killed run left. Blocks for a moment on netlink and nftables: not for the data
// loop. One thread at a time.
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

    // Removes rules and routes of an earlier run, and its nftables table, unless that is a kill
    // switch that goes on.
    base::Result<void> clean_up();
    // Addresses and state of the device; nothing is captured yet.
    base::Result<void> set_up_device(std::string& failure);
    // Rules, routes, nftables. Idempotent; also after a change of the policy. New flows are
    // captured if let_in() said so last.
    base::Result<void> begin(const classifier::Ruleset& ruleset, std::string& failure);
    // Whether new flows are captured. Those in the tunnel stay there; with the kill switch all do.
    base::Result<void> let_in(bool is_open, std::string& failure);
    // Back to plain routing.
    void end();
    bool is_active() const { return is_active_; }

    base::IpAddress ipv4() const { return default_node_ipv4(); }
    base::IpAddress ipv6() const { return default_node_ipv6(); }

  private:
    CaptureOptions options(const classifier::Ruleset* ruleset) const;
    base::Result<void> remove_all(bool keeps_table);

    CaptureConfig config_;
    CapturePlan plan_;
    io::Nft nft_;
    bool is_active_ = false;
    bool is_open_ = true;
};

}  // namespace continuo::cnapt
