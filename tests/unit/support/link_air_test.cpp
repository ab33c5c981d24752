// Effects of the air on packets: loss, bursts, jitter, reordering, duplicates, corruption.
#include "tests/unit/support/link_driver.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>

namespace continuo::tests {
namespace {

using base::microseconds;
using base::milliseconds;
using base::seconds;

constexpr uint32_t kMany = 100'000;
constexpr base::Duration kGap = microseconds(100);
// Standard deviations a frequency may be off; the seeds are fixed, so that this never changes.
constexpr double kBound = 4;

double deviation(double chance, double count) {
    return std::sqrt(count * chance * (1 - chance));
}

bool is_in_order(const std::vector<Arrival>& arrivals) {
    return std::is_sorted(arrivals.begin(), arrivals.end(),
                          [](const Arrival& a, const Arrival& b) { return a.number < b.number; });
}

TEST(LinkAir, LosesAsManyAsItShould) {
    for (const uint32_t ppm : {1000U, 10'000U, 100'000U, 500'000U}) {
        LinkDriver driver({.delay = milliseconds(1), .loss_ppm = ppm}, ppm);
        driver.stream(kMany, kGap, 100);
        driver.run_for(seconds(1));
        const double chance = ppm / 1e6;
        EXPECT_NEAR(static_cast<double>(driver.link.counters().dropped_by(LinkDrop::Loss)),
                    kMany * chance, kBound * deviation(chance, kMany));
        EXPECT_TRUE(is_in_order(driver.arrivals));
        driver.expect_all_accounted_for();
    }
}

TEST(LinkAir, CertainLossLosesAllAndNoLossNone) {
    for (const uint32_t ppm : {0U, kCertain}) {
        LinkDriver driver({.loss_ppm = ppm});
        driver.stream(1000, kGap, 100);
        EXPECT_EQ(driver.arrivals.size(), ppm == 0 ? 1000U : 0U);
    }
}

TEST(LinkAir, TheSameSeedIsTheSameRun) {
    const auto run = [](uint64_t seed) {
        LinkDriver driver({.jitter = milliseconds(5),
                           .keeps_order = false,
                           .loss_ppm = 100'000,
                           .reorder_ppm = 10'000,
                           .duplicate_ppm = 50'000},
                          seed);
        driver.stream(1000, milliseconds(1), 100);
        std::vector<std::pair<uint32_t, base::TimePoint>> out;
        for (const Arrival& arrival : driver.arrivals) {
            out.emplace_back(arrival.number, arrival.at);
        }
        return out;
    };
    EXPECT_EQ(run(7), run(7));
    EXPECT_NE(run(7), run(8));
}

TEST(LinkAir, BurstsAreAsLongAndAsFrequentAsTheModelSays) {
    LinkDriver driver({.burst = {.good_to_bad_ppm = 10'000, .bad_to_good_ppm = 200'000}}, 11);
    driver.stream(kMany, kGap, 100);
    std::vector<uint32_t> bursts;
    uint32_t expected = 0;
    for (const Arrival& arrival : driver.arrivals) {
        if (arrival.number > expected) {
            bursts.push_back(arrival.number - expected);
        }
        expected = arrival.number + 1;
    }
    // Lengths are geometric with mean 1/r = 5, standard deviation sqrt(1-r)/r; the share of the bad
    // state is p/(p+r).
    const auto count = static_cast<double>(bursts.size());
    double sum = 0;
    for (const uint32_t length : bursts) {
        sum += length;
    }
    EXPECT_NEAR(sum / count, 5, kBound * std::sqrt(0.8) / 0.2 / std::sqrt(count));
    // Each burst and the good run before it are one cycle of mean 1/p + 1/r.
    EXPECT_NEAR(count, kMany / 105.0, kBound * std::sqrt(kMany / 105.0));
    EXPECT_EQ(sum, static_cast<double>(driver.link.counters().dropped_by(LinkDrop::Burst)));
    EXPECT_GT(*std::max_element(bursts.begin(), bursts.end()), 15U);
}

TEST(LinkAir, LossWithinAndOutsideBurstsHasItsOwnChance) {
    LinkDriver driver({.burst = {.good_to_bad_ppm = 100'000,
                                 .bad_to_good_ppm = 100'000,
                                 .loss_in_bad_ppm = 600'000,
                                 .loss_in_good_ppm = 200'000}},
                      12);
    driver.stream(kMany, kGap, 100);
    EXPECT_NEAR(static_cast<double>(driver.link.counters().dropped_by(LinkDrop::Burst)),
                kMany * 0.4, kMany * 0.01);
}

TEST(LinkAir, JitterKeepsTheOrderUnlessItMayNot) {
    for (const auto shape : {JitterShape::Uniform, JitterShape::Normal, JitterShape::Exponential}) {
        for (const bool keeps : {true, false}) {
            LinkDriver driver({.delay = milliseconds(10),
                               .jitter = milliseconds(3),
                               .jitter_shape = shape,
                               .keeps_order = keeps});
            driver.stream(5000, kGap, 100);
            driver.run_for(seconds(1));
            EXPECT_EQ(driver.arrivals.size(), 5000U);
            EXPECT_EQ(is_in_order(driver.arrivals), keeps);
        }
    }
}

TEST(LinkAir, JitterHasTheMeanAndTheBoundsOfItsShape) {
    struct Row {
        JitterShape shape;
        double mean_ms;
        double most_ms;
    };
    // The mean of a half-normal variable is sqrt(2/pi) standard deviations.
    for (const Row& row :
         {Row{JitterShape::Uniform, 1.5, 3}, Row{JitterShape::Normal, 3 * std::sqrt(2 / M_PI), 12},
          Row{JitterShape::Exponential, 3, 30}}) {
        LinkDriver driver({.delay = milliseconds(10),
                           .jitter = milliseconds(3),
                           .jitter_shape = row.shape,
                           .keeps_order = false});
        double sum = 0;
        driver.stream(20'000, milliseconds(1), 100);
        driver.run_for(seconds(1));
        for (const Arrival& arrival : driver.arrivals) {
            const auto took = arrival.at - driver.began - milliseconds(arrival.number + 10);
            const double ms = static_cast<double>(took.count()) / 1e6;
            EXPECT_GE(ms, 0);
            EXPECT_LE(ms, row.most_ms);
            sum += ms;
        }
        EXPECT_NEAR(sum / 20'000, row.mean_ms, 0.1);
    }
}

TEST(LinkAir, ReorderedPacketsComeLaterByTheirTimeAndTheOthersStayInOrder) {
    LinkDriver driver(
        {.delay = milliseconds(5), .reorder_ppm = 50'000, .reorder_by = milliseconds(2)});
    driver.stream(20'000, microseconds(500), 100);
    driver.run_for(seconds(1));
    uint64_t late = 0;
    std::vector<Arrival> punctual;
    for (Arrival& arrival : driver.arrivals) {
        const auto took = arrival.at - driver.began - arrival.number * microseconds(500);
        if (took == milliseconds(7)) {
            ++late;
        } else {
            ASSERT_EQ(took, milliseconds(5));
            punctual.push_back(std::move(arrival));
        }
    }
    EXPECT_EQ(late, driver.link.counters().reordered);
    EXPECT_NEAR(static_cast<double>(late), 1000, kBound * deviation(0.05, 20'000));
    EXPECT_TRUE(is_in_order(punctual));
    EXPECT_FALSE(is_in_order(driver.arrivals));
}

TEST(LinkAir, DuplicatesComeTwiceAndCostNoCapacity) {
    LinkDriver driver({.bits_per_s = 8'000'000, .duplicate_ppm = 100'000});
    driver.stream(10'000, milliseconds(1), 1000);
    driver.run_for(seconds(1));
    std::multiset<uint32_t> numbers;
    for (const Arrival& arrival : driver.arrivals) {
        numbers.insert(arrival.number);
        EXPECT_EQ(arrival.at - driver.began, milliseconds(arrival.number + 1));
    }
    uint64_t twice = 0;
    for (uint32_t i = 0; i < 10'000; ++i) {
        ASSERT_TRUE(numbers.count(i) == 1 || numbers.count(i) == 2) << i;
        twice += numbers.count(i) - 1;
    }
    EXPECT_EQ(twice, driver.link.counters().duplicated);
    EXPECT_NEAR(static_cast<double>(twice), 1000, kBound * deviation(0.1, 10'000));
    driver.expect_all_accounted_for();
}

TEST(LinkAir, CorruptionFlipsOneBitOfThePayload) {
    LinkDriver driver({.corrupt_ppm = 500'000});
    driver.stream(2000, kGap, 60);
    ASSERT_EQ(driver.arrivals.size(), 2000U);
    uint64_t flipped = 0;
    for (const Arrival& arrival : driver.arrivals) {
        int bits = 0;
        for (size_t i = arrival.packet.corruptible_at; i < arrival.packet.bytes.size(); ++i) {
            bits += std::popcount(arrival.packet.bytes[i]);
        }
        ASSERT_LE(bits, 1);
        flipped += static_cast<uint64_t>(bits);
    }
    EXPECT_TRUE(is_in_order(driver.arrivals)) << "the number before the payload is whole";
    EXPECT_EQ(flipped, driver.link.counters().corrupted);
    EXPECT_NEAR(static_cast<double>(flipped), 1000, kBound * deviation(0.5, 2000));
}

TEST(LinkAir, OnlyTheProtocolsThatAreToBeImpairedAre) {
    LinkDriver driver({.loss_ppm = kCertain});
    driver.send(28, LinkProtocol::Neighbour);
    driver.send(28, LinkProtocol::Tcp);
    driver.run_for(seconds(1));
    EXPECT_EQ(driver.arrivals.size(), 1U) << "ARP is not lost by chance";
    driver.change([](LinkSettings& settings) { settings.impaired = bit_of(LinkProtocol::Udp); });
    driver.send(28, LinkProtocol::Tcp);
    driver.send(28, LinkProtocol::Udp);
    driver.run_for(seconds(1));
    EXPECT_EQ(driver.arrivals.size(), 2U);
    EXPECT_EQ(driver.arrivals.back().packet.protocol, LinkProtocol::Tcp);
}

TEST(LinkAir, NothingIsUnaccountedForWhateverChangesWhen) {
    const auto trace = [] {
        std::string fault;
        return std::make_shared<const CapacityTrace>(
            *CapacityTrace::parse("1\n1\n4\n9\n400\n", "test", fault));
    }();
    for (uint64_t seed = 1; seed <= 100; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        LinkDriver driver({}, seed);
        base::SeededRandom choice(seed + 1000);
        for (int step = 0; step < 400; ++step) {
            if (choice.below(20) == 0) {
                driver.change([&](LinkSettings& settings) {
                    settings.is_up = choice.below(5) != 0;
                    settings.bits_per_s = choice.below(3) * 1'234'567;
                    settings.trace = choice.below(4) == 0 ? trace : nullptr;
                    settings.trace_from = milliseconds(choice.below(1000));
                    settings.queue_packets = static_cast<uint32_t>(1 + choice.below(50));
                    settings.queue_bytes = choice.below(2) * 20'000;
                    settings.mtu_bytes = static_cast<uint32_t>(choice.below(2) * 1280);
                    settings.delay = microseconds(choice.below(30'000));
                    settings.jitter = microseconds(choice.below(2) * 9000);
                    settings.keeps_order = choice.below(2) != 0;
                    settings.loss_ppm = static_cast<uint32_t>(choice.below(200'000));
                    settings.duplicate_ppm = static_cast<uint32_t>(choice.below(200'000));
                });
            }
            for (uint64_t i = choice.below(6); i > 0; --i) {
                driver.send(static_cast<uint32_t>(1 + choice.below(1500)));
            }
            driver.run_for(microseconds(choice.below(5000)));
            driver.expect_all_accounted_for();
        }
        driver.change([](LinkSettings& settings) { settings = {}; });
        driver.run_for(seconds(10));
        EXPECT_EQ(driver.link.queued_packets() + driver.link.in_flight_packets(), 0U);
        driver.expect_all_accounted_for();
    }
}

}  // namespace
}  // namespace continuo::tests
