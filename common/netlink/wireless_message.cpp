#include "common/netlink/wireless_message.hpp"

#include "common/netlink/generic_netlink.hpp"

#include <array>

#include <linux/nl80211.h>

namespace continuo::netlink {

using base::ByteView;

namespace {

using Kind = WirelessEvent::Kind;

// Bounds of a plausible signal: drivers without a value report 0.
constexpr int kWeakestDbm = -127;
constexpr int kStrongestDbm = -1;

std::optional<int> in_range(int dbm) {
    return dbm >= kWeakestDbm && dbm <= kStrongestDbm ? std::optional(dbm) : std::nullopt;
}

bool has_failed(ByteView attributes) {
    const auto status = find_attribute(attributes, NL80211_ATTR_STATUS_CODE);
    uint16_t code = 0;
    if (status && status->size() >= sizeof code) {
        std::memcpy(&code, status->data(), sizeof code);
    }
    return code != 0 || find_attribute(attributes, NL80211_ATTR_TIMED_OUT).has_value();
}

// Connection quality: thresholds that another program, usually a supplicant, has set.
std::optional<WirelessEvent> parse_quality(ByteView attributes, uint32_t interface_index) {
    const auto quality = find_attribute(attributes, NL80211_ATTR_CQM);
    if (!quality) {
        return std::nullopt;
    }
    const auto threshold = find_u32(*quality, NL80211_ATTR_CQM_RSSI_THRESHOLD_EVENT);
    if (find_attribute(*quality, NL80211_ATTR_CQM_BEACON_LOSS_EVENT) ||
        threshold == NL80211_CQM_RSSI_BEACON_LOSS_EVENT) {
        return WirelessEvent{Kind::BeaconsLost, interface_index, {}};
    }
    const auto level = find_u32(*quality, NL80211_ATTR_CQM_RSSI_LEVEL);
    const auto signal = level ? in_range(static_cast<int32_t>(*level)) : std::nullopt;
    return signal ? std::optional(WirelessEvent{Kind::Signal, interface_index, signal})
                  : std::nullopt;
}

}  // namespace

std::optional<WirelessEvent> parse_wireless_event(const NetlinkMessage& message) {
    const ByteView attributes = generic_attributes(message);
    const auto interface_index = find_u32(attributes, NL80211_ATTR_IFINDEX);
    if (!interface_index || *interface_index == 0) {
        return std::nullopt;
    }
    switch (generic_command(message)) {
    case NL80211_CMD_CONNECT:
        return WirelessEvent{
            has_failed(attributes) ? Kind::Left : Kind::Joined, *interface_index, {}};
    case NL80211_CMD_ROAM:
        return WirelessEvent{Kind::Joined, *interface_index, {}};
    case NL80211_CMD_DISCONNECT:
        return WirelessEvent{Kind::Left, *interface_index, {}};
    case NL80211_CMD_NOTIFY_CQM:
        return parse_quality(attributes, *interface_index);
    default:
        return std::nullopt;
    }
}

bool is_station_interface(const NetlinkMessage& message) {
    const auto type = find_u32(generic_attributes(message), NL80211_ATTR_IFTYPE);
    return type == NL80211_IFTYPE_STATION || type == NL80211_IFTYPE_P2P_CLIENT;
}

std::optional<int> parse_station_signal(const NetlinkMessage& message) {
    const auto station = find_attribute(generic_attributes(message), NL80211_ATTR_STA_INFO);
    if (!station) {
        return std::nullopt;
    }
    // The average first: one frame says little.
    constexpr std::array<uint16_t, 2> kTypes = {NL80211_STA_INFO_SIGNAL_AVG,
                                                NL80211_STA_INFO_SIGNAL};
    for (const uint16_t type : kTypes) {
        const auto value = find_attribute(*station, type);
        if (value && !value->empty()) {
            if (const auto signal = in_range(static_cast<int8_t>(value->front()))) {
                return signal;
            }
        }
    }
    return std::nullopt;
}

}  // namespace continuo::netlink
