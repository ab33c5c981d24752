#include "common/base/random.hpp"
#include "common/netlink/generic_netlink.hpp"
#include "common/netlink/wireless_monitor.hpp"

#include <gtest/gtest.h>
#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <linux/nl80211.h>

namespace continuo::netlink {
namespace {

using base::ByteView;
using Kind = WirelessEvent::Kind;
using Bytes = std::vector<uint8_t>;

constexpr uint16_t kFamily = 0x1c;
constexpr uint32_t kInterface = 3;

// A sequence of attributes, as the value of one that nests them.
class Nested {
  public:
    template <typename T>
    Nested& add(uint16_t type, const T& value) {
        return add(type, ByteView(reinterpret_cast<const uint8_t*>(&value), sizeof value));
    }
    Nested& add(uint16_t type, ByteView value) {
        const nlattr header{static_cast<uint16_t>(sizeof(nlattr) + value.size()), type};
        const auto* from = reinterpret_cast<const uint8_t*>(&header);
        bytes_.insert(bytes_.end(), from, from + sizeof header);
        bytes_.insert(bytes_.end(), value.begin(), value.end());
        bytes_.resize((bytes_.size() + 3) / 4 * 4);
        return *this;
    }
    Nested& text(uint16_t type, std::string_view value) {
        Bytes bytes(value.begin(), value.end());
        bytes.push_back(0);
        return add(type, ByteView(bytes));
    }
    operator ByteView() const { return bytes_; }  // NOLINT(google-explicit-constructor)

