#include "common/base/random.hpp"
#include "common/netlink/pref64.hpp"

#include <gtest/gtest.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

namespace continuo::netlink {
namespace {

using base::IpPrefix;
using Bytes = std::vector<uint8_t>;

constexpr uint32_t kUplink = 3;

IpPrefix prefix(std::string_view text) {
    return IpPrefix::parse(text).value();
}

// RFC 8781, section 4: 13 bits of lifetime in units of 8 s, 3 bits of the length's code, and the
// highest 96 bits of the prefix.
Bytes option(uint16_t lifetime_units, uint8_t code, std::string_view address) {
    const auto scaled = static_cast<uint16_t>(lifetime_units << 3 | code);
    Bytes bytes = {38, 2, static_cast<uint8_t>(scaled >> 8), static_cast<uint8_t>(scaled & 0xFF)};
    const auto octets = base::IpAddress::parse(address).value().octets;
    bytes.insert(bytes.end(), octets.begin(), octets.begin() + 12);
    return bytes;
}

Bytes operator+(Bytes a, const Bytes& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

Pref64 told(std::string_view text, int64_t lifetime_s) {
    return {prefix(text), base::seconds(lifetime_s)};
}

TEST(Pref64, HasALengthForEachCode) {
    constexpr std::string_view kAddress = "2001:db8:122:344:a5:66:77:88";
    const std::vector<std::string_view> by_code = {
        "2001:db8:122:344:a5:66::/96", "2001:db8:122:344::/64", "2001:db8:122:300::/56",
        "2001:db8:122::/48",           "2001:db8:100::/40",     "2001:db8::/32"};
    for (uint8_t code = 0; code < by_code.size(); ++code) {
        EXPECT_EQ(parse_pref64(option(75, code, kAddress)),
                  std::vector<Pref64>{told(by_code[code], 600)})
            << unsigned{code};
    }
    for (const uint8_t code : {uint8_t{6}, uint8_t{7}}) {
        EXPECT_TRUE(parse_pref64(option(75, code, kAddress)).empty()) << unsigned{code};
    }
}

TEST(Pref64, LifetimeIsInStepsOfEightSeconds) {
    for (const uint16_t units : {uint16_t{0}, uint16_t{1}, uint16_t{8191}}) {
        EXPECT_EQ(parse_pref64(option(units, 0, "64:ff9b::")),
                  std::vector<Pref64>{told("64:ff9b::/96", units * 8)});
    }
}

// Written by hand after the figure there: for 1800 s.
TEST(Pref64, TheWellKnownPrefixIsReadByteForByte) {
    const Bytes bytes = {38, 2, 0x07, 0x08, 0, 0x64, 0xFF, 0x9B, 0, 0, 0, 0, 0, 0, 0, 0};
    EXPECT_EQ(parse_pref64(bytes), std::vector<Pref64>{told("64:ff9b::/96", 1800)});
}

TEST(Pref64, OtherOptionsAndOddOnesArePassedOver) {
    const Bytes other = {25, 1, 0, 0, 0, 0, 0, 0};
    Bytes three_units = option(1, 0, "2001:db8:3::") + Bytes(8);
    three_units[1] = 3;
    Bytes one_unit = option(1, 0, "2001:db8:3::");
    one_unit.resize(8);
    one_unit[1] = 1;
    const Bytes group = option(1, 0, "ff05::");
    const Bytes link_local = option(1, 0, "fe80::");
    const Bytes nothing = option(1, 0, "::");
    const Bytes good = option(1, 5, "2001:db8::");
    EXPECT_EQ(
        parse_pref64(other + three_units + one_unit + group + link_local + nothing + good + other),
        std::vector<Pref64>{told("2001:db8::/32", 8)});
    const Bytes endless = {38, 0, 0, 0, 0, 0, 0, 0};
    EXPECT_TRUE(parse_pref64(endless + good).empty());
}

TEST(Pref64, EveryTruncationGivesWhatIsWhole) {
    const Bytes both = option(1, 0, "64:ff9b::") + option(2, 5, "2001:db8::");
    for (size_t size = 0; size <= both.size(); ++size) {
        // A copy of its own, so that a sanitizer sees what is read beyond.
        const Bytes cut(both.begin(), both.begin() + static_cast<ptrdiff_t>(size));
        EXPECT_EQ(parse_pref64(cut).size(), size / 16) << size;
    }
}

TEST(Pref64, AnyBytesAreSafeAndTheirNumberIsLimited) {
    base::SeededRandom random(7);
    for (int round = 0; round < 20000; ++round) {
        Bytes bytes(random.below(80));
        random.fill(bytes);
        for (const Pref64& one : parse_pref64(bytes)) {
            EXPECT_LE(one.prefix.length, 96);
            EXPECT_LE(one.lifetime, base::seconds(8191 * 8));
        }
    }
    Bytes many;
    for (size_t i = 0; i < kMaxPref64 + 5; ++i) {
        many = many + option(1, 0, "64:ff9b::");
    }
    EXPECT_EQ(parse_pref64(many).size(), kMaxPref64);
}

// A message of the kernel.
nduseroptmsg usual() {
    nduseroptmsg info{};
    info.nduseropt_family = AF_INET6;
    info.nduseropt_ifindex = static_cast<int>(kUplink);
    info.nduseropt_icmp_type = 134;
    return info;
}

Bytes message(const Bytes& options, nduseroptmsg info = usual()) {
    info.nduseropt_opts_len = static_cast<uint16_t>(options.size());
    Bytes bytes(sizeof info);
    std::memcpy(bytes.data(), &info, sizeof info);
    return bytes + options;
}

std::optional<Pref64Notice> parsed(const Bytes& payload, uint16_t type = RTM_NEWNDUSEROPT) {
    return parse_pref64_notice(NetlinkMessage{type, 0, 0, payload});
}

TEST(Pref64, TheKernelsMessageNamesTheInterface) {
    const Bytes good = option(1, 0, "64:ff9b::");
    const auto notice = parsed(message(good) + Bytes(20));  // and an attribute
    ASSERT_TRUE(notice);
    EXPECT_EQ(notice->interface_index, kUplink);
    EXPECT_EQ(notice->prefixes, std::vector<Pref64>{told("64:ff9b::/96", 8)});
    EXPECT_FALSE(parsed(message(good), RTM_NEWROUTE));
    EXPECT_FALSE(parsed(message({25, 1, 0, 0, 0, 0, 0, 0}))) << "no prefix";
    nduseroptmsg info = usual();
    info.nduseropt_family = AF_INET;
    EXPECT_FALSE(parsed(message(good, info)));
    info = usual();
    info.nduseropt_icmp_type = 136;
    EXPECT_FALSE(parsed(message(good, info)));
    info = usual();
    info.nduseropt_ifindex = -1;
    EXPECT_FALSE(parsed(message(good, info)));
    const Bytes whole = message(good);
    for (size_t size = 0; size < whole.size(); ++size) {
        EXPECT_FALSE(parsed(Bytes(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size))))
            << size;
    }
}

class Pref64TableTest : public testing::Test {
  protected:
    void note(uint32_t interface, std::string_view text, int64_t lifetime_s) {
        table_.note(Pref64Notice{interface, {told(text, lifetime_s)}}, now_);
    }
    std::optional<IpPrefix> of(uint32_t interface) {
        const auto best = table_.best(interface, now_);
        return best ? std::optional(best->prefix) : std::nullopt;
    }
    Pref64Standing standing(uint32_t interface) { return table_.best(interface, now_)->standing; }

