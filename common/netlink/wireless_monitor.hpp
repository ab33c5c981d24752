// WirelessMonitor: events of Wi-Fi interfaces below IP (nl80211), as hints: access points joined
// and left, and signal strength on request. Only listens: thresholds of signal strength
// (NL80211_CMD_SET_CQM) exist once per interface and belong to the supplicant. Belongs to a loop;
// requests run on a separate thread, since a driver may ask its firmware.
#pragma once

#include "common/io/event_loop.hpp"
#include "common/netlink/wireless_message.hpp"

#include <functional>
#include <memory>

namespace continuo::netlink {

class WirelessMonitor {
  public:
    // `on_event` is called on the loop, which must outlive this.
    // Errors: NotFound when this kernel has no nl80211 at present, System.
    static base::Result<std::unique_ptr<WirelessMonitor>>
    start(io::EventLoop& loop, std::function<void(const WirelessEvent&)> on_event);
    WirelessMonitor(const WirelessMonitor&) = delete;
    WirelessMonitor& operator=(const WirelessMonitor&) = delete;
    ~WirelessMonitor();

    // Asks for the signal of the access point. An event of kind Signal follows if the interface is
    // a client of access points, none if it is not. False: another question is open.
    bool ask_signal(uint32_t interface_index);

    struct Counters {
        uint64_t notifications = 0;
        uint64_t overruns = 0;  // ENOBUFS
        uint64_t questions = 0;
    };
    const Counters& counters() const;

  private:
    struct Inner;
    explicit WirelessMonitor(std::unique_ptr<Inner> inner);
    std::unique_ptr<Inner> inner_;
};

}  // namespace continuo::netlink
