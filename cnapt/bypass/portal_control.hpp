// PortalControl: captive portals at a running node. Has uplinks checked for one (PortalWatch,
// ask_for_portal on a helper thread), keeps the tunnel off those behind one, and lets a user reach
// it. Belongs to the data loop.
#pragma once

#include "cnapt/bypass/portal_probe.hpp"
#include "cnapt/bypass/portal_watch.hpp"
#include "cnapt/capture/capture_switch.hpp"
#include "cnapt/node/node.hpp"
#include "common/io/worker_thread.hpp"
#include "common/report/json_value.hpp"

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace continuo::cnapt::bypass {

// Longest time that a user's web traffic goes to a portal after `cnapt portal`.
inline constexpr base::Duration kLoginTime = base::seconds(300);

class PortalControl {
  public:
    // All must outlive this.
    PortalControl(io::EventLoop& loop,
                  node::Node& node,
                  capture::CaptureSwitch& capture,
                  const settings::CaptureConfig& config,
                  const control::PortalKey& key);

    void on_network_changed() { watch_.on_network_changed(loop_.now()); }
    // Once a second.
    void on_tick();
    // Answers the command `portal`: the user's web traffic goes to the portal from now on. Only
    // root may name a user other than `peer`.
    std::string log_in(const report::JsonValue& request, uint32_t peer);
    // Does not wait for a question that is under way.
    void stop() { worker_.abandon(); }

  private:
    using Identity = std::pair<uint32_t, base::IpAddress>;  // of the uplink in a slot

    void observe(base::TimePoint now);
    void ask(uint8_t slot);
    void tell(uint8_t slot);
    void on_answer(uint8_t slot, const Identity& asked, const control::PortalAnswer& answer);
    std::optional<base::Endpoint> snapt_for(const uplinks::Uplink& uplink);
    std::string refusals() const;
    const uplinks::Uplink* captive_uplink(const std::string& interface);
    std::optional<capture::PortalBypass> bypass_of(const uplinks::Uplink& uplink,
                                                   uint32_t user) const;

    io::EventLoop& loop_;
    node::Node& node_;
    capture::CaptureSwitch& capture_;
    uint32_t fwmark_;
    bool is_kill_switch_;
    control::PortalKey key_;
    io::WorkerThread worker_;
    PortalWatch watch_;
    std::array<std::optional<Identity>, PortalWatch::kSlots> known_;
    size_t next_snapt_ = 0;
    std::optional<uint8_t> login_slot_;
    base::TimePoint login_until_{};
};

}  // namespace continuo::cnapt::bypass
