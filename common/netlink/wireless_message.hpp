// The reports of nl80211 about a Wi-Fi interface, as values. Pure. linux/nl80211.h.
#pragma once

#include "common/netlink/netlink.hpp"

#include <optional>

namespace continuo::netlink {

struct WirelessEvent {
    enum class Kind : uint8_t {
        Joined,       // an access point, or another one
        Left,         // it left the access point or lost it
        BeaconsLost,  // still joined, but its beacons are missing
        Signal,       // answer to a request, or reported by the driver
    };
    Kind kind = Kind::Joined;
    uint32_t interface_index = 0;  // 0: notifications were lost, so any may be meant
    // Kind Signal only: signal of the access point in dBm; none when it is unknown.
    std::optional<int> signal_dbm;
};

// A notification of group "mlme"; nothing for irrelevant ones.
std::optional<WirelessEvent> parse_wireless_event(const NetlinkMessage& message);

// Parses an answer to NL80211_CMD_GET_INTERFACE: whether it is a client of access points.
bool is_station_interface(const NetlinkMessage& message);
// Parses an answer to NL80211_CMD_GET_STATION.
std::optional<int> parse_station_signal(const NetlinkMessage& message);

}  // namespace continuo::netlink
