#include "tests/support/link/relay_control.hpp"

#include <cstdio>
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace continuo::tests {
namespace {

using base::microseconds;
using base::milliseconds;
using base::seconds;

class RelayControlTest : public testing::Test {
  protected:
    std::string tell(std::string_view command) { return control.answer(command, now); }
    const LinkSettings& up() const { return a_to_b.settings(); }
    const LinkSettings& down() const { return b_to_a.settings(); }

    base::TimePoint now{seconds(5)};
    base::SeededRandom random{1};
    LinkModel a_to_b{{}, random};
    LinkModel b_to_a{{}, random};
    RelayControl control{{&a_to_b, &b_to_a}, [](size_t direction) {
                             return CarrierCounters{direction + 10, direction + 20};
                         }};
};

TEST_F(RelayControlTest, SettingsGoToTheDirectionNamedBeforeThem) {
    EXPECT_EQ(tell("delay 10ms a-to-b rate 2M loss 0.1 b-to-a mtu 1280 both queue 50\n"), "ok");
    EXPECT_EQ(up().delay, milliseconds(10));
    EXPECT_EQ(down().delay, milliseconds(10));
    EXPECT_EQ(up().bits_per_s, 2'000'000U);
    EXPECT_EQ(down().bits_per_s, 0U);
    EXPECT_EQ(up().loss_ppm, 100'000U);
    EXPECT_EQ(down().loss_ppm, 0U);
    EXPECT_EQ(up().mtu_bytes, 0U);
    EXPECT_EQ(down().mtu_bytes, 1280U);
    EXPECT_EQ(down().queue_packets, 50U);
}

TEST_F(RelayControlTest, EverySettingIsRead) {
    EXPECT_EQ(
        tell("down rate 1.5k queue-bytes 64k jitter 250us jitter-shape exponential order free "
             "burst 1%,20%,90%,0.5% reorder 3% reorder-by 1s duplicate 5% corrupt 0.25 "
             "block udp block icmp impair tcp trace-from 2s"),
        "ok");
    EXPECT_FALSE(up().is_up);
    EXPECT_EQ(up().bits_per_s, 1500U);
    EXPECT_EQ(up().queue_bytes, 64'000U);
    EXPECT_EQ(up().jitter, microseconds(250));
    EXPECT_EQ(up().jitter_shape, JitterShape::Exponential);
    EXPECT_FALSE(up().keeps_order);
    EXPECT_EQ(up().burst.good_to_bad_ppm, 10'000U);
    EXPECT_EQ(up().burst.bad_to_good_ppm, 200'000U);
    EXPECT_EQ(up().burst.loss_in_bad_ppm, 900'000U);
    EXPECT_EQ(up().burst.loss_in_good_ppm, 5'000U);
    EXPECT_EQ(up().reorder_ppm, 30'000U);
    EXPECT_EQ(up().reorder_by, seconds(1));
    EXPECT_EQ(up().duplicate_ppm, 50'000U);
    EXPECT_EQ(up().corrupt_ppm, 250'000U);
    EXPECT_EQ(up().blocked, bit_of(LinkProtocol::Udp) | bit_of(LinkProtocol::Icmp));
    EXPECT_EQ(up().impaired, bit_of(LinkProtocol::Tcp));
    EXPECT_EQ(up().trace_from, seconds(2));
    EXPECT_EQ(
        tell("up rate unlimited burst none unblock udp impair all jitter 0 order kept mtu none"),
        "ok");
    EXPECT_TRUE(up().is_up);
    EXPECT_EQ(up().bits_per_s, 0U);
    EXPECT_EQ(up().burst.good_to_bad_ppm, 0U);
    EXPECT_EQ(up().blocked, bit_of(LinkProtocol::Icmp));
    EXPECT_EQ(up().impaired, kImpairedByDefault);
    EXPECT_TRUE(up().keeps_order);
    EXPECT_EQ(tell("unblock all"), "ok");
    EXPECT_EQ(up().blocked, 0U);
}

TEST_F(RelayControlTest, AWrongCommandChangesNothing) {
    const std::pair<const char*, const char*> rows[] = {
        {"delay 5ms wobble 3", "error: no such setting: wobble"},
        {"delay 5ms rate", "error: rate needs a value"},
        {"delay 5ms rate fast", "error: not a value of rate: fast"},
        {"delay 5ms rate 0", "error: not a value of rate: 0"},
        {"delay 5ms rate -1", "error: not a value of rate: -1"},
        {"delay 5ms rate 2m", "error: not a value of rate: 2m"},
        {"delay 5ms jitter 5", "error: not a value of jitter: 5"},
        {"delay 5ms delay 2h", "error: not a value of delay: 2h"},
        {"delay 5ms delay 3601s", "error: not a value of delay: 3601s"},
        {"delay 5ms loss 1.1", "error: not a value of loss: 1.1"},
        {"delay 5ms loss 101%", "error: not a value of loss: 101%"},
        {"delay 5ms loss nan", "error: not a value of loss: nan"},
        {"delay 5ms burst 0.1", "error: not a value of burst: 0.1"},
        {"delay 5ms burst 0.1,", "error: not a value of burst: 0.1,"},
        {"delay 5ms burst 0,0,0,0,0", "error: not a value of burst: 0,0,0,0,0"},
        {"delay 5ms queue 0", "error: not a value of queue: 0"},
        {"delay 5ms queue 100001", "error: not a value of queue: 100001"},
        {"delay 5ms mtu 70000", "error: not a value of mtu: 70000"},
        {"delay 5ms block sctp", "error: not a value of block: sctp"},
        {"delay 5ms order random", "error: not a value of order: random"},
        {"delay 5ms jitter-shape pareto", "error: not a value of jitter-shape: pareto"},
        {"delay 5ms trace /nonexistent", "error: /nonexistent: cannot be read"},
        {"delay 5ms stats", "error: no such setting: stats"},
    };
    for (const auto& [command, answer] : rows) {
        EXPECT_EQ(tell(command), answer);
        EXPECT_EQ(up().delay, base::Duration{}) << command;
    }
}

TEST_F(RelayControlTest, ATraceTakesThePlaceOfARateAndARateThatOfATrace) {
    const std::string path = testing::TempDir() + "link_trace_" + std::to_string(::getpid());
    std::ofstream(path) << "10\n20\n";
    EXPECT_EQ(tell("rate 1M a-to-b trace " + path), "ok");
    ASSERT_NE(up().trace, nullptr);
    EXPECT_EQ(up().trace->opportunities(), 2U);
    EXPECT_EQ(up().bits_per_s, 0U);
    EXPECT_EQ(down().trace, nullptr);
    EXPECT_EQ(tell("rate 3M"), "ok");
    EXPECT_EQ(up().trace, nullptr);
    std::ofstream(path) << "10\n9\n";
    EXPECT_EQ(tell("trace " + path), "error: " + path + ":2: 9 is before 10 of the line above");
    std::remove(path.c_str());
}

TEST_F(RelayControlTest, StatisticsAreJsonOfBothDirections) {
    EXPECT_EQ(tell("b-to-a mtu 100"), "ok");
    b_to_a.send(LinkPacket::of_datagram(std::vector<uint8_t>(200)), now);
    b_to_a.send(LinkPacket::of_datagram(std::vector<uint8_t>(50)), now);
    const auto stats = nlohmann::json::parse(tell("stats"));
    EXPECT_EQ(stats["a-to-b"]["offered_packets"], 0);
    EXPECT_EQ(stats["b-to-a"]["offered_packets"], 2);
    EXPECT_EQ(stats["b-to-a"]["offered_bytes"], 250);
    EXPECT_EQ(stats["b-to-a"]["dropped_mtu"], 1);
    EXPECT_EQ(stats["b-to-a"]["in_flight_packets"], 1);
    EXPECT_EQ(stats["b-to-a"]["kernel_drops"], 11);
    EXPECT_EQ(stats["a-to-b"]["send_failures"], 20);
}

}  // namespace
}  // namespace continuo::tests