  private:
    Bytes bytes_;
};

Bytes message(uint16_t family, uint8_t command, const Nested& attributes) {
    const genlmsghdr header{command, 1, 0};
    const ByteView rest = attributes;
    nlmsghdr outer{};
    outer.nlmsg_len = static_cast<uint32_t>(sizeof outer + sizeof header + rest.size());
    outer.nlmsg_type = family;
    Bytes bytes(outer.nlmsg_len);
    std::memcpy(bytes.data(), &outer, sizeof outer);
    std::memcpy(bytes.data() + sizeof outer, &header, sizeof header);
    std::copy(rest.begin(), rest.end(), bytes.begin() + sizeof outer + sizeof header);
    return bytes;
}

template <typename Parse>
auto parsed(const Bytes& bytes, Parse parse) {
    decltype(parse(NetlinkMessage{})) result{};
    for_each_message(bytes, [&](const NetlinkMessage& one) { result = parse(one); });
    return result;
}

std::optional<WirelessEvent> event_of(uint8_t command, const Nested& attributes) {
    return parsed(message(kFamily, command, attributes), parse_wireless_event);
}

Nested on_interface() {
    return Nested().add(NL80211_ATTR_WIPHY, uint32_t{0}).add(NL80211_ATTR_IFINDEX, kInterface);
}

Bytes family_answer() {
    const Nested mlme = Nested()
                            .add(CTRL_ATTR_MCAST_GRP_ID, uint32_t{8})
                            .text(CTRL_ATTR_MCAST_GRP_NAME, NL80211_MULTICAST_GROUP_MLME);
    const Nested nameless = Nested().add(CTRL_ATTR_MCAST_GRP_ID, uint32_t{9});
    const Nested groups = Nested().add(1, ByteView(nameless)).add(2, ByteView(mlme));
    return message(GENL_ID_CTRL, CTRL_CMD_NEWFAMILY,
                   Nested()
                       .text(CTRL_ATTR_FAMILY_NAME, NL80211_GENL_NAME)
                       .add(CTRL_ATTR_FAMILY_ID, kFamily)
                       .add(CTRL_ATTR_MCAST_GROUPS | NLA_F_NESTED, ByteView(groups)));
}

Bytes station_answer(int8_t average, int8_t last) {
    const Nested information = Nested()
                                   .add(NL80211_STA_INFO_INACTIVE_TIME, uint32_t{20})
                                   .add(NL80211_STA_INFO_SIGNAL, last)
                                   .add(NL80211_STA_INFO_SIGNAL_AVG, average);
    return message(kFamily, NL80211_CMD_NEW_STATION,
                   on_interface().add(NL80211_ATTR_STA_INFO | NLA_F_NESTED, ByteView(information)));
}

Bytes quality_event(int32_t level) {
    const Nested quality = Nested()
                               .add(NL80211_ATTR_CQM_RSSI_THRESHOLD_EVENT,
                                    uint32_t{NL80211_CQM_RSSI_THRESHOLD_EVENT_LOW})
                               .add(NL80211_ATTR_CQM_RSSI_LEVEL, level);
    return message(kFamily, NL80211_CMD_NOTIFY_CQM,
                   on_interface().add(NL80211_ATTR_CQM | NLA_F_NESTED, ByteView(quality)));
}

TEST(GenericNetlink, FamiliesAndTheirGroupsAreRead) {
    const auto family = parsed(family_answer(), parse_generic_family);
    ASSERT_TRUE(family);
    EXPECT_EQ(family->id, kFamily);
    EXPECT_EQ(family->name, "nl80211");
    EXPECT_EQ(family->group("mlme"), 8U);
    EXPECT_EQ(family->group("scan"), std::nullopt);
    EXPECT_EQ(family->groups.size(), 1U) << "a group without a name is none";
}

TEST(GenericNetlink, AnAnswerWithoutNumberOrNameIsNoFamily) {
    const auto read = [](const Nested& attributes) {
        return parsed(message(GENL_ID_CTRL, CTRL_CMD_NEWFAMILY, attributes), parse_generic_family);
    };
    EXPECT_FALSE(read(Nested().text(CTRL_ATTR_FAMILY_NAME, "nl80211")));
    EXPECT_FALSE(read(Nested().add(CTRL_ATTR_FAMILY_ID, kFamily)));
    EXPECT_FALSE(
        read(Nested().add(CTRL_ATTR_FAMILY_ID, uint8_t{28}).text(CTRL_ATTR_FAMILY_NAME, "x")));
    EXPECT_FALSE(
        read(Nested().add(CTRL_ATTR_FAMILY_ID, uint16_t{3}).text(CTRL_ATTR_FAMILY_NAME, "x")))
        << "numbers below are netlink's own";
}

TEST(GenericNetlink, AFamilyThatThisKernelDoesNotHaveIsNotFound) {
    auto socket = NetlinkSocket::open(NETLINK_GENERIC);
    ASSERT_TRUE(socket);
    const auto control = find_generic_family(*socket, "nlctrl");
    ASSERT_TRUE(control);
    EXPECT_EQ(control->id, GENL_ID_CTRL);
    const auto none = find_generic_family(*socket, "continuo_none");
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().code, base::Errc::NotFound);
}

TEST(WirelessEvent, JoiningAndLeavingAccessPointsAreTold) {
    const auto joined =
        event_of(NL80211_CMD_CONNECT, on_interface().add(NL80211_ATTR_STATUS_CODE, uint16_t{0}));
    ASSERT_TRUE(joined);
    EXPECT_EQ(joined->kind, Kind::Joined);
    EXPECT_EQ(joined->interface_index, kInterface);
    EXPECT_EQ(event_of(NL80211_CMD_ROAM, on_interface())->kind, Kind::Joined);
    EXPECT_EQ(event_of(NL80211_CMD_DISCONNECT, on_interface())->kind, Kind::Left);
}

TEST(WirelessEvent, AnAttemptThatFailedJoinsNothing) {
    EXPECT_EQ(
        event_of(NL80211_CMD_CONNECT, on_interface().add(NL80211_ATTR_STATUS_CODE, uint16_t{17}))
            ->kind,
        Kind::Left);
    EXPECT_EQ(
        event_of(NL80211_CMD_CONNECT, on_interface().add(NL80211_ATTR_TIMED_OUT, ByteView()))->kind,
        Kind::Left);
}

TEST(WirelessEvent, WhatConcernsNoInterfaceOrNoHintIsPassedOver) {
    EXPECT_FALSE(event_of(NL80211_CMD_DISCONNECT, Nested()));
    EXPECT_FALSE(event_of(NL80211_CMD_DISCONNECT, Nested().add(NL80211_ATTR_IFINDEX, uint16_t{3})));
    EXPECT_FALSE(event_of(NL80211_CMD_DISCONNECT, Nested().add(NL80211_ATTR_IFINDEX, uint32_t{0})));
    EXPECT_FALSE(event_of(NL80211_CMD_NEW_SCAN_RESULTS, on_interface()));
    EXPECT_FALSE(event_of(NL80211_CMD_NOTIFY_CQM, on_interface()));
}

TEST(WirelessEvent, TheQualityThatOthersWatchIsTold) {
    const auto weak = parsed(quality_event(-81), parse_wireless_event);
    ASSERT_TRUE(weak);
    EXPECT_EQ(weak->kind, Kind::Signal);
    EXPECT_EQ(weak->signal_dbm, -81);
    EXPECT_FALSE(parsed(quality_event(0), parse_wireless_event)) << "no driver hears that much";
    EXPECT_FALSE(parsed(quality_event(-4000), parse_wireless_event));
    const Nested lost = Nested().add(NL80211_ATTR_CQM_BEACON_LOSS_EVENT, ByteView());
    EXPECT_EQ(event_of(NL80211_CMD_NOTIFY_CQM, on_interface().add(NL80211_ATTR_CQM, ByteView(lost)))
                  ->kind,
              Kind::BeaconsLost);
}

TEST(WirelessSignal, TheAverageCountsAndTheLastFrameWithoutOne) {
    EXPECT_EQ(parsed(station_answer(-70, -40), parse_station_signal), -70);
    EXPECT_EQ(parsed(station_answer(0, -40), parse_station_signal), -40);
    EXPECT_EQ(parsed(station_answer(0, 0), parse_station_signal), std::nullopt);
    EXPECT_EQ(
        parsed(message(kFamily, NL80211_CMD_NEW_STATION, on_interface()), parse_station_signal),
        std::nullopt);
}

TEST(WirelessSignal, OnlyAClientOfAccessPointsIsAskedAboutOne) {
    const auto is_station = [](uint32_t type) {
        return parsed(message(kFamily, NL80211_CMD_NEW_INTERFACE,
                              on_interface().add(NL80211_ATTR_IFTYPE, type)),
                      is_station_interface);
    };
    EXPECT_TRUE(is_station(NL80211_IFTYPE_STATION));
    EXPECT_TRUE(is_station(NL80211_IFTYPE_P2P_CLIENT));
    EXPECT_FALSE(is_station(NL80211_IFTYPE_AP));
    EXPECT_FALSE(
        parsed(message(kFamily, NL80211_CMD_NEW_INTERFACE, on_interface()), is_station_interface));
}

// Whatever the lengths say, nothing behind the bytes is read (sanitizers see it), and no value
// out of its range comes out.
void read_all(ByteView bytes) {
    for_each_message(bytes, [](const NetlinkMessage& one) {
        const auto event = parse_wireless_event(one);
        const auto signal = parse_station_signal(one);
        const auto family = parse_generic_family(one);
        EXPECT_TRUE(!event || !event->signal_dbm || *event->signal_dbm < 0);
        EXPECT_TRUE(!signal || *signal < 0);
        EXPECT_TRUE(!family || (family->id >= NLMSG_MIN_TYPE && !family->name.empty()));
        is_station_interface(one);
    });
}

TEST(WirelessMessage, TruncatedAndChangedOnesAreReadWithinTheirBytes) {
    base::SeededRandom random(1);
    for (const Bytes& whole : {family_answer(), station_answer(-70, -40), quality_event(-81)}) {
        for (size_t size = 0; size < whole.size(); ++size) {
            const Bytes part(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size));
            read_all(part);
            // Also with a header that says it is all.
            Bytes cut = part;
            if (size >= sizeof(nlmsghdr)) {
                const auto length = static_cast<uint32_t>(size);
                std::memcpy(cut.data(), &length, sizeof length);
                read_all(cut);
            }
        }
        for (int round = 0; round < 20000; ++round) {
            Bytes changed = whole;
            const uint64_t changes = 1 + random.u64() % 4;
            for (uint64_t i = 0; i < changes; ++i) {
                changed[random.u64() % changed.size()] = static_cast<uint8_t>(random.u64());
            }
            read_all(changed);
        }
    }
}

TEST(WirelessMonitor, WithoutWiFiInTheKernelThereIsNone) {
    auto socket = NetlinkSocket::open(NETLINK_GENERIC);
    ASSERT_TRUE(socket);
    const bool has_wifi = find_generic_family(*socket, NL80211_GENL_NAME).has_value();
    io::EventLoop loop;
    const auto monitor = WirelessMonitor::start(loop, [](const WirelessEvent&) {});
    EXPECT_EQ(monitor.has_value(), has_wifi);
    if (!monitor) {
        EXPECT_EQ(monitor.error().code, base::Errc::NotFound);
    }
}

}  // namespace
}  // namespace continuo::netlink