    Pref64Table table_;
    base::TimePoint now_{base::seconds(1000)};
};

TEST_F(Pref64TableTest, APrefixHoldsForItsLifetimeAndIsRenewed) {
    note(1, "64:ff9b::/96", 16);
    EXPECT_EQ(of(1), prefix("64:ff9b::/96"));
    EXPECT_EQ(of(2), std::nullopt) << "another interface";
    now_ += base::seconds(10);
    note(1, "64:ff9b::/96", 16);
    now_ += base::seconds(10);
    EXPECT_EQ(of(1), prefix("64:ff9b::/96"));
    now_ += base::seconds(6);
    EXPECT_EQ(of(1), std::nullopt);
}

TEST_F(Pref64TableTest, ALifetimeOfZeroWithdrawsThatPrefixAlone) {
    note(1, "64:ff9b::/96", 800);
    note(1, "2001:db8:64::/96", 800);
    EXPECT_EQ(of(1), prefix("64:ff9b::/96"));
    note(2, "64:ff9b::/96", 0);
    EXPECT_EQ(of(1), prefix("64:ff9b::/96"));
    note(1, "64:ff9b::/96", 0);
    EXPECT_EQ(of(1), prefix("2001:db8:64::/96"));
    note(1, "2001:db8:64::/96", 0);
    EXPECT_EQ(of(1), std::nullopt);
}

TEST_F(Pref64TableTest, IsForgottenWithItsNetwork) {
    note(1, "64:ff9b::/96", 800);
    table_.follow({2});
    EXPECT_EQ(of(1), prefix("64:ff9b::/96")) << "heard before there was an address";
    table_.follow({1, 2});
    EXPECT_EQ(of(1), prefix("64:ff9b::/96"));
    table_.follow({2});
    EXPECT_EQ(of(1), std::nullopt);
}

TEST_F(Pref64TableTest, OneThatIsDoubtedGivesWayUntilItIsProven) {
    note(1, "64:ff9b::/96", 800);
    note(1, "2001:db8:64::/96", 800);
    table_.doubt(prefix("64:ff9b::/96"));
    EXPECT_EQ(table_.best(1, now_),
              (KnownPref64{prefix("2001:db8:64::/96"), Pref64Standing::Told}));
    table_.prove(prefix("64:ff9b::/96"));
    table_.doubt(prefix("2001:db8:64::/96"));
    EXPECT_EQ(table_.best(1, now_), (KnownPref64{prefix("64:ff9b::/96"), Pref64Standing::Told}));
}

TEST_F(Pref64TableTest, ToldAgainItComesBeforeDoubtedOnesAlone) {
    note(1, "64:ff9b::/96", 800);
    note(1, "2001:db8:64::/96", 800);
    table_.doubt(prefix("64:ff9b::/96"));
    note(1, "64:ff9b::/96", 800);
    EXPECT_EQ(of(1), prefix("2001:db8:64::/96")) << "which has never been doubted";
    table_.doubt(prefix("2001:db8:64::/96"));
    EXPECT_EQ(of(1), prefix("64:ff9b::/96"));
    EXPECT_EQ(standing(1), Pref64Standing::ToldAgain);
    note(1, "64:ff9b::/96", 0);
    note(1, "64:ff9b::/96", 800);
    EXPECT_EQ(standing(1), Pref64Standing::Told) << "withdrawn in between, it is a new one";
}

TEST_F(Pref64TableTest, OfDoubtedOnesEachHasItsTurn) {
    note(1, "64:ff9b::/96", 800);
    note(1, "2001:db8:64::/96", 800);
    note(2, "64:ff9b::/96", 800);
    for (const std::string_view one : {"64:ff9b::/96", "2001:db8:64::/96", "64:ff9b::/96"}) {
        EXPECT_EQ(of(1), prefix(one));
        table_.doubt(prefix(one));
    }
    EXPECT_EQ(standing(1), Pref64Standing::Doubted);
    EXPECT_EQ(standing(2), Pref64Standing::Doubted);
    table_.reconsider(prefix("64:ff9b::/96"));
    EXPECT_EQ(of(1), prefix("64:ff9b::/96"));
    EXPECT_EQ(standing(1), Pref64Standing::ToldAgain);
    now_ += base::seconds(800);
    EXPECT_EQ(of(1), std::nullopt) << "at the end of its lifetime it is over";
}

TEST_F(Pref64TableTest, WhatIsTooMuchIsLeftOutAndCounted) {
    for (uint32_t interface = 1; interface <= kMaxPref64 + 2; ++interface) {
        note(interface, "64:ff9b::/96", 800);
    }
    EXPECT_EQ(table_.left_out(), 2U);
    EXPECT_EQ(of(kMaxPref64), prefix("64:ff9b::/96"));
    EXPECT_EQ(of(kMaxPref64 + 1), std::nullopt);
    now_ += base::seconds(800);
    note(kMaxPref64 + 1, "64:ff9b::/96", 800);
    EXPECT_EQ(of(kMaxPref64 + 1), prefix("64:ff9b::/96")) << "those that are over give way";
}

}  // namespace
}  // namespace continuo::netlink
