// WirelessHints: news of the access points of uplinks, which speed up the detection of silence
// (docs/PROTOCOL.md section 5.1). A weak signal only triggers a question; an uplink without access
// point is left at once. Data loop only.
#pragma once

#include "cnapt/links/snapt_link.hpp"
#include "cnapt/uplinks/uplinks.hpp"
#include "common/netlink/wireless_monitor.hpp"

#include <functional>
#include <memory>

namespace continuo::cnapt::node {

class WirelessHints {
  public:
    // Uplinks have joined or lost their access points.
    using OnJoined = std::function<void(const uplinks::Uplinks::Change& change)>;
    // The signal of the link's uplink is known anew. If it has become weak, the link has a hint.
    using OnSignal = std::function<void(links::SnaptLink& link)>;

    // All must outlive this.
    WirelessHints(io::EventLoop& loop,
                  const links::SnaptLinks& links,
                  uplinks::Uplinks& uplinks,
                  OnJoined on_joined,
                  OnSignal on_signal);

    // Follows Wi-Fi from now on if this kernel supports it.
    void follow();
    // Asks for the signal of uplinks in use, where it is time.
    void ask_signals(base::TimePoint now);

  private:
    void on_event(const netlink::WirelessEvent& event);
    void on_signal(uint32_t interface_index, bool has_become_weak);
    uint64_t received_on(uint8_t slot) const;

    io::EventLoop& loop_;
    const links::SnaptLinks& links_;
    uplinks::Uplinks& uplinks_;
    OnJoined on_joined_;
    OnSignal on_signal_;
    std::unique_ptr<netlink::WirelessMonitor> monitor_;  // null: no Wi-Fi here
};

}  // namespace continuo::cnapt::node
