// The reports of nl80211 about a Wi-Fi interface, as values. Pure. linux/nl80211.h.
#pragma once

#include "common/io/netlink.hpp"

#include <optional>

namespace continuo::io {

struct WirelessEvent {
    enum class Kind : uint8_t {
        Joined,       // an access point, another one included
        Left,         // it, or lost it
        BeaconsLost,  // still joined, but nothing is heard of it
        Signal,       // the answer to a request, or what the driver reported by itself
    };
    Kind kind = Kind::Joined;
    uint32_t interface_index = 0;  // 0: any may be meant, since notifications were lost
    // Of kind Signal: of the access point, in dBm; none when there is none or it is not known.
    std::optional<int> signal_dbm;
};

// A notification of group "mlme"; nothing for those that tell of no such thing.
std::optional<WirelessEvent> parse_wireless_event(const NetlinkMessage& message);

// Parses an answer to NL80211_CMD_GET_INTERFACE: whether it is a client of access points.
bool is_station_interface(const NetlinkMessage& message);
// Parses an answer to NL80211_CMD_GET_STATION.
std::optional<int> parse_station_signal(const NetlinkMessage& message);

}  // namespace continuo::io
