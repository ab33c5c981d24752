#include "tests/support/link/link_model.hpp"
#include "tests/unit/support/link_driver.hpp"

#include <filesystem>

namespace continuo::tests {
namespace {

using base::microseconds;
using base::milliseconds;
using base::seconds;

std::shared_ptr<const CapacityTrace> trace_of(std::string_view text) {
    std::string fault;
    auto trace = CapacityTrace::parse(text, "test", fault);
    EXPECT_EQ(fault, "");
    return std::make_shared<const CapacityTrace>(std::move(*trace));
}

TEST(LinkModel, WithoutLimitsAPacketTakesExactlyTheDelay) {
    LinkDriver driver({.delay = microseconds(12'345)});
    driver.stream(100, microseconds(7), 1500);
    driver.run_for(seconds(1));
    ASSERT_EQ(driver.arrivals.size(), 100U);
    for (uint32_t i = 0; i < 100; ++i) {
        EXPECT_EQ(driver.arrivals[i].number, i);
        EXPECT_EQ(driver.arrivals[i].at - driver.began, microseconds(7 * i + 12'345));
    }
    driver.expect_all_accounted_for();
}

TEST(LinkModel, TheRateIsExactOverAnyNumberOfPackets) {
    // 7 Mbit/s: the time of a packet is no whole number of nanoseconds.
    LinkDriver driver({.queue_packets = 10'000, .bits_per_s = 7'000'000});
    for (uint32_t i = 0; i < 7000; ++i) {
        driver.send(1500);
    }
    driver.run_for(seconds(60));
    ASSERT_EQ(driver.arrivals.size(), 7000U);
    EXPECT_EQ(driver.arrivals.back().at - driver.began, seconds(12));
    EXPECT_EQ(driver.arrivals[3499].at - driver.began, seconds(6));
}

TEST(LinkModel, AnIdleLinkSavesNothingUp) {
    LinkDriver driver({.bits_per_s = 8'000'000, .delay = milliseconds(3)});
    for (int i = 0; i < 3; ++i) {
        driver.run_for(seconds(1));
        driver.arrivals.clear();
        const base::TimePoint at = driver.now;
        driver.send(1000);
        driver.send(500);
        driver.run_for(milliseconds(10));
        ASSERT_EQ(driver.arrivals.size(), 2U);
        EXPECT_EQ(driver.arrivals[0].at - at, milliseconds(4));
        EXPECT_EQ(driver.arrivals[1].at - at, microseconds(4500));
    }
}

TEST(LinkModel, ANewRateHoldsForTheRestOfThePacketInTheTransmitter) {
    LinkDriver driver({.bits_per_s = 8000});  // a byte each millisecond
    driver.send(1000);
    driver.send(1000);
    driver.run_for(milliseconds(400));
    driver.change([](LinkSettings& settings) { settings.bits_per_s = 80'000; });
    driver.run_for(seconds(1));
    ASSERT_EQ(driver.arrivals.size(), 2U);
    EXPECT_EQ(driver.arrivals[0].at - driver.began, milliseconds(400 + 60));
    EXPECT_EQ(driver.arrivals[1].at - driver.began, milliseconds(400 + 60 + 100));
    driver.change([](LinkSettings& settings) { settings.bits_per_s = 8; });
    driver.send(1000);
    driver.run_for(seconds(100));
    EXPECT_EQ(driver.arrivals.size(), 2U);
    driver.change([](LinkSettings& settings) { settings.bits_per_s = 0; });
    driver.run_for({});
    EXPECT_EQ(driver.arrivals.size(), 3U);
}

TEST(LinkModel, AFullQueueDropsTheNewest) {
    LinkDriver driver({.queue_packets = 5, .bits_per_s = 8'000'000});
    for (int i = 0; i < 8; ++i) {
        driver.send(1000);
    }
    EXPECT_EQ(driver.link.queued_packets(), 5U);
    EXPECT_EQ(driver.link.counters().dropped_by(LinkDrop::Queue), 3U);
    driver.run_for(seconds(1));
    ASSERT_EQ(driver.arrivals.size(), 5U);
    EXPECT_EQ(driver.arrivals.back().number, 4U);
    EXPECT_EQ(driver.link.counters().most_queued_packets, 5U);
    driver.expect_all_accounted_for();
}

TEST(LinkModel, TheQueueIsLimitedInBytesAsWell) {
    LinkDriver driver({.queue_packets = 100, .queue_bytes = 3000, .bits_per_s = 8000});
    for (int i = 0; i < 3; ++i) {
        driver.send(1200);
    }
    driver.send(600);
    EXPECT_EQ(driver.link.queued_bytes(), 3000U);
    EXPECT_EQ(driver.link.counters().dropped_by(LinkDrop::Queue), 1U);
}

TEST(LinkModel, ASuperPacketCountsAsItsSegmentsAndIsJudgedByTheLargest) {
    LinkDriver driver({.mtu_bytes = 1500, .queue_packets = 20, .bits_per_s = 8'000'000});
    LinkPacket super;
    super.bytes.resize(15'000);
    super.wire_bytes = 15'000;
    super.segments = 10;
    super.segment_bytes = 1500;
    super.protocol = LinkProtocol::Tcp;
    for (int i = 0; i < 3; ++i) {
        driver.link.send(super, driver.now);
    }
    EXPECT_EQ(driver.link.queued_packets(), 20U);
    EXPECT_EQ(driver.link.counters().dropped_by(LinkDrop::Queue), 10U);
    EXPECT_EQ(driver.link.next_due() - driver.now, milliseconds(15));
    super.segment_bytes = 1501;
    driver.link.send(super, driver.now);
    EXPECT_EQ(driver.link.counters().dropped_by(LinkDrop::Mtu), 10U);
}

TEST(LinkModel, PacketsAboveTheMtuVanish) {
    LinkDriver driver({.mtu_bytes = 1280});
    for (const uint32_t bytes : {1279U, 1280U, 1281U, 1500U}) {
        driver.send(bytes);
    }
    driver.run_for(seconds(1));
    EXPECT_EQ(driver.arrivals.size(), 2U);
    EXPECT_EQ(driver.link.counters().dropped_by(LinkDrop::Mtu), 2U);
    driver.expect_all_accounted_for();
}

TEST(LinkModel, DownDropsAllAlsoWhatIsUnderWayAndUpBeginsAnew) {
    LinkDriver driver({.bits_per_s = 8'000'000, .delay = milliseconds(50)});
    driver.stream(10, milliseconds(1), 2000);  // five in the air, five in the queue
    EXPECT_EQ(driver.link.in_flight_packets(), 5U);
    driver.change([](LinkSettings& settings) { settings.is_up = false; });
    driver.send(100);
    driver.run_for(seconds(1));
    EXPECT_TRUE(driver.arrivals.empty());
    EXPECT_EQ(driver.link.counters().dropped_by(LinkDrop::Down), 11U);
    EXPECT_EQ(driver.link.next_due(), base::kNever);
    driver.change([](LinkSettings& settings) { settings.is_up = true; });
    const base::TimePoint at = driver.now;
    driver.send(1000);
    driver.run_for(seconds(1));
    ASSERT_EQ(driver.arrivals.size(), 1U);
    EXPECT_EQ(driver.arrivals[0].at - at, milliseconds(51));
    driver.expect_all_accounted_for();
}

TEST(LinkModel, ABlockedProtocolIsDroppedAndTheOthersPass) {
    LinkDriver driver({.blocked = bit_of(LinkProtocol::Udp)});
    for (const auto protocol : {LinkProtocol::Udp, LinkProtocol::Tcp, LinkProtocol::Icmp,
                                LinkProtocol::Neighbour, LinkProtocol::Other}) {
        driver.send(100, protocol);
    }
    driver.run_for(seconds(1));
    EXPECT_EQ(driver.arrivals.size(), 4U);
    EXPECT_EQ(driver.link.counters().dropped_by(LinkDrop::Blocked), 1U);
}

TEST(LinkModel, WhatItHoldsIsBounded) {
    LinkDriver driver({.delay = seconds(10)});
    for (size_t i = 0; i < kMaxHeldPackets + 7; ++i) {
        driver.send(100);
    }
    EXPECT_EQ(driver.link.counters().dropped_by(LinkDrop::Full), 7U);
    LinkDriver large({.delay = seconds(10)});
    for (size_t i = 0; i < kMaxHeldBytes / 65'000 + 3; ++i) {
        large.send(65'000);
    }
    EXPECT_EQ(large.link.counters().dropped_by(LinkDrop::Full), 3U);
}

// --- Traces

TEST(LinkModel, ATraceDeliversAtItsOpportunitiesAndRepeats) {
    LinkDriver driver({.queue_packets = 100});
    driver.change([](LinkSettings& settings) { settings.trace = trace_of("2\n5\n5\n10"); });
    for (int i = 0; i < 7; ++i) {
        driver.send(1500);
    }
    driver.run_for(seconds(1));
    ASSERT_EQ(driver.arrivals.size(), 7U);
    const int expected[] = {2, 5, 5, 10, 12, 15, 15};
    for (size_t i = 0; i < std::size(expected); ++i) {
        EXPECT_EQ(driver.arrivals[i].at - driver.began, milliseconds(expected[i])) << i;
    }
}

TEST(LinkModel, SmallPacketsShareAnOpportunityAndLargeOnesEndInALaterOne) {
    LinkDriver driver({});
    driver.change([](LinkSettings& settings) { settings.trace = trace_of("10\n20\n30"); });
    for (const uint32_t bytes : {500U, 500U, 500U, 700U, 1000U}) {
        driver.send(bytes);
    }
    driver.run_for(seconds(1));
    ASSERT_EQ(driver.arrivals.size(), 5U);
    const int expected[] = {10, 10, 10, 20, 30};
    for (size_t i = 0; i < std::size(expected); ++i) {
        EXPECT_EQ(driver.arrivals[i].at - driver.began, milliseconds(expected[i])) << i;
    }
}

TEST(LinkModel, AnOpportunityThatNobodyWaitsForIsGone) {
    LinkDriver driver({});
    driver.change([](LinkSettings& settings) { settings.trace = trace_of("10\n20\n30"); });
    driver.run_for(milliseconds(10));
    driver.send(1500);
    driver.run_for(milliseconds(15));
    driver.send(1500);
    driver.run_for(seconds(1));
    ASSERT_EQ(driver.arrivals.size(), 2U);
    EXPECT_EQ(driver.arrivals[0].at - driver.began, milliseconds(20));
    EXPECT_EQ(driver.arrivals[1].at - driver.began, milliseconds(30));
}

TEST(LinkModel, ATraceMayBeginInItsMiddle) {
    LinkDriver driver({});
    driver.change([](LinkSettings& settings) {
        settings.trace = trace_of("100\n900\n1000");
        settings.trace_from = milliseconds(800);
    });
    driver.send(1500);
    driver.run_for(seconds(1));
    ASSERT_EQ(driver.arrivals.size(), 1U);
    EXPECT_EQ(driver.arrivals[0].at - driver.began, milliseconds(100));
}

// Sends continuously through `trace` for `span`; returns the bytes delivered in each second.
std::vector<uint64_t>
deliver_through(const std::shared_ptr<const CapacityTrace>& trace, seconds span, uint32_t bytes) {
    LinkDriver driver({.queue_packets = 200});
    driver.change([&](LinkSettings& settings) { settings.trace = trace; });
    std::vector<uint64_t> each(static_cast<size_t>(span.count()));
    while (driver.now < driver.began + span) {
        while (driver.link.queued_packets() < 200) {
            driver.send(bytes);
        }
        driver.run_for(milliseconds(1));
        for (const Arrival& arrival : driver.arrivals) {
            const auto second = static_cast<size_t>((arrival.at - driver.began) / seconds(1));
            // Exactly at the end of the last second: the next begins there.
            if (second < each.size()) {
                each[second] += arrival.packet.wire_bytes;
            }
        }
        driver.arrivals.clear();
    }
    return each;
}

TEST(LinkModel, BytesOfEachSecondAreTheTracesOwnAlsoOnesThatRepeat) {
    const auto folder = std::filesystem::path(CONTINUO_SOURCE_DIR "/../shared/data/traces");
    // A synthetic one, 2.7 s long: 1 to 9 opportunities in a slot of 50 ms, and a gap of 1.2 s.
    std::string text;
    for (int slot = 1; slot <= 30; ++slot) {
        for (int i = 0; i < 1 + slot % 9; ++i) {
            text += std::to_string(slot * 50) + "\n";
        }
    }
    std::vector traces{trace_of(text + "2700\n")};
    std::vector<seconds> spans{seconds(20)};
    if (std::filesystem::is_directory(folder)) {
        for (const auto& entry : std::filesystem::directory_iterator(folder)) {
            std::string fault;
            auto trace = CapacityTrace::load(entry.path(), fault);
            ASSERT_TRUE(trace.has_value()) << fault;
            traces.push_back(std::make_shared<const CapacityTrace>(std::move(*trace)));
            spans.emplace_back(traces.back()->period() / seconds(1) + 30);
        }
    }
    for (size_t n = 0; n < traces.size(); ++n) {
        std::vector<uint64_t> expected(static_cast<size_t>(spans[n].count()));
        // An opportunity at 0 has passed before the first packet comes.
        for (uint64_t i = traces[n]->first_after({}); traces[n]->time_of(i) < spans[n]; ++i) {
            expected[static_cast<size_t>(traces[n]->time_of(i) / seconds(1))] += kOpportunityBytes;
        }
        EXPECT_EQ(deliver_through(traces[n], spans[n], kOpportunityBytes), expected) << n;
    }
}

}  // namespace
}  // namespace continuo::tests
